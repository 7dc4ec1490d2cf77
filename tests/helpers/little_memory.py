"""Work that needs more memory than there is, in a process that has done little before.

Run as a program: each piece of work is done in a fork of it that may not grow, and how each fork ended is printed as
JSON. A process that has run other tests would have freed memory to use up first. All of this work asks for more than
32 MiB at once, which is more than the C library ever serves from what was freed.
"""

import json
import os
import resource
import sys

import numpy as np

import stopwise as sw

WORDS, NO_WORDS, DONE, OTHER = "a memory error with words", "a memory error without words", "done", "another error"
KERNEL = sw.kernels.Gaussian(0.5)
X = np.random.default_rng(0).uniform(size=(20, 2))
y = np.sin(5 * X[:, 0])
LARGE = np.random.default_rng(5).uniform(size=(4000, 2))
MANY = np.broadcast_to(LARGE[0], (10**7, 2))
"""Rows that take no memory yet."""
FITTED = sw.KernelRidgeRegressor(KERNEL, n_jobs=1).fit(X, y)
FITTED_ON_THREADS = sw.KernelRidgeRegressor(KERNEL, n_jobs=2).fit(X, y)
FITTED.predict(X)
"""Small work first: BLAS takes its own memory when it is first asked, and tries for ever where it cannot have it."""


def descent(**options):
    return sw.KernelGradientRegressor(KERNEL, rule="gcv", **options)


def ridge(**options):
    return sw.KernelRidgeRegressor(KERNEL, **options)


WORK = {
    "dense": lambda: descent(solver="dense").fit(LARGE, LARGE[:, 0]),
    "krylov": lambda: descent(solver="krylov", n_jobs=1).fit(MANY, MANY[:, 0]),
    "krylov on threads": lambda: descent(solver="krylov", n_jobs=2).fit(MANY, MANY[:, 0]),
    "nystrom": lambda: ridge(solver="nystrom", n_landmarks=2000).fit(LARGE, LARGE[:, 0]),
    "kernel": lambda: KERNEL(LARGE),
    "predict": lambda: FITTED.predict(MANY),
    "predict on threads": lambda: FITTED_ON_THREADS.predict(MANY),
    "path": lambda: FITTED.path_.fit(np.linspace(0, 9, 10**6)),
}


def end_of(work):
    """Do it without growing, and say how it ended."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used, used))
    try:
        work()
    except MemoryError as problem:
        return WORDS if str(problem) else NO_WORDS
    except Exception as problem:  # noqa: BLE001 - whatever it is, the test shows it
        return f"{OTHER}: {problem!r}"[:1000]
    return DONE


def in_fork(work):
    """How the work ended in a fork, told through a pipe; a fork that died without a word is told by its code."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, end_of(work).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as told:
        words = told.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return words or f"exit code {code}"


if __name__ == "__main__":
    json.dump({name: in_fork(work) for name, work in WORK.items()}, sys.stdout)

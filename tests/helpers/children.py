"""Work done in child processes that are killed, and what they leave behind."""

import os
import signal
import sys

from hostile import watchdog

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def in_child(work):
    """Run something in a forked process; how it ended, as `os.waitstatus_to_exitcode` tells it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(3)
    try:
        with watchdog(60):
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def after(function):
    """The function, and then death."""

    def run_and_die(*arguments, **options):
        function(*arguments, **options)
        die()

    return run_and_die


def hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]

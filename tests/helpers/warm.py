"""Commands in processes of their own that need no start: forks of one that has imported stopwise and done nothing else.

A process takes two seconds to import what it needs, and a fork none. `stand_in` gives what to write where a shell line
or a list of arguments would say `python -m stopwise`: a small client that hands its open files, folder and environment
to the server, passes signals on, and ends as the command ends. The command has its own streams and ends as Python ends,
so all that it skips is the start, which `tests/cli` tries with real processes too.
"""

import contextlib
import fcntl
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

HIGH = 400
"""Open files wait above this number until they can take their own."""
MOST = 253
"""As many open files as one message can carry."""


@functools.cache
def stand_in():
    """The start of a command that behaves like `python -m stopwise`; its server ends with this process."""
    place = os.path.join(tempfile.mkdtemp(prefix="warm"), "socket")
    words = [sys.executable, __file__, "serve", place]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout.readline() == b"ready\n"
    stand_in.server = server  # its end of a pipe stays open as long as this process lives
    return [sys.executable, "-I", "-S", __file__, "ask", place]


# ---- the client ---------------------------------------------------------------------------------------------------


def is_open(number):
    with contextlib.suppress(OSError):
        os.fstat(number)
        return True
    return False


def ask(place, words):
    """Have the server run the command on this process's files; the command's exit code."""
    files = [number for number in range(MOST) if is_open(number)]
    request = {"files": files, "words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(place)
        socket.send_fds(line, [b"."], files)
        line.sendall(json.dumps(request).encode() + b"\n")
        for number in files:
            os.close(number)
        answers = line.makefile()
        child = int(answers.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(child, number))
        return int(answers.readline())


# ---- the server ---------------------------------------------------------------------------------------------------


def serve(place):
    """Fork for every command asked for, until standard input ends."""
    import select

    import stopwise.cli
    import stopwise.experiments.command  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen()
        os.write(1, b"ready\n")
        while door in select.select([door, 0], [], [])[0]:
            line, _ = door.accept()
            if os.fork() == 0:
                door.close()
                return attend(line)
            line.close()
    os.unlink(place)
    os.rmdir(os.path.dirname(place))
    os._exit(0)


def attend(line):
    """Run one command in a fork and tell its number and how it ended; the fork itself returns what it is to run."""
    _, handed, _, _ = socket.recv_fds(line, 1, MOST)
    request = json.loads(line.makefile().readline())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        line.detach()
        take_over(handed, request)
        return request["words"]
    for number in handed:
        os.close(number)
    line.sendall(f"{child}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    line.sendall(f"{code if code >= 0 else 128 - code}\n".encode())
    os._exit(0)


def take_over(handed, request):
    """Another process's files under its own numbers, its folder and its environment, and Python's streams on them."""
    waiting = [fcntl.fcntl(number, fcntl.F_DUPFD, HIGH) for number in handed]
    os.closerange(0, HIGH)
    for source, number in zip(waiting, request["files"], strict=True):
        os.dup2(source, number)
        os.close(source)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = is_open(number) and os.fdopen(number, "w" if number else "r", 1 if number == 2 else -1, closefd=False)
        setattr(sys, name, stream or None)
        setattr(sys, f"__{name}__", stream or None)


def run(words):
    """`python -c code ...` or `python -m stopwise ...`, as the top of a program."""
    if words[:1] == ["-c"]:
        sys.argv = words[1:]
        exec(words[1], {"__name__": "__main__"})
    else:
        from stopwise.cli import main

        main(words, prog_name="stopwise")


if __name__ == "__main__":
    role, where, *rest = sys.argv[1:]
    if role == "ask":
        sys.exit(ask(where, rest))
    run(serve(where))

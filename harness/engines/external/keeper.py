"""The keeper of a program: it starts the program, and ends all processes that the program has started.

    python -I -S keeper.py LINK COMMAND...

LINK is the number of a socket to the harness. The keeper writes the process id of the program to it, or a negative
error number if the program cannot be started, and at the end the wait status of the program. When the program ends,
or the harness closes the socket or is killed, the keeper kills all descendants of its own and ends.

The harness makes the keeper a subreaper (`adopt_orphans`) in a session of its own. So a process whose parent has ended
becomes a child of the keeper, even if it has left the session of the program, and a kill of the process group of the
harness spares the keeper. A control group would also find all processes, but making one needs rights that most users
do not have. The keeper is a process of its own because a measuring process is killed at its time limit, and then could
end nothing. The modules that it imports are part of the interpreter, which takes 15 ms to start.
"""

# ruff: noqa: SIM105, PTH123, PTH208 (contextlib and pathlib would double the time that the keeper takes to start)

from __future__ import annotations

import os
import select
import sys
import time

SIGKILL, SIGPIPE, SIGXFSZ = 9, 13, 25
"""Signals. The module `signal` would double the time that the keeper takes to start."""

SECOND_MS = 1000
"""The interval at which ended orphans are reaped."""

KILL_TIMEOUT_S = 5.0
"""The time after which processes that this user may not kill are left alone. Not measured."""


def main(link: int, command: list[str]) -> None:
    os.set_inheritable(link, False)  # noqa: FBT003 (the name of the argument is no keyword)
    try:
        # its own process group, which a program may kill as a whole; and Python ignores two signals, which others need
        program = os.posix_spawnp(command[0], command, os.environ, setpgroup=0, setsigdef=[SIGPIPE, SIGXFSZ])
    except OSError as error:
        _report(link, -(error.errno or 0))
        return
    _report(link, program)
    for pipe in range(3):  # the other end must see when the program closes its own
        os.close(pipe)
    status = _wait(link, program)
    _end_descendants()
    _report(link, status)


def _report(link: int, number: int) -> None:
    try:
        os.write(link, f"{number}\n".encode("ascii"))
    except OSError:  # the harness has ended
        pass


def _wait(link: int, program: int) -> int:
    """Wait for the end of the program or of the harness; return the wait status of the program."""
    ends = select.poll()
    ends.register(link, select.POLLIN)
    ends.register(os.pidfd_open(program), select.POLLIN)
    while True:
        closed = any(each == link for each, _ in ends.poll(SECOND_MS))
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                return ended[1]
        if closed:
            return SIGKILL


def _end_descendants() -> None:
    """Kill all descendants, and those that they start meanwhile, until there is no child left."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while time.monotonic() < deadline:
        for process in _descendants():
            try:
                os.kill(process, SIGKILL)
            except OSError:  # it has ended, or belongs to another user
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # an orphan would be a child
            return
        time.sleep(0.001)


def _descendants() -> list[int]:
    """Return the process ids of all descendants of this process."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:  # it has ended
                continue
            children.setdefault(parent, []).append(int(name))
    found, unvisited = [], [os.getpid()]
    while unvisited:
        below = children.get(unvisited.pop(), [])
        found += below
        unvisited += below
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

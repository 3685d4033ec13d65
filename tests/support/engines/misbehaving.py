"""A program that answers `hello`, and runs Python code at another request: `misbehaving.py REQUEST CODE`.

It imports as little as possible, since tests start it many times, as `python -S -E`.
"""

import os
import sys
import time

REPLIES = {"hello": b'{"protocol": 1, "name": "tiny", "output": "answers"}'}


def write(raw, to=1):
    """Write bytes to a stream, all at once."""
    while raw:
        raw = raw[os.write(to, raw) :]


def daemon():
    """Start a process that leaves this one's session and has no living parent; write its id to standard error."""
    if os.fork() == 0:
        os.setsid()
        if process := os.fork():
            write(b"%d\n" % process, to=2)
        else:
            time.sleep(1000)
        os._exit(0)
    os.wait()


def main(when, code):
    while line := sys.stdin.readline():
        request = line.split('"')[3]
        if request == when:
            exec(code, globals())
        elif request == "close":
            break
        else:
            write(REPLIES.get(request, b"{}") + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

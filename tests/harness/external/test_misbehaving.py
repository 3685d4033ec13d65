"""Whatever a program does, the error is one line that names the engine, and neither a process nor a file is left."""

from __future__ import annotations

import re
import select
import sys
from contextlib import closing, contextmanager, suppress

import psutil
import pytest
from support.harness.processes import all_end
from support.paths import ROOT

from deltamark.errors import DeltamarkError
from deltamark.harness.engines.external import program
from deltamark.harness.engines.external.messages import PROTOCOLS, Apply, ApplyReply, Feed, Reply, State
from deltamark.harness.engines.external.program import Program
from deltamark.harness.measure.child import ForkedChild

MISBEHAVING = ROOT / "tests" / "support" / "engines" / "misbehaving.py"


def started(request: str, code: str) -> Program:
    """Start a program that runs code at a request."""
    return Program("tiny", [sys.executable, "-S", "-E", str(MISBEHAVING), request, code])


@pytest.fixture(autouse=True)
def _short_wait_after_a_failure(monkeypatch):
    monkeypatch.setattr(program, "FAILED_TIMEOUT_S", 0.2)


@contextmanager
def nothing_left(running: Program):
    """Close a program; its directory and all its processes must be gone then."""
    processes = [running.process, *(each.pid for each in psutil.Process(running.process).children(recursive=True))]
    with closing(running):
        yield
    assert not running.files.path.exists()
    assert all_end(processes)


FAULTS = {
    "no JSON": ("write(b'nonsense\\n')", "JSON is malformed: .*: 'nonsense'"),
    "no UTF-8": ("write(b'\\xff\\xfe\\n')", r"JSON is malformed: .*: '\\xff\\xfe'"),
    "no object": ("write(b'[1]\\n')", "Expected `object`, got `array`"),
    "nested too deeply": ("write(b'{\"x\":' + b'[' * 100_000 + b'\\n')", "maximum recursion depth exceeded"),
    "a key that is missing": ("write(b'{}\\n')", "missing required field `changes`"),
    "changes below 0": ("write(b'{\"changes\": -1}\\n')", "Expected `int` >= 0"),
    "more changes than 64 bits hold": ("write(b'{\"changes\": %d}\\n' % 2**70)", "Expected `int` <= 9223"),
    "seconds below 0": ("write(b'{\"changes\": 1, \"seconds\": -1}\\n')", "Expected `float` >= 0"),
    "infinite seconds": ("write(b'{\"changes\": 1, \"seconds\": 1e999}\\n')", "out of range"),
    "seconds that are no number": ("write(b'{\"changes\": 1, \"seconds\": NaN}\\n')", "JSON is malformed"),
    "output before the reply": ("write(b'loading {\"changes\": 1}\\n')", "JSON is malformed: .*: 'loading "),
    "two lines": ("write(b'{}\\n{}\\n')", r"it wrote more than one line: '\{\}\\n'"),
    "an error with escape codes": (
        "write(b'{\"error\": \"bad\\\\u001b[2J\\\\nluck\"}\\n')", r"failed to apply: bad\\x1b\[2J luck;",
    ),
    "an endless line": ("while True: write(b'0' * 65536)", "a reply of more than 1048576 bytes: '00"),
    "an end after much standard error": (
        "write(b'noise\\n' * 1_000_000, to=2); write(b'last \\x1b[2J words\\n', to=2); sys.exit(3)",
        r"it has ended with exit code 3: last \\x1b\[2J words;",
    ),
    "an end by a signal without a name": ("os.kill(os.getpid(), 40)", "it was ended by signal 40"),
}  # fmt: skip


SILENCES = {
    "half a line": ("write(b'{\"cha'); sys.stdin.readline()", r"no reply within 0\.2 s"),
    "a stopped process": ("os.kill(os.getpid(), 19)", r"no reply within 0\.2 s"),
    "output that is closed": ("os.close(1); time.sleep(1000)", "it has closed its output"),
    "input that is closed": ("os.close(0); write(b'{}\\n'); time.sleep(1000)", "it has closed its input"),
}  # fmt: skip


def error_of(running: Program, limit: float = 30) -> str:
    """Return the error of a request, of which the first may still succeed."""
    with pytest.raises(DeltamarkError) as raised:  # noqa: PT012
        running.request(Apply(), Reply, limit)
        running.request(Apply(), ApplyReply, limit)
    return str(raised.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_line_and_leaves_nothing(fault):
    code, message = FAULTS[fault]
    running = started("apply", code)
    with nothing_left(running):
        error = error_of(running)
    assert re.search(message, error)
    assert re.fullmatch(r"tiny failed to apply: [\x20-\x7e]+; docs/protocol\.md describes the protocol", error)


@pytest.mark.parametrize("fault", SILENCES)
def test_a_silent_program_is_ended_within_the_limit_and_leaves_nothing(monkeypatch, fault):
    monkeypatch.setattr(program, "ENDING_TIMEOUT_S", 0.2)
    code, message = SILENCES[fault]
    running = started("apply", code)
    with nothing_left(running):
        assert re.fullmatch(f"tiny failed to apply: {message}; .*", error_of(running, 0.2))


def test_output_that_no_request_has_asked_for_is_an_error(tmp_path):
    more = tmp_path / "more"
    waiting = f"while not os.path.exists({str(more)!r}): time.sleep(0.01)"
    running = started("apply", f"write(b'{{\"changes\": 1}}\\n')\n{waiting}\nwrite(b'{{}}\\n' * 1000)")
    with nothing_left(running):
        running.request(Apply(), ApplyReply)
        more.touch()
        select.select([running._process.output], [], [])
        with pytest.raises(DeltamarkError, match=r"tiny failed to state: it wrote before the request: '\{\}\\n\{\}"):
            running.request(State(), Reply)


def test_a_program_may_write_much_to_standard_error_and_go_on():
    code = "write(b'noise\\n' * 1_000_000, to=2); write(b'{\"changes\": 7}\\n')"
    running = started("apply", code)
    with nothing_left(running):
        assert running.request(Apply(), ApplyReply).changes == 7
        assert len(running._lines._said) <= program.MAX_KEPT_BYTES
    assert not running.unclean_end


def test_a_request_that_a_program_does_not_read_cannot_block_the_harness():
    running = started("hello", "write(REPLIES['hello'] + b'\\n'); time.sleep(1000)")
    with nothing_left(running), pytest.raises(DeltamarkError, match=r"no reply within 0\.2 s"):
        running.request(Feed(1, 7, {f"{number:01000}": "" for number in range(1000)}), Reply, limit=0.2)


@pytest.mark.parametrize("code", [
    "daemon(); write(b'{\"changes\": 1}\\n')", "daemon(); sys.exit(3)", "daemon(); os.kill(0, 9)",
])  # fmt: skip
def test_a_process_that_has_left_the_session_ends_with_the_program(code):
    running = started("apply", code)
    with closing(running), suppress(DeltamarkError):
        running.request(Apply(), ApplyReply, limit=30)
    assert not psutil.pid_exists(int(running._lines.last_error))


def test_a_process_that_has_left_the_session_ends_if_the_harness_is_killed(tmp_path):
    def wait_with_program(phases):
        running = started("apply", "daemon(); time.sleep(1000)")
        with suppress(DeltamarkError):
            running.request(Apply(), ApplyReply, limit=0.2)
        (tmp_path / "processes").write_text(f"{running.process} {running._lines.last_error}")
        phases.wait()

    with closing(ForkedChild(wait_with_program)) as child:
        child.reach(60)
    processes = (tmp_path / "processes").read_text().split()
    assert len(processes) == 2
    assert all_end(processes)


@pytest.mark.parametrize(("code", "end"), [
    ("sys.exit(7)", "it has ended with exit code 7"), ("time.sleep(1000)", r"it did not end within 0\.2 s"),
])  # fmt: skip
def test_an_end_that_is_not_clean_is_an_error_unless_the_program_has_failed_before(monkeypatch, code, end):
    monkeypatch.setattr(program, "CLOSE_TIMEOUT_S", 0.2 if "within" in end else 30.0)
    running = started("close", code)
    running.close()
    with pytest.raises(DeltamarkError, match=f"tiny failed to close: {end}; "):
        running.check_end()
    running = started("close", code)
    running.failed(Apply(), "out of luck")
    running.close()
    running.check_end()


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_program_speaks_one_of_two_versions(version):
    code = f'write(b\'{{"protocol": {version}, "name": "tiny", "output": "answers"}}\\n\')'
    if version in PROTOCOLS:
        with closing(started("hello", code)) as running:
            assert running.greeting.protocol == version
    else:
        with pytest.raises(DeltamarkError, match=rf"speaks protocols 1 and 2, .*: protocol {version}"):
            started("hello", code)

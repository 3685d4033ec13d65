"""Write the summaries of a workflow into one comment on its pull request: comment.py DIRECTORY.

The files come from a workflow that may have run the code of a fork, so nothing in them is trusted. The number of the
pull request must consist of digits, and its head must be the commit of that workflow (HEAD_SHA): a forged number cannot
lead to another pull request. Links are not followed, and the text is cut to the size that GitHub accepts. It mentions
no user.

The comment is found by a hidden marker, which names the workflow, and is updated. Needs `gh`, GITHUB_REPOSITORY,
HEAD_SHA, RUN_URL, WORKFLOW and GH_TOKEN.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

AUTHOR = "github-actions[bot]"
NUMBER_FILE = "pull-request.txt"
SUMMARIES = ("summary-tpch.md", "summary-graph.md", "summary-records.md")

SEPARATED_AT = "@\u200b"
"""An at sign that mentions no user: a space of no width follows it."""

MAX_CHARACTERS = 60_000
"""The characters of all summaries. GitHub refuses a comment of more than 65,536."""


class RefusedError(Exception):
    """The files of a workflow cannot be used."""


def main() -> int:
    directory, repository = Path(sys.argv[1]), f"repos/{os.environ['GITHUB_REPOSITORY']}"
    workflow = os.environ["WORKFLOW"]
    try:
        number, text = _number(directory), _body(directory, workflow, os.environ["RUN_URL"])
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    head = _gh(f"{repository}/pulls/{number}")["head"]["sha"]
    if head != os.environ["HEAD_SHA"]:
        print(f"no comment: {os.environ['HEAD_SHA']} is not the head of pull request {number}, which is {head}")
        return 0
    own = _own_comment(f"{repository}/issues/{number}/comments", _marker(workflow))
    if own is None:
        _gh(f"{repository}/issues/{number}/comments", "--method", "POST", body={"body": text})
    else:
        _gh(f"{repository}/issues/comments/{own}", "--method", "PATCH", body={"body": text})
    return 0


def _number(directory: Path) -> str:
    text = _read(directory / NUMBER_FILE).strip()
    if not re.fullmatch(r"[1-9][0-9]{0,9}", text, re.ASCII):
        raise RefusedError(f"not the number of a pull request: {text[:40]!r}")
    return text


def _marker(workflow: str) -> str:
    return f"<!-- deltamark {workflow} -->"


def _body(directory: Path, workflow: str, run: str) -> str:
    found = [_read(directory / name) for name in SUMMARIES if os.path.lexists(directory / name)]
    text = "\n".join(found) or f"### deltamark {workflow}: no verdict\n\nThe workflow ended with an error.\n"
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}\n\n(cut)\n"
    return f"{_marker(workflow)}\n{text.replace('@', SEPARATED_AT)}\n[The run that measured it]({run})\n"


def _read(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        raise RefusedError(f"not a file: {path.name}")
    return path.read_text(encoding="utf-8", errors="replace")


def _own_comment(comments: str, marker: str) -> int | None:
    """Return the id of the comment with the marker."""
    pages = _gh(f"{comments}?per_page=100", "--paginate", "--slurp")
    own = (
        comment["id"]
        for page in pages
        for comment in page
        if comment["user"]["login"] == AUTHOR and comment["body"].startswith(marker)
    )
    return next(own, None)


def _gh(path: str, *options: str, body: Mapping[str, str] | None = None) -> Any:
    """Call GitHub's interface; return its answer."""
    words = ["gh", "api", path, *options, *([] if body is None else ["--input", "-"])]
    text = "" if body is None else json.dumps(body)
    done = subprocess.run(words, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    raise SystemExit(main())

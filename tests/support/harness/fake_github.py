"""A program `gh` that answers from a file, and stores the comments that it is given."""

from __future__ import annotations

import json
import sys
from pathlib import Path

PROGRAM = f"""#!{sys.executable}
import json, pathlib, re, sys

file = pathlib.Path(__file__).with_name("github.json")
state = json.loads(file.read_text())
command, path, *options = sys.argv[1:]
assert command == "api"
method = options[options.index("--method") + 1] if "--method" in options else "GET"
body = json.load(sys.stdin)["body"] if "--input" in options else None
match method, re.sub("[0-9]+", "N", path):
    case "GET", "repos/owner/name/pulls/N":
        answer = {{"head": {{"sha": state["heads"][path.rpartition("/")[2]]}}}}
    case "GET", "repos/owner/name/issues/N/comments?per_page=N":
        assert {{"--paginate", "--slurp"}} <= set(options)
        answer = [[comment] for comment in state["comments"]]
    case "POST", "repos/owner/name/issues/N/comments":
        answer = {{"id": 1 + len(state["comments"]), "user": {{"login": "github-actions[bot]"}}, "body": body}}
        state["comments"].append(answer)
    case "PATCH", "repos/owner/name/issues/comments/N":
        (answer,) = [each for each in state["comments"] if each["id"] == int(path.rpartition("/")[2])]
        answer["body"] = body
    case _:
        sys.exit(f"HTTP 404: {{method}} {{path}}")
file.write_text(json.dumps(state))
print(json.dumps(answer))
"""


class FakeGitHub:
    """The comments of one pull request, and the heads of all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file = directory / "github.json"
        program = directory / "gh"
        program.write_text(PROGRAM)
        program.chmod(0o755)

    def set(self, heads: dict[str, str], comments: dict[str, str]) -> None:
        """Set the heads by the numbers of pull requests, and comments by their authors."""
        listed = [
            {"id": number, "user": {"login": author}, "body": body}
            for number, (author, body) in enumerate(comments.items(), 1)
        ]
        self._file.write_text(json.dumps({"heads": heads, "comments": listed}))

    @property
    def comments(self) -> list[tuple[str, str]]:
        """The authors and texts of the comments."""
        return [(each["user"]["login"], each["body"]) for each in json.loads(self._file.read_text())["comments"]]

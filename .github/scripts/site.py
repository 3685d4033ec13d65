"""Make the site of the records on a branch: site.py BRANCH OUTPUT.

The site has a report for each machine and scale factor, the history of the branch, and a page that links to them.
"""

from __future__ import annotations

import html
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>deltamark: records</title>
<h1>deltamark: records</h1>
<ul>
{links}
</ul>
</html>
"""


def main() -> int:
    branch, output = sys.argv[1], Path(sys.argv[2]).resolve()
    output.mkdir(parents=True, exist_ok=True)
    history = output / "history.html"
    _harness("history", f"BRANCH={branch}", f"OUTPUT={history}")
    links = [_link(history.name, "history of all cells"), *_reports(branch, output)]
    (output / "index.html").write_text(PAGE.format(links="\n".join(links)), encoding="utf-8")
    return 0


def _reports(branch: str, output: Path) -> Iterator[str]:
    """Make the reports; return a link to each."""
    with tempfile.TemporaryDirectory() as directory:
        records = Path(directory)
        _extract(branch, records)
        for file in sorted(records.glob("*/records.jsonl")):
            machine = file.parent.name
            for sf in _scale_factors(file):
                report = f"{machine}-sf{sf}.html"
                settings = (f"SF={sf}", f"RESULTS={records}", f"MACHINE={machine}", f"OUTPUT={output / report}")
                _harness("report", *settings)
                yield _link(report, f"{machine}, scale factor {sf}")


def _extract(branch: str, directory: Path) -> None:
    archive = subprocess.run(["git", "archive", branch], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(directory, filter="data")


def _scale_factors(file: Path) -> list[str]:
    with file.open(encoding="utf-8") as lines:
        contents = map(json.loads, lines)
        found = {content.get("params", content).get("sf") for content in contents}  # other suites have none
    return sorted(found - {None}, key=float)


def _link(path: str, text: str) -> str:
    return f'<li><a href="{html.escape(path)}">{html.escape(text)}</a></li>'


def _harness(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "harness", *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    raise SystemExit(main())

#!/usr/bin/env bash
# Build the source distribution and the wheel, and use each in a new environment: distributions.sh DIRECTORY
#
# The wheel is built from the source distribution, and setuptools is the pinned one. The packages that an environment
# needs are the newest that pyproject.toml allows, as a user gets them.
set -euo pipefail
directory=$(realpath -m "$1")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

cd "$root"
.venv/bin/uv build --quiet --build-constraints requirements-build.lock --require-hashes --out-dir "$directory" .
cd "$temporary"
for file in "$directory"/deltamark-*.{tar.gz,whl}; do
  home=$temporary/$(basename "$file")
  python3 -m venv "$home"
  "$home/bin/pip" install --quiet --disable-pip-version-check "$file[bench]"
  "$home/bin/python" -W error "$root/.github/scripts/smoke.py" "$file"
  "$home/bin/deltamark" bench SF=0.01 QUERIES=q06 LOGICAL=1000 PHYSICAL=1 RUNS=1 RESULTS="$home/results"
done

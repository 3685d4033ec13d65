#!/usr/bin/env bash
# Compare the commit in GITHUB_WORKSPACE with BASE, write the outputs of the step, and end as the comparison does.
#
# The settings come from the environment, so that no value is read as shell text; empty ones keep their defaults.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
settings=(REPO="$GITHUB_WORKSPACE" DATA="$RUNNER_TEMP/deltamark-data")
for name in BASE BUILD EXEC QUERIES SF PHYSICAL WORKLOAD; do
  [[ -z ${!name:-} ]] || settings+=("$name=${!name}")
done

cd "$root"
code=0
.venv/bin/python -m harness compare "${settings[@]}" || code=$?

if [[ -e .compare/verdict-tpch.txt ]]; then  # a comparison that ends with an error leaves none
  {
    echo "verdict=$(< .compare/verdict-tpch.txt)"
    echo "summary=$root/.compare/summary-tpch.md"
    echo "json=$root/.compare/verdict-tpch.json"
  } >> "$GITHUB_OUTPUT"
fi
exit "$code"

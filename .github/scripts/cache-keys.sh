#!/usr/bin/env bash
# Print the keys of a job's caches, as outputs of a step: cache-keys.sh PURPOSE DATA
#
# PURPOSE keeps apart the packages and kernels of tests and of measurements, which differ. DATA names the data, such as
# tpch-0.3. A key covers all that decides about the content: compiled kernels also depend on the processor.
set -euo pipefail
purpose=$1 data=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

digest() {  # of files, and of the Python files in directories
  find "$@" -type f \( -name '*.py' -o -name '*.lock' -o -name '*.txt' \) -print0 | sort -z | xargs -0 sha256sum |
    sha256sum | cut -c1-16
}

python=$(python3 -c 'import platform; print(platform.python_version())')
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1 | tr -cs 'A-Za-z0-9\n' '-')
echo "pip=pip-$purpose-$python-$(digest requirements.lock requirements-build.lock peers)"
echo "kernels=kernels-$purpose-$python-$processor-$(digest requirements.lock dataflow/{kernels,operators,interpreter})"
echo "data=data-$data-$(digest requirements.lock datagen)"

#!/usr/bin/env bash
# Append records to a branch that has a folder per machine: append-records.sh REPOSITORY BRANCH DIRECTORY
#
# The branch shares no history with the others, and begins with the first records. If another job has pushed meanwhile,
# the records are appended to its commit.
set -euo pipefail
repository=$1 branch=$2 directory=$3
attempts=5

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
export GIT_AUTHOR_NAME="github-actions[bot]" GIT_AUTHOR_EMAIL="github-actions[bot]@users.noreply.github.com"
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL

clone() {  # the last commit of the branch, or an empty branch if there is none
  local status=0
  git init --quiet --initial-branch "$branch" "$1"
  git ls-remote --exit-code --heads "$repository" "refs/heads/$branch" > /dev/null || status=$?
  case $status in
    0) git -C "$1" pull --quiet --depth 1 "$repository" "$branch" ;;
    2) ;;
    *) return "$status" ;;
  esac
}

append() {
  local file target
  for file in "$directory"/*/*.jsonl; do
    target=$1/${file#"$directory"/}
    mkdir -p "$(dirname "$target")"
    cat "$file" >> "$target"
  done
  git -C "$1" add --all
  git -C "$1" commit --quiet --message "Add records of ${GITHUB_SHA:-a measurement}"
}

if ! compgen -G "$directory/*/*.jsonl" > /dev/null; then
  echo "error: no records: $directory/*/*.jsonl; measure first" >&2
  exit 2
fi
for ((attempt = 1; attempt <= attempts; attempt++)); do
  tree=$temporary/$attempt
  clone "$tree"
  append "$tree"
  if git -C "$tree" push --quiet "$repository" "HEAD:refs/heads/$branch"; then
    exit 0
  fi
  echo "push $attempt of $attempts was rejected" >&2
done
echo "error: the records are not on $branch; run this job again" >&2
exit 1

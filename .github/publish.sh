#!/usr/bin/env bash
# Lay a folder's files over those of a branch that several jobs push to at once.
#
#   publish.sh REMOTE BRANCH SOURCE TARGET
#
# A push that loses a race is made again on top of what the others pushed, so that no file of
# theirs is lost. Of line files (*.jsonl) the lines of both are kept, of asv's results the
# benchmarks of both. The branch is begun empty if there is none.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
remote=$1 branch=$2 source=$(cd "$3" && pwd) target=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

overlay() {
    # The files of $source into the folder $1.
    local path
    while IFS= read -r -d '' path; do
        mkdir -p "$1/$(dirname "$path")"
        if [[ $path == *.jsonl && -f $1/$path ]]; then
            awk '!seen[$0]++' "$1/$path" "$source/$path" > "$work/lines"
            mv "$work/lines" "$1/$path"
        elif [[ $path == *.json && -f $1/$path ]]; then
            cp "$source/$path" "$work/new.json"
            python3 "$here/merge_results.py" "$1/$path" "$work/new.json"
            mv "$work/new.json" "$1/$path"
        else
            cp "$source/$path" "$1/$path"
        fi
    done < <(cd "$source" && find . -type f -print0)
}

for attempt in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$work/branch"
    git init --quiet "$work/branch"
    cd "$work/branch"
    git config user.name 'github-actions[bot]'
    git config user.email '41898282+github-actions[bot]@users.noreply.github.com'
    present=$(git ls-remote "$remote" "refs/heads/$branch")
    if [ -n "$present" ]; then
        git fetch --quiet --depth 1 "$remote" "refs/heads/$branch"
        git checkout --quiet FETCH_HEAD
    fi
    overlay "$work/branch/$target"
    git add --all
    if git diff --cached --quiet; then
        echo "$target on $branch is up to date" >&2
        exit 0
    fi
    git commit --quiet --message "Add $target of ${HEAD:-this run}"
    if git push --quiet "$remote" "HEAD:refs/heads/$branch" 2> "$work/refused"; then
        exit 0
    fi
    echo "attempt $attempt: $(tail -n 1 "$work/refused")" >&2
    sleep "$((RANDOM % (attempt + 2)))"
done
echo "gave up pushing $target to $branch after $attempt attempts" >&2
exit 1

#!/usr/bin/env bash
#
# Runs `make test` again and again, to show that it never fails by chance. Stops at the first run that fails and keeps its logs.
#
#   tools/repeat.sh COUNT            COUNT runs, one after the other
#   tools/repeat.sh COUNT --load     the same with `stress-ng`, which computes, writes and takes memory on all processors
#
# Prints one line a run: when it ended, how long it took, and its `N passed, N failed`.

set -eu
cd "$(dirname "$0")/.."

count=${1:?usage: tools/repeat.sh COUNT [--load]}
load=${2:-}
output=build/repeat.log

processors=$(nproc)
disturb() {
    exec stress-ng --quiet --cpu "$processors" --vm 1 --vm-bytes 256M --hdd 1 --hdd-bytes 64M --temp-path /tmp
}

if [ "$load" = --load ]; then
    command -v stress-ng >/dev/null || { echo "tools/repeat.sh: --load needs the package stress-ng" >&2 && exit 1; }
    disturb &
    stress=$!
    trap 'kill $stress 2>/dev/null || true' EXIT
fi

mkdir -p build
for ((run = 1; run <= count; run++)); do
    began=$SECONDS status=0
    make test >"$output" 2>&1 </dev/null || status=$?
    printf '%s  run %d of %d%s: %d s, %s\n' "$(date -u +%H:%M:%S)" "$run" "$count" "${load:+ beside a load}" \
        "$((SECONDS - began))" "$(tail -n 1 "$output")"
    if [ "$status" != 0 ]; then
        echo "what it printed: $output" >&2
        exit 1
    fi
done

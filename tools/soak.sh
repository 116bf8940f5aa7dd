#!/usr/bin/env bash
#
# Runs seeds that nobody has seen through the simulation, on every core, until the time is up or one fails.
#
# Usage: tools/soak.sh [SECONDS]

set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
batch=500
tools/build.sh c

end=$((SECONDS + seconds))
# Each core takes a range of its own, far from the others'.
soak_core() {
    local seed=$((($(date +%s) * 1000 + $1 * 1000000000) % 4000000000000))
    local done=0
    while [ $SECONDS -lt $end ]; do
        build/c/simulate --seeds $seed $((seed + batch - 1)) || return 1
        seed=$((seed + batch))
        done=$((done + batch))
    done
    echo "core $1: $done seeds"
}

cores=()
for core in $(seq "$(nproc)"); do
    soak_core "$core" &
    cores+=($!)
done
result=0
for core in "${cores[@]}"; do
    wait "$core" || result=1
done
exit $result

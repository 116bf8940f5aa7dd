#!/usr/bin/env bash
#
# Runs seeds that nobody has seen through the simulation, on every core, until the time is up. Fails if one of them does.
#
# Usage: tools/soak.sh [SECONDS]

set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
tools/build.sh c

cores=()
for core in $(seq "$(nproc)"); do
    # Each core begins where the others will not get to.
    build/c/simulate --seconds "$seconds" --seed $(($(date +%s) * 1000 + core * 1000000000000)) &
    cores+=($!)
done
result=0
for core in "${cores[@]}"; do
    wait "$core" || result=1
done
exit $result

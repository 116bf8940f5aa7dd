#!/usr/bin/env bash
#
# Looks for faults in places where nobody has looked: seeds that nobody has seen through the simulation, on every core, for a
# quarter of the time, and then the fault campaign (spec/campaign): first without leases, where it must find something, then with
# them under the same faults, then in earnest for the time that is given. Fails if one of them does. With --write the figures of
# the campaigns go into a page.
#
# Usage: tools/soak.sh [SECONDS [ARGUMENTS OF spec/campaign/run…]]

set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# -eq 0 ] || shift
tools/build.sh c 5.4 luajit
spec/foreign/run build

cores=()
for core in $(seq "$(nproc)"); do
    # Each core begins where the others will not get to.
    build/c/simulate --seconds $((seconds / 4 + 1)) --seed $(($(date +%s) * 1000 + core * 1000000000000)) &
    cores+=($!)
done
result=0
for core in "${cores[@]}"; do
    wait "$core" || result=1
done
for size in control leased; do
    spec/campaign/run --size "$size" --seconds 60 "$@" || result=1
done
spec/campaign/run --size full --seconds "$seconds" "$@" || result=1
exit $result

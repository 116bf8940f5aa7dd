#!/usr/bin/env bash
#
# Looks for faults in places where nobody has looked: seeds that nobody has seen through the simulations, on every core, for a
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
build/c/simulate_lua --fresh $((seconds / 4 + 1)) &
cores+=($!)
failed=()
for core in "${cores[@]}"; do
    wait "$core" || failed+=(simulation)
done

# campaign SIZE SECONDS [ARGUMENTS…]: what a failed one leaves is kept apart from what the next one leaves.
campaign() {
    local kept=build/campaign-failed
    rm -rf "$kept" "$kept-$1"
    spec/campaign/run --size "$1" --seconds "$2" "${@:3}" && return
    failed+=("the campaign, $1: $kept-$1")
    [ ! -d "$kept" ] || mv "$kept" "$kept-$1"
}

campaign control 60 "$@"
campaign leased 60 "$@"
campaign full "$seconds" "$@"
[ ${#failed[@]} = 0 ] || printf 'failed: %s\n' "${failed[@]}"
[ ${#failed[@]} = 0 ]

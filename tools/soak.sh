#!/usr/bin/env bash
#
# Looks for faults in places where nobody has looked: seeds that nobody has seen through the simulations, on every core, for a
# quarter of the time, and beside them 100 000 locks inside nginx (tools/soak-nginx.sh), as often as that time allows and once at
# least; and then the fault campaign (spec/campaign): first without leases, where it must find something, then with them under the
# same faults, then with idle clients and links that stall one way, then in earnest for the time that is given. Fails if one of
# them does. With --write the figures of the campaigns go into a page.
#
# Usage: tools/soak.sh [SECONDS [ARGUMENTS OF spec/campaign/run…]]

set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# -eq 0 ] || shift
quarter=$((seconds / 4 + 1))
tools/build.sh c 5.4 luajit
spec/foreign/run build

# What nginx's worker uses does not depend on how fast it gets on. Each round begins with a server and workers of its own.
inside_nginx() {
    local end=$((SECONDS + quarter))
    tools/soak-nginx.sh || return
    while [ $SECONDS -lt $end ]; do
        tools/soak-nginx.sh || return
    done
}

cores=()
for core in $(seq "$(nproc)"); do
    # Each core begins where the others will not get to.
    build/c/simulate --seconds "$quarter" --seed $(($(date +%s) * 1000 + core * 1000000000000)) &
    cores+=($!)
done
build/c/simulate_lua --fresh "$quarter" &
cores+=($!)
failed=()
inside_nginx || failed+=("nginx's worker")
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
campaign stalled 60 "$@"
campaign full "$seconds" "$@"
[ ${#failed[@]} = 0 ] || printf 'failed: %s\n' "${failed[@]}"
[ ${#failed[@]} = 0 ]

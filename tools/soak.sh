#!/usr/bin/env bash
#
# Searches for faults with new seeds and real servers. For a quarter of the time, the simulations run new seeds on every core; at
# the same time 100 000 locks are taken inside nginx (tools/soak-nginx.sh), as often as that time allows and at least once. Then the
# fault campaign (spec/campaign) runs:
# - without leases, where it must find violations;
# - with leases under the same faults;
# - with idle clients and links that stall one way;
# - in full, for the given time.
# Fails if one of them does. With --write the figures of the campaigns are written to a page.
#
# Usage: tools/soak.sh [SECONDS [ARGUMENTS OF spec/campaign/run…]]

set -eu
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# -eq 0 ] || shift
quarter=$((seconds / 4 + 1))
tools/build.sh c 5.4 luajit
spec/foreign/run build

# The resources of nginx's worker do not depend on its speed. Each round begins with a new server and new workers.
inside_nginx() {
    local end=$((SECONDS + quarter))
    tools/soak-nginx.sh || return
    while [ $SECONDS -lt $end ]; do
        tools/soak-nginx.sh || return
    done
}

cores=()
for core in $(seq "$(nproc)"); do
    # Each core begins at a seed that the others will not reach.
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

# campaign SIZE SECONDS [ARGUMENTS…]: the files of a failed campaign are kept apart from those of the next.
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

#!/usr/bin/env bash
#
# Runs `make test` again and again, to show that it never fails by chance. Stops at the first run that fails and keeps its logs.
#
#   tools/repeat.sh COUNT                 COUNT runs, one after the other
#   tools/repeat.sh COUNT --load          the same with `stress-ng`, which computes, writes and takes memory on all processors
#   tools/repeat.sh COUNT --standstill    the same, all its processes standing still for up to 3 s every few seconds, as on a
#                                         machine that gets no processor; for root, by the control group "freezer"
#
# SUITES="contract campaign": only these groups of tools/test.sh, in place of all that `make test` runs.
#
# Prints one line a run: when it ended, how long it took, and its `N passed, N failed`.

set -eu
cd "$(dirname "$0")/.."

count=${1:?usage: tools/repeat.sh COUNT [--load | --standstill]}
mode=${2:-}
output=build/repeat.log
read -ra words <<<"${SUITES:-}"
command=(make test)
[ ${#words[@]} = 0 ] || command=(tools/test.sh "${words[@]}")

processors=$(nproc)
disturb() {
    exec stress-ng --quiet --cpu "$processors" --vm 1 --vm-bytes 256M --hdd 1 --hdd-bytes 64M --temp-path /tmp
}

# Makes a control group that can be frozen: its directory, its file, and what to write into that.
make_group() {
    if [ -d /sys/fs/cgroup/freezer ]; then
        group=/sys/fs/cgroup/freezer/zklock-repeat-$$ switch=freezer.state frozen=FROZEN thawed=THAWED
    else
        group=/sys/fs/cgroup/zklock-repeat-$$ switch=cgroup.freeze frozen=1 thawed=0
    fi
    if ! mkdir "$group" || [ ! -w "$group/$switch" ]; then
        echo "tools/repeat.sh: --standstill needs root, and a control group that can be frozen" >&2
        exit 1
    fi
}

# between LEAST MOST: a random number of seconds, from two numbers of milliseconds.
between() {
    local milliseconds=$(($1 + (RANDOM * 32768 + RANDOM) % ($2 - $1)))
    printf '%d.%03d' $((milliseconds / 1000)) $((milliseconds % 1000))
}

# Lets the group stand still now and then, for at most a second more often than for longer.
stand_still() {
    trap 'echo "$thawed" >"$group/$switch"' EXIT
    trap exit TERM
    while :; do
        sleep "$(between 3000 12000)"
        echo "$frozen" >"$group/$switch"
        if ((RANDOM % 5 < 3)); then
            sleep "$(between 300 1000)"
        else
            sleep "$(between 1000 3000)"
        fi
        echo "$thawed" >"$group/$switch"
    done
}

group=
disturber=
finish() {
    if [ -n "$disturber" ]; then
        kill "$disturber" 2>/dev/null || true
        wait "$disturber" || true
    fi
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || true
}
trap finish EXIT

case $mode in
'') ;;
--load)
    command -v stress-ng >/dev/null || { echo "tools/repeat.sh: --load needs the package stress-ng" >&2 && exit 1; }
    disturb &
    disturber=$!
    ;;
--standstill)
    make_group
    stand_still &
    disturber=$!
    ;;
*)
    echo "tools/repeat.sh: no such option: $mode" >&2
    exit 2
    ;;
esac

mkdir -p build
for ((run = 1; run <= count; run++)); do
    began=$SECONDS status=0
    (
        [ -z "$group" ] || echo "$BASHPID" >"$group/cgroup.procs"
        exec "${command[@]}"
    ) >"$output" 2>&1 </dev/null || status=$?
    printf '%s  run %d of %d%s: %d s, %s\n' "$(date -u +%H:%M:%S)" "$run" "$count" "${mode:+ with $mode}" \
        "$((SECONDS - began))" "$(tail -n 1 "$output")"
    if [ "$status" != 0 ]; then
        echo "what it printed: $output" >&2
        exit 1
    fi
done

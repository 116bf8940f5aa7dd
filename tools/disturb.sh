#!/usr/bin/env bash
#
# Runs a command on a machine that is disturbed, to show that nothing fails by chance:
#
#   load          beside `stress-ng`, which computes, writes and takes memory on all processors
#   standstill    all processes of the command stand still for up to 3 s every few seconds, as on a machine that gets no processor; for
#                 root, by the control group "freezer"
#
# Usage: tools/disturb.sh load|standstill COMMAND…     for example tools/test.sh must --repeat until-fail:10

set -eu

mode=${1:?load or standstill}
shift

# Makes a control group that can be frozen: its directory, its file, and what to write into that.
make_group() {
    if [ -d /sys/fs/cgroup/freezer ]; then
        group=/sys/fs/cgroup/freezer/zklock-disturb-$$ switch=freezer.state frozen=FROZEN thawed=THAWED
    else
        group=/sys/fs/cgroup/zklock-disturb-$$ switch=cgroup.freeze frozen=1 thawed=0
    fi
    if ! mkdir "$group" || [ ! -w "$group/$switch" ]; then
        echo "tools/disturb.sh: standstill needs root, and a control group that can be frozen" >&2
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
load)
    command -v stress-ng >/dev/null || { echo "tools/disturb.sh: load needs the package stress-ng" >&2 && exit 1; }
    stress-ng --quiet --cpu "$(nproc)" --vm 1 --vm-bytes 256M --hdd 1 --hdd-bytes 64M --temp-path /tmp &
    ;;
standstill)
    make_group
    stand_still &
    ;;
*)
    echo "tools/disturb.sh: load or standstill, and not $mode" >&2
    exit 2
    ;;
esac
disturber=$!

(
    [ -z "$group" ] || echo "$BASHPID" >"$group/cgroup.procs"
    exec "$@"
)

#!/usr/bin/env bash
#
# Runs the suites of `make test` in clean systems of Debian and Ubuntu, each with its own ZooKeeper, Lua, nginx, OpenSSL and compiler.
#
# Tests the newest commit. Needs root, and the archives of the distributions. Ends with a table, in which 90/1/2 are 90 passed,
# 1 failed, and 2 left out because the system lacks something; and with `N passed, N failed`.
#
# Usage: tools/test-systems.sh [SYSTEM…] [GROUP…]     SYSTEM: bookworm trixie testing noble (all)
#                                                     GROUP: as for tools/test.sh (lint virtual contract sim c fuzz rock)

set -u
cd "$(dirname "$0")/.." || exit 1

systems=() groups=()
for word; do
    case $word in
    bookworm | trixie | testing | noble) systems+=("$word") ;;
    lint | virtual | contract | sim | c | fuzz | rock) groups+=("$word") ;;
    *) echo "tools/test-systems.sh: no such system or group: $word" >&2 && exit 2 ;;
    esac
done
[ ${#systems[@]} -gt 0 ] || systems=(bookworm trixie testing noble)
[ ${#groups[@]} -gt 0 ] || groups=(lint virtual contract sim c fuzz rock)

work=$PWD/build/test-systems
[ "$(id -u)" = 0 ] || { echo "tools/test-systems.sh: a clean system can be made by root only" >&2 && exit 1; }
# All processes of the tests end with the first of a namespace, which is this script once more.
if [ $$ != 1 ]; then
    unshare --pid --fork --kill-child --mount-proc tools/test-systems.sh "$@" &
    trap 'kill -KILL $!' INT TERM
    wait $!
    status=$?
    rm -rf "$work"
    exit $status
fi

# shellcheck source=tools/chroot.sh
. tools/chroot.sh
logs=build/test-systems-logs
# shellcheck source=tools/suites.sh
. tools/suites.sh
clear_logs
rm -f "$logs"/*.versions
# One at a time: each uses all processors.
slots=1
# Seconds; ends a hang.
ample=7200

# The counts of tools/test.sh.
count_run() {
    tail -n 1 "$1" | count_ours /dev/stdin
}

# set_up SYSTEM: the system in $work, with a clone in /root/zklock and what the tests need.
set_up() {
    rm -rf "$work" && make_chroot "$1" "$work" &&
        in_chroot "$work" apt-get -qq install -y --no-install-recommends git ca-certificates make &&
        git clone --quiet "file://$PWD" "$work/root/zklock" &&
        in_chroot "$work" /root/zklock/tools/setup.sh test
}

# run_group SYSTEM GROUP
run_group() {
    in_chroot "$work" /root/zklock/tools/test.sh "$2" | sed -u "s/^left out: /&$1: /"
    return "${PIPESTATUS[0]}"
}

export -f make_chroot options_for in_chroot set_up run_group
export work chroots

# shellcheck disable=SC2016 # for dpkg-query
versions() {
    in_chroot "$work" dpkg-query --show --showformat='${Package} ${Version}\n' libzookeeper-java 'libzookeeper-st2*' \
        'openjdk-*-jre-headless' 'lua5.[1-5]' 'luajit*' nginx libnginx-mod-http-lua openssl gcc 2>/dev/null |
        sed -nE 's/^([^ ]+) ([0-9]+:)?([0-9][^-+~]*).*/\1 \3/p' | paste -sd, | sed 's/,/, /g'
}

# A row for each system, a column for each group.
table() {
    local system group log
    printf '\n%-10s' system
    printf '%13s' "${groups[@]}"
    printf '%9s\n' seconds
    for system in "${systems[@]}"; do
        printf '%-10s' "$system"
        for group in "${groups[@]}"; do
            log=$(log_of "$system: $group")
            if read -r passed failed _ 2>/dev/null <"$log.result"; then
                printf '%13s' "$passed/$failed/$(what_is_left_out "$log" | grep -c "^left out: $system: ")"
            else
                printf '%13s' -
            fi
        done
        tail -qn 1 "$logs/$system"-*.shown | awk '{ sum += $6 } END { printf "%9d\n", sum }'
    done
    for system in "${systems[@]}"; do
        [ ! -s "$logs/$system.versions" ] || echo "$system: $(cat "$logs/$system.versions")"
    done
}

for system in "${systems[@]}"; do
    suite "$system: set-up" status "$ample" "set_up $system"
    settle
    if read -r _ failed _ <"$(log_of "$system: set-up").result" && [ "$failed" = 0 ]; then
        versions >"$logs/$system.versions"
        for group in "${groups[@]}"; do
            suite "$system: $group" run "$ample" "run_group $system $group"
        done
        settle
    fi
done
table
summary

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
mkdir -p "$logs"
rm -f "$logs"/*

# set_up SYSTEM: the system in $work, with a clone in /root/zklock and what the tests need.
set_up() {
    rm -rf "$work" && make_chroot "$1" "$work" &&
        in_chroot "$work" apt-get -qq install -y --no-install-recommends git ca-certificates make &&
        git clone --quiet "file://$PWD" "$work/root/zklock" &&
        in_chroot "$work" /root/zklock/tools/setup.sh test
}

# shellcheck disable=SC2016 # for dpkg-query
versions() {
    in_chroot "$work" dpkg-query --show --showformat='${Package} ${Version}\n' libzookeeper-java 'libzookeeper-st2*' \
        'openjdk-*-jre-headless' 'lua5.[1-5]' 'luajit*' nginx libnginx-mod-http-lua openssl gcc 2>/dev/null |
        sed -nE 's/^([^ ]+) ([0-9]+:)?([0-9][^-+~]*).*/\1 \3/p' | paste -sd, | sed 's/,/, /g'
}

# One group at a time: each uses all processors. A system that cannot be made has the counts 0/1.
table=$(printf '%-10s' system && printf '%13s' "${groups[@]}" seconds)
all_passed=0 all_failed=0
for system in "${systems[@]}"; do
    row=$(printf '%-10s' "$system") began=$SECONDS
    if ! set_up "$system" >"$logs/$system.log" 2>&1; then
        tail -n 20 "$logs/$system.log"
        echo "not ok: $system: set-up"
        all_failed=$((all_failed + 1))
        table+=$'\n'$row$(printf '%13s' 0/1)
        continue
    fi
    for group in "${groups[@]}"; do
        log=$logs/$system-$group.log
        echo "== $system: $group"
        in_chroot "$work" /root/zklock/tools/test.sh "$group" >"$log" 2>&1
        grep -A 14 '^not ok: ' "$log"
        sed -n "s/^left out: /&$system: /p" "$log"
        read -r passed _ failed _ < <(tail -n 1 "$log" | grep -E '^[0-9]+ passed, [0-9]+ failed$' || echo 0 passed, 1 failed)
        row+=$(printf '%13s' "$passed/$failed/$(grep -c '^left out: ' "$log")")
        all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed))
    done
    table+=$'\n'$row$(printf '%13s' $((SECONDS - began)))$'\n'$(versions)
done
printf '\n%s\n%s passed, %s failed\n' "$table" "$all_passed" "$all_failed"
[ $all_failed = 0 ] && [ $all_passed -gt 0 ]

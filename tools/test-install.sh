#!/usr/bin/env bash
#
# Runs the commands of docs/install.md in clean systems of Debian and Ubuntu, and then loads zklock in every Lua that they serve.
#
# A block of commands is tested if a comment is before it: <!-- test-install: SUITE… WHAT… -->. It is run in the directory of a clone.
# WHAT is a Lua (5.1 to 5.4, luajit), `zklock` for the command, or `refused`: the block fails, and says which C client zklock needs.
# LuaRocks finds zklock in a directory in place of the rocks server, and the rocks for the command as Debian packages.
#
# Needs root, and the archives of the distributions. Ends with `N passed, N failed`.
#
# Usage: tools/test-install.sh [--only WORD] [SUITE…]     SUITE: bookworm trixie noble jammy (all)
#                                                         WORD: only the sections with this word in the heading

set -u
cd "$(dirname "$0")/.." || exit 1

# shellcheck source=tools/checks.sh
. tools/checks.sh
# shellcheck source=tools/chroot.sh
. tools/chroot.sh
# shellcheck source=tools/release.sh
. tools/release.sh

version=$(cat VERSION)
work=$PWD/build/test-install

# The blocks of the page: build/test-install/N.sh, and beside it N.about with the words of the comment and the heading.
split_page() {
    awk -v directory="$work" '
        /^## / { heading = substr($0, 4) }
        /^<!-- test-install: .* -->$/ { words = $0; gsub(/^<!-- test-install: | -->$/, "", words); next }
        /^```/ && inside { inside = 0; close(file); next }
        /^```/ && words != "" {
            file = directory "/" ++count
            print words > (file ".about"); print heading > (file ".about"); close(file ".about")
            file = file ".sh"; print "set -eux" > file; words = ""; inside = 1; next
        }
        inside { print > file }
        END { exit count < 4 }' docs/install.md
}

# A server for LuaRocks that has zklock's two rocks only.
make_server() {
    mkdir -p "$work/rocks" && pack_rocks "$work/pack" && cp "$work"/pack/*.src.rock "$work/rocks" &&
        luarocks-admin make_manifest "$work/rocks"
}

prepare() {
    local suite=$1 system=$2
    make_chroot "$suite" "$system" && cp -r "$work/rocks" "$system/root/rocks" && copy_repository "$system/root/zklock" &&
        cat >"$system/root/luarocks.lua" <<'END'
rocks_servers = { "/root/rocks" }
rocks_provided = { argparse = "0.7.1-1", dkjson = "2.6-1", luasocket = "3.1.0-1" }
END
}

# run_block SUITE SYSTEM SCRIPT WHAT…
run_block() {
    local suite=$1 system=$2 script=$3 what found=
    shift 3
    prepare "$suite" "$system" || return
    cp "$script" "$system/root/block.sh"
    if [ "$1" = refused ]; then
        in_chroot "$system" sh -c 'cd /root/zklock && sh /root/block.sh' >"$script.output" 2>&1 && return 1
        cat "$script.output"
        grep -qF 'needs the ZooKeeper C client 3.7 or later' "$script.output"
        return
    fi
    in_chroot "$system" sh -c 'cd /root/zklock && LUAROCKS_CONFIG=/root/luarocks.lua sh /root/block.sh' || return
    # What is not part of the instructions: the interpreters, and argparse and the like for the command of LuaRocks.
    for what; do
        case $what in
        luajit) found="$found $(luajit_of "$system")" ;;
        zklock) found="$found lua-argparse lua-dkjson lua-socket" ;;
        *) found="$found lua$what" ;;
        esac
    done
    # shellcheck disable=SC2086 # one word each
    in_chroot "$system" apt-get -qq install -y --no-install-recommends $found || return
    for what; do
        case $what in
        luajit) in_chroot "$system" luajit /root/zklock/debian/tests/smoke.lua || return ;;
        zklock) in_chroot "$system" zklock --version | grep -xF "zklock $version" || return ;;
        *) in_chroot "$system" "lua$what" /root/zklock/debian/tests/smoke.lua | grep -F "zklock $version" || return ;;
        esac
    done
}

[ "$(id -u)" = 0 ] || { echo "tools/test-install.sh: a clean system can be made by root only" >&2 && exit 1; }
only=
[ "${1:-}" != --only ] || { only=$2 && shift 2; }
suites=$*
suites=${suites:-bookworm trixie noble jammy}
rm -rf "$work"
mkdir -p "$work"
check "the page has blocks of commands" split_page
check "the source rock" make_server

for suite in $suites; do
    for script in "$work"/*.sh; do
        { read -r words && read -r heading; } <"${script%.sh}.about"
        case " $words " in *" $suite "*) ;; *) continue ;; esac
        case $heading in *"$only"*) ;; *) continue ;; esac
        what=
        for word in $words; do
            case $word in bookworm | trixie | noble | jammy) ;; *) what="$what $word" ;; esac
        done
        # shellcheck disable=SC2086 # one word each
        check "$suite: $heading" run_block "$suite" "$work/system" "$script" $what
        rm -rf "$work/system"
    done
done

summary

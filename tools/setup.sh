#!/usr/bin/env bash
#
# Sees to it that the Debian (or Ubuntu) packages are there that a purpose needs, and no more than that purpose needs:
#
#   build   the Lua module          demo    a first look: one Lua and a ZooKeeper server
#   test    everything              bench   the module, a server, and who it is compared with
#   lint    the checkers            fuzz    the fuzzers
#   docs    the reference               demo-openresty, soak-nginx   nginx with Lua, LuaJIT, and a load to put on them
#
# Asks dpkg once and is done if nothing is missing. Otherwise installs what is missing, as root or through `sudo -n`; if it
# may not, says what is missing and exits with 1. RUNLEVEL=1 keeps packages such as redis-server from starting their
# services where the system lets it: nothing here uses a system service.
#
# Usage: tools/setup.sh [PURPOSE…]     (default: build test lint bench fuzz demo demo-openresty docs)
#        tools/setup.sh --list [PURPOSE…]

set -eu

build=(build-essential cmake pkg-config libzookeeper-st-dev)
one_lua=(lua5.4 liblua5.4-dev)
all_luas=(
    lua5.1 lua5.2 lua5.3 lua5.4 luajit2
    liblua5.1-0-dev liblua5.2-dev liblua5.3-dev liblua5.4-dev libluajit2-5.1-dev
)
# The server's classes alone: the zookeeper package adds a system user, a graphical Java, and nothing that is used here.
server=(libzookeeper-java default-jre-headless procps lua-socket)
# What the demo's shop keeps its stock in.
shop=(redis-server lua-redis lua-luv)
# lua-nginx-redis wants nginx-extras, which brings the nginx that has no module too few.
nginx=(nginx libnginx-mod-http-lua lua-resty-core lua-nginx-redis lua-cjson luajit2 libluajit2-5.1-dev apache2-utils)
checkers=(clang clang-tidy clang-format cppcheck lua-check shellcheck)
# What the fault campaign makes its network of, and breaks it and its clocks with.
faults=(iproute2 nftables faketime util-linux mount)
fuzzers=(clang libclang-rt-dev)
# Without lua-discount LDoc knows no tables.
reference=(lua-ldoc lua-discount)
specs=(
    libcmocka-dev lua-busted luarocks lua-posix lua-luv lua-cqueues lua-copas lua-cjson lua-argparse valgrind gcovr
    default-jdk-headless libcurator-recipes-java
    golang-go golang-github-samuel-go-zookeeper-dev
    python3-kazoo
    stunnel4 openssl binutils locales
)
rivals=(
    lua-luv valgrind gnuplot-nox luajit2 libluajit2-5.1-dev
    default-jdk-headless libcurator-recipes-java
    golang-go golang-github-samuel-go-zookeeper-dev
    python3-kazoo
    wrk
)

packages_for() {
    case $1 in
    build) printf '%s\n' "${build[@]}" "${all_luas[@]}" ;;
    demo) printf '%s\n' "${build[@]}" "${one_lua[@]}" "${server[@]}" "${shop[@]}" ;;
    demo-openresty | soak-nginx) printf '%s\n' "${build[@]}" "${server[@]}" "${shop[@]}" "${nginx[@]}" ;;
    test) packages_for build && packages_for demo && packages_for demo-openresty && packages_for lint && packages_for fuzz &&
        packages_for docs && printf '%s\n' "${specs[@]}" "${faults[@]}" ;;
    bench) printf '%s\n' "${build[@]}" "${one_lua[@]}" "${server[@]}" "${rivals[@]}" "${nginx[@]}" ;;
    lint) printf '%s\n' "${build[@]}" "${all_luas[@]}" "${checkers[@]}" libcmocka-dev ;;
    fuzz) printf '%s\n' "${build[@]}" "${fuzzers[@]}" ;;
    docs) printf '%s\n' "${one_lua[@]}" "${reference[@]}" ;;
    *) echo "tools/setup.sh: no such purpose: $1" >&2 && return 2 ;;
    esac
}

list_only=false
[ "${1:-}" != --list ] || { list_only=true && shift; }
[ $# -gt 0 ] || set -- build test lint bench fuzz demo demo-openresty docs
wanted=$(for purpose; do packages_for "$purpose"; done | sort -u)
if $list_only; then
    echo "$wanted"
    exit
fi
if ! command -v dpkg-query >/dev/null; then
    printf "No dpkg here. What has to be there for '%s', by its Debian names:\n%s\n" "$*" "$wanted" >&2
    exit 1
fi

# A package also counts as installed when its name is only provided by another one.
installed=$(dpkg-query --show --showformat='${db:Status-Abbrev} ${Package} ${Provides}\n' |
    sed -n 's/^ii *//p' | sed 's/([^)]*)//g; s/,/ /g' | tr -s ' ' '\n' | sort -u)
missing=$(comm -23 <(echo "$wanted") <(echo "$installed"))
[ -n "$missing" ] || exit 0
# shellcheck disable=SC2086 # one word each
set -- $missing

if [ "$(id -u)" = 0 ]; then
    as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
else
    printf 'Missing packages, and no right to install them. As root:\n\n    apt-get install --no-install-recommends %s\n\n' \
        "$*" >&2
    exit 1
fi

echo "Installing: $*"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq)
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "$@" >/dev/null </dev/null

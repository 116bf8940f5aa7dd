#!/usr/bin/env bash
#
# Installs the Debian (or Ubuntu) packages that the given purposes need, and no others:
#
#   build   the Lua module          demo    a first look: one Lua and a ZooKeeper server
#   quick   the module for one Lua, and the first tests
#   test    everything              bench   the module, a server, and the programs that it is compared with
#   lint    the checkers            fuzz    the fuzzers
#   docs    the site                    demo-openresty, soak-nginx   nginx with Lua, LuaJIT, and a load generator
#   browser what drives chromium against the live view, for its tests and pictures
#   databases   PostgreSQL and MariaDB, for the spec of docs/fencing.md
#   arm64   the C compiler and the emulator for arm64, to test on another machine
#   deb     the Debian packages       package the same, and clean systems in which they are installed
#
# A name like `a|b` stands for the first of these that the system has, and `a?` for a package without which some tests are left out:
# the last lines of `make test` name them.
#
# Asks dpkg once and ends if nothing is missing. Otherwise installs what is missing, as root or through `sudo -n`; if it may not, it
# lists the missing packages and exits with 1. RUNLEVEL=1 keeps packages such as redis-server from starting their services where the
# system permits that: nothing here uses a system service.
#
# Usage: tools/setup.sh [PURPOSE…]     (default: build test lint bench fuzz demo demo-openresty docs)
#        tools/setup.sh --list [PURPOSE…]

set -euf

build=(build-essential cmake pkg-config libzookeeper-st-dev)
one_lua=(lua5.4 liblua5.4-dev)
luas=(lua5.1 lua5.2 lua5.3 lua5.4 liblua5.1-0-dev liblua5.2-dev liblua5.3-dev liblua5.4-dev)
luajit=('luajit2|luajit' 'libluajit2-5.1-dev|libluajit-5.1-dev')
all_luas=("${luas[@]}" "${luajit[@]}" "lua5.5?" "liblua5.5-dev?")
# Only the server's classes: the zookeeper package adds a system user, a graphical Java, and nothing that is used here.
server=(libzookeeper-java default-jre-headless python3 procps lua-socket)
# The command needs them at run time.
command=(lua-argparse lua-dkjson lua-socket lua-luv)
# The demo keeps its stock in Redis.
shop=(redis-server lua-redis lua-luv)
# lua-nginx-redis requires nginx-extras, which installs an nginx with all modules. $NGINX names another one, with all that it needs.
nginx=(nginx libnginx-mod-http-lua lua-resty-core lua-nginx-redis)
[ -z "${NGINX:-}" ] || nginx=()
nginx+=(lua-cjson "${luajit[@]}" apache2-utils)
checkers=(clang clang-tidy clang-format cppcheck lua-check shellcheck libxml2-utils codespell python3)
# The tools with which the fault campaign makes its network, and breaks it and its clocks.
faults=(iproute2 nftables faketime util-linux mount)
fuzzers=(clang libclang-rt-dev)
site=(mkdocs mkdocs-material)
specs=(
    ninja-build libcmocka-dev lua-busted luarocks lua-posix lua-luv lua-cqueues lua-copas lua-cjson tmux valgrind gcovr
    default-jdk-headless libcurator-recipes-java
    golang-go golang-github-samuel-go-zookeeper-dev
    python3-kazoo
    stunnel4 openssl binutils locales
    git curl prometheus
    'zsh?' 'fish?'
    systemd
    # Ubuntu has it as a snap only.
    'chromium?'
)
# Of MariaDB only the programs: the package mariadb-server adds a system user and a service.
databases=(postgresql mariadb-server-core mariadb-client-core)
# npm installs the driver. The pictures show Chinese characters.
drivers=('chromium?' nodejs npm fonts-wqy-microhei)
arm64=(cmake ninja-build pkg-config lua-busted gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static mmdebstrap)
packagers=(debhelper dpkg-dev git lintian)
rivals=(
    stunnel4 openssl lua-luv lua-cqueues valgrind strace gnuplot-nox "${luajit[@]}"
    default-jdk-headless libcurator-recipes-java
    golang-go golang-github-samuel-go-zookeeper-dev
    python3-kazoo
    wrk
)

packages_for() {
    case $1 in
    build) printf '%s\n' "${build[@]}" "${all_luas[@]}" "${command[@]}" ;;
    quick) printf '%s\n' "${build[@]}" "${one_lua[@]}" ninja-build libcmocka-dev lua-busted lua-posix lua-redis lua-socket ;;
    demo) printf '%s\n' "${build[@]}" "${one_lua[@]}" "${server[@]}" "${shop[@]}" ;;
    demo-openresty | soak-nginx) printf '%s\n' "${build[@]}" "${server[@]}" "${shop[@]}" "${nginx[@]}" ;;
    test) packages_for build && packages_for demo && packages_for demo-openresty && packages_for lint && packages_for fuzz &&
        packages_for docs && printf '%s\n' "${specs[@]}" "${faults[@]}" ;;
    bench) printf '%s\n' "${build[@]}" "${one_lua[@]}" "${server[@]}" "${command[@]}" "${rivals[@]}" "${nginx[@]}" ;;
    lint) printf '%s\n' "${build[@]}" "${all_luas[@]}" "${command[@]}" "${checkers[@]}" libcmocka-dev ;;
    fuzz) printf '%s\n' "${build[@]}" "${fuzzers[@]}" ;;
    docs) printf '%s\n' "${one_lua[@]}" "${site[@]}" ;;
    deb) printf '%s\n' "${build[@]}" "${luas[@]}" "${command[@]}" "${packagers[@]}" ;;
    package) packages_for deb && printf '%s\n' luarocks mmdebstrap ;;
    browser) printf '%s\n' "${drivers[@]}" ;;
    arm64) printf '%s\n' "${arm64[@]}" "${server[@]}" ;;
    databases) printf '%s\n' "${databases[@]}" ;;
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
installed=" $(dpkg-query --show --showformat='${db:Status-Abbrev} ${Package} ${Provides}\n' |
    sed -n 's/^ii *//p' | sed 's/([^)]*)//g; s/,/ /g' | tr -s ' \n' '  ') "

# first_of NAMES TEST: the first of these names for which TEST succeeds.
first_of() {
    local name
    for name in ${1//[|?]/ }; do
        ! "$2" "$name" || { echo "$name" && return; }
    done
    return 1
}

is_installed() {
    case $installed in *" $1 "*) ;; *) return 1 ;; esac
}

can_be_installed() {
    apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

# Sets `found` to the packages that can be installed, and `lacking` to the names for which there is none.
look_up() {
    local names name
    found='' lacking=''
    for names; do
        if name=$(first_of "$names" can_be_installed); then found="$found $name"; else lacking="$lacking $names"; fi
    done
}

missing=$(for names in $wanted; do first_of "$names" is_installed >/dev/null || echo "$names"; done)
[ -n "$missing" ] || exit 0
# shellcheck disable=SC2086 # one word each
set -- $missing

# Prints the packages that the tests cannot do without.
required() {
    printf '%s\n' "$@" | grep -vE '\?$'
}
look_up "$@"
[ -n "$found" ] || required "$@" >/dev/null || [ -z "$(find /var/lib/apt/lists -name '*Packages*' -print -quit)" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
else
    # shellcheck disable=SC2086 # one word each
    needed=$found$([ -z "$lacking" ] || required $lacking | sed 's/|.*//; s/^/ /' | tr -d '\n')
    [ -n "$needed" ] || exit 0
    printf 'Missing packages, and no right to install them. As root:\n\n    apt-get install --no-install-recommends%s\n\n' \
        "$needed" >&2
    exit 1
fi

apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq)
"${apt[@]}" update
look_up "$@"
if [ -n "$lacking" ]; then
    echo "This system has no package:${lacking//\?/}" >&2
    # shellcheck disable=SC2086 # one word each
    ! required $lacking >/dev/null || exit 1
fi
[ -n "$found" ] || exit 0
echo "Installing:$found"
# shellcheck disable=SC2086 # one word each
"${apt[@]}" install -y --no-install-recommends $found >/dev/null </dev/null

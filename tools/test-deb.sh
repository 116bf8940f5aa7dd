#!/usr/bin/env bash
#
# Builds the Debian packages, and tests them in a clean system of the same distribution: all Luas load the modules, the command runs;
# an upgrade leaves no file of the old version, a rollback works; and a removal leaves nothing. Needs root, and the distribution's
# archive.
#
# With --built, tests the packages in build/deb as they are. Ends with `N passed, N failed`.
#
# Usage: tools/test-deb.sh [--built]

set -u
cd "$(dirname "$0")/.." || exit 1

# shellcheck source=tools/checks.sh
. tools/checks.sh
# shellcheck source=tools/chroot.sh
. tools/chroot.sh

version=$(cat VERSION)
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
system=$PWD/build/test-deb
inside() {
    in_chroot "$system" "$@"
}

install() {
    inside apt-get -qq install -y --no-install-recommends --allow-downgrades "$@"
}

# A system with the interpreters, and the packages in /root.
prepare() {
    make_chroot "$suite" "$system" && install lua5.1 lua5.2 lua5.3 lua5.4 "$(luajit_of "$system")" && inside apt-get clean && cp build/deb/*.deb "$system/root" &&
        cp -r debian/tests "$system/root/tests"
}

# The same packages as another version, which has a file more.
older_packages() {
    local package name
    for package in build/deb/lua-zklock_*.deb build/deb/zklock_*.deb; do
        name=$(basename "$package")
        dpkg-deb --raw-extract "$package" "$system/root/old" &&
            sed -i "s/^Version: .*/Version: 0.9.0-1/; s/$version-1/0.9.0-1/g" "$system/root/old/DEBIAN/control" || return
        [ "${name%%_*}" != lua-zklock ] ||
            for lua in 5.1 5.4; do echo 'return "old"' >"$system/root/old/usr/share/lua/$lua/zklock/gone.lua"; done
        rm -f "$system/root/old/DEBIAN/md5sums"
        dpkg-deb --root-owner-group --build "$system/root/old" "$system/root/old-$name" && rm -r "$system/root/old" || return
    done
}

has_version() {
    # shellcheck disable=SC2016 # for dpkg
    [ "$(inside dpkg-query --show --showformat='${db:Status-Abbrev} ${Version},' lua-zklock zklock)" = "ii  $1,ii  $1," ]
}

works() {
    inside sh /root/tests/installed && inside zklock --version | grep -xF "zklock $version"
}

# zklock's files of the old version.
gone_files() {
    find "$system/usr" -name 'gone.lua'
}

upgrade() {
    inside sh -c 'apt-get -qq install -y --no-install-recommends /root/lua-zklock_*.deb /root/zklock_*.deb' &&
        has_version "$version-1" && [ -z "$(gone_files)" ]
}

roll_back() {
    inside sh -c 'apt-get -qq install -y --no-install-recommends --allow-downgrades /root/old-*.deb' &&
        has_version 0.9.0-1 && [ -n "$(gone_files)" ]
}

# Only the command needs argparse and the like.
modules_alone() {
    inside sh -c 'apt-get -qq install -y --no-install-recommends /root/lua-zklock_*.deb' &&
        ! inside dpkg-query --show lua-argparse && inside lua5.4 /root/tests/smoke.lua
}

has_pages() {
    local name
    inside bash -n /usr/share/bash-completion/completions/zklock || return
    for name in lib/zklock/cli.lua share/zsh/vendor-completions/_zklock share/fish/vendor_completions.d/zklock.fish \
        share/man/man1/zklock.1.gz share/man/man1/zklock-run.1.gz share/doc/lua-zklock/docs/install.md share/doc/zklock/copyright; do
        [ -s "$system/usr/$name" ] || { echo "there is no /usr/$name" && return 1; }
    done
}

hardened() {
    find "$system/usr/lib" -path '*/zklock/*.so' -exec tools/hardening.sh {} +
}

# The system's files, without what apt and dpkg write about themselves.
list_files() {
    (cd "$system" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./root -o -path ./tmp -o -path ./var/cache \
        -o -path ./var/log -o -path ./var/lib/apt -o -path './var/lib/dpkg/*-old' \) -prune -o -type f -print -o -type l -print) |
        LC_ALL=C sort
}

leaves_nothing() {
    inside apt-get -qq purge -y --auto-remove zklock lua-zklock && list_files | diff "$system/root/before" -
}

[ "$(id -u)" = 0 ] || { echo "tools/test-deb.sh: a clean system can be made by root only" >&2 && exit 1; }
rm -rf "$system"
[ "${1:-}" = --built ] || check "the packages can be built, and lintian finds nothing" tools/deb.sh --strict
check "a clean system of $suite" prepare
list_files >"$system/root/before"
check "an older version" older_packages
check "the modules are installed without the command" modules_alone
check "the command is installed, and both replace older packages" roll_back
check "an upgrade leaves no file of the older version" upgrade
check "every Lua loads the modules, and the command runs" works
check "man pages, completions, documentation" has_pages
check "the modules are hardened" hardened
check "a rollback" roll_back
check "an upgrade again" upgrade
check "they work again" works
check "a removal leaves nothing" leaves_nothing
[ $failed != 0 ] || rm -rf "$system"

summary

#!/usr/bin/env bash
#
# Builds the Debian packages lua-zklock and zklock, and their source package, from the files of this directory that git has or could
# add. The packages are for the Debian or Ubuntu that this runs on. Lintian checks them: errors and warnings fail. With --strict, what
# it says for information fails too: on later systems than Debian 12 it knows later versions of the policy.
#
# The result is build/deb/*.deb.
#
# Usage: tools/deb.sh [--strict]

set -eu
cd "$(dirname "$0")/.."

# shellcheck source=tools/release.sh
. tools/release.sh

version=$(cat VERSION)
output=$PWD/build/deb
source=$output/zklock-$version

rm -rf "$output"
copy_files "$source" .
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" --exclude="zklock-$version/debian" \
    -C "$output" -czf "$output/zklock_$version.orig.tar.gz" "zklock-$version"

log=$output/build.log
if ! (cd "$source" && dpkg-buildpackage --no-sign --build=full --jobs="$(nproc)") >"$log" 2>&1; then
    cat "$log" >&2
    echo "tools/deb.sh: the packages could not be built" >&2
    exit 1
fi
fail_on=error,warning
[ "${1:-}" != --strict ] || fail_on=$fail_on,info,pedantic
# The packages are not uploaded to Ubuntu, whose lintian does not know the distribution "unstable".
lintian --allow-root --display-info --pedantic --suppress-tags bad-distribution-in-changes-file --fail-on="$fail_on" \
    "$output"/zklock_"$version"-*.changes
rm -r "$source"
printf '%s\n' "$output"/*.deb

#!/usr/bin/env bash
#
# Compiles a locale of the C library, with UTF-8, from the sources in Debian's package "locales": once for each version of that
# library. Prints the directory that LOCPATH must name; the locale is NAME.UTF-8.
#
# Usage: tools/locale.sh NAME      e.g. da_DK

set -eu
cd "$(dirname "$0")/.."

directory=$PWD/build/locales/$(getconf GNU_LIBC_VERSION | tr ' ' -)
compiled=$directory/${1:?usage: tools/locale.sh NAME}.UTF-8
if [ ! -d "$compiled" ]; then
    mkdir -p "$directory"
    work=$(mktemp -d "$directory/.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    localedef -i "$1" -f UTF-8 "$work/compiled" >&2
    # Another caller may have been faster.
    mv -T "$work/compiled" "$compiled" 2>/dev/null || [ -d "$compiled" ]
fi
echo "$directory"

#!/usr/bin/env bash
#
# Reports the measures by which the compiler and the linker have made a built module harder to attack; exits with 1 if one is
# missing.
#
#   relro           the tables that functions are looked up in are read-only once the module is loaded …
#   bind-now        … all of them, because all functions are looked up when it is loaded
#   no-exec-stack   loading it makes no stack executable
#   no-text-relocs  its code is never written to
#   stack-protector functions with arrays notice writes beyond them
#   fortify         calls such as snprintf know the size of what they write to
#   no-run-path     its libraries are looked for in the system's places, not where it was built
#
# Usage: tools/hardening.sh MODULE…     (for example build/5.4/zklock/core.so; needs readelf)

set -u

[ $# -gt 0 ] || { sed -n '3,/^$/s/^# \{0,1\}//p' "$0" && exit 2; }
missing=0

# report NAME has|lacks TEXT PATTERN: whether a line of the text matches, or none does.
report() {
    local name=$1 wanted=$2 text=$3 pattern=$4 found=lacks
    ! grep -Eq -- "$pattern" <<<"$text" || found=has
    if [ $found = "$wanted" ]; then
        printf '%-16s yes\n' "$name"
    else
        printf '%-16s no\n' "$name"
        missing=1
    fi
}

for module; do
    headers=$(readelf --wide --program-headers "$module") || exit 2
    dynamic=$(readelf --wide --dynamic "$module") || exit 2
    symbols=$(readelf --wide --dyn-syms "$module") || exit 2

    [ $# -eq 1 ] || echo "$module"
    report relro has "$headers" 'GNU_RELRO'
    report bind-now has "$dynamic" 'BIND_NOW|Flags:.* NOW'
    report no-exec-stack has "$headers" 'GNU_STACK.* RW +0x'
    report no-text-relocs lacks "$dynamic" 'TEXTREL'
    report stack-protector has "$symbols" ' __stack_chk_fail'
    report fortify has "$symbols" ' __[a-z]+_chk(@|$)'
    report no-run-path lacks "$dynamic" 'RPATH|RUNPATH'
done
exit $missing

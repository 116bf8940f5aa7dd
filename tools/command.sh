#!/usr/bin/env bash
#
# Prints the script that `make install` installs as `zklock`: it finds the modules where they were installed, whatever the interpreter's
# own path is.
#
# Usage: tools/command.sh INTERPRETER DIRECTORY-OF-LUA-FILES DIRECTORY-OF-C-MODULES

set -eu
cd "$(dirname "$0")/.."

echo "#!/usr/bin/env $1"
printf 'package.path = [[%s/?.lua;%s/?/init.lua;]] .. package.path\n' "$2" "$2"
printf 'package.cpath = [[%s/?.so;]] .. package.cpath\n' "$3"
tail -n +2 lua/zklock/cli/main.lua

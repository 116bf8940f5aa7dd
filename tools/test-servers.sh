#!/usr/bin/env bash
#
# Tests zklock on several versions of the ZooKeeper server beside each other: the installed one, and those that tools/servers.sh
# fetches. Nothing is installed.
#
#   conformance   the simulation behaves as these servers, in cases and random programs
#   behaviour     spec/behaviour on these servers
#   contracts     what depends on servers: access rights, TLS, quotas, ensembles, what zklock doctor finds
#   mixed         ensembles of several versions, and an upgrade of one server after the other under load; once for all
#
# Ends with a table and `N passed, N failed`. Takes 37 minutes on two processors beside other load, `behaviour` of one version 25.
#
# Usage: tools/test-servers.sh [SERVER…] [PART…]     SERVER: installed trixie testing (all)

set -u
cd "$(dirname "$0")/.." || exit 1

logs=build/test-servers-logs
# shellcheck source=tools/suites.sh
. tools/suites.sh
clear_logs
# Half of them wait for servers, and the others for clients that have sessions of seconds.
slots=$(($(nproc) + 1))
# Ends a hang.
ample=5400

contracts=(security tls quota lost_acl command_doctor ensemble)
all_parts=(conformance behaviour contracts mixed)

servers=() parts=()
for word; do
    case $word in
    installed | trixie | testing) servers+=("$word") ;;
    conformance | behaviour | contracts | mixed) parts+=("$word") ;;
    *) echo "tools/test-servers.sh: no such server or part: $word" >&2 && exit 2 ;;
    esac
done
[ ${#servers[@]} -gt 0 ] || servers=(installed trixie testing)
[ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")

wants() {
    case " ${parts[*]} " in *" $1 "*) ;; *) return 1 ;; esac
}

# Sets VERSION and CLASSES of a server. Fails if there is none.
find_version() {
    CLASSES='' VERSION=
    if [ "$1" = installed ]; then
        VERSION=$(installed_server)
        [[ $VERSION =~ ^[0-9.]+$ ]]
    else
        VERSION=$(readlink "build/servers/$1") || return
        CLASSES=$PWD/build/servers/$VERSION/server.jar
    fi
}

# on VERSION CLASSES NAME COUNTER COMMAND: a suite with this server.
on() {
    suite "$1: $3" "$4" "$ample" "export ZOOKEEPER_CLASSPATH='$2' ZKLOCK_SIMULATED_VERSION='$1'; $5"
}

test_version() {
    local name files
    if wants behaviour; then
        on "$1" "$2" behaviour busted 'tools/specs.sh real spec/behaviour'
    fi
    if wants contracts; then
        for name in "${contracts[@]}"; do
            files=$(find spec/contract -name "${name}_spec.lua" -printf '%p ' -o -name "${name}_*_spec.lua" -printf '%p ')
            on "$1" "$2" "contracts, $name" busted "tools/specs.sh real --exclude-tags=long $files"
        done
    fi
    if wants conformance; then
        on "$1" "$2" 'conformance, cases' ours 'build/c/conformance_real'
        on "$1" "$2" 'conformance, simulated' ours 'computing build/c/conformance_simulated'
        on "$1" "$2" 'conformance, programs' status 'same_programs 1 50'
    fi
}

# A row for each version, a column for each part: passed/failed.
table() {
    local part
    printf '%-11s' server
    for part in "${parts[@]}"; do
        printf '%14s' "$part"
    done
    echo
    cat "$logs"/*.result | awk -v parts="${parts[*]}" '
        { passed = $1; failed = $2; version = $3; part = $4; sub(/:$/, "", version); sub(/,$/, "", part) }
        version ~ /^([0-9.]+|all)$/ {
            if (!(version in seen)) { seen[version] = 1; rows[++count] = version }
            ok[version, part] += passed; bad[version, part] += failed
        }
        END {
            columns = split(parts, column, " ")
            for (i = 1; i <= count; i++) {
                printf "%-11s", rows[i]
                for (j = 1; j <= columns; j++)
                    printf "%14s", (rows[i], column[j]) in ok ? ok[rows[i], column[j]] "/" bad[rows[i], column[j]] : "-"
                print ""
            }
        }' | LC_ALL=C sort
}

suite build status "$ample" 'tools/build.sh 5.4 c:conformance_real,conformance_simulated'
for server in "${servers[@]}"; do
    if [ "$server" = installed ]; then
        suite "the installed server" status "$ample" 'ls /usr/share/java/zookeeper-[0-9]*.jar'
    else
        suite "the server of $server" status "$ample" "tools/servers.sh $server"
    fi
done
settle
if [ "$(cat "$(log_of build).result")" = "1 0 build" ]; then
    done_versions=
    for server in "${servers[@]}"; do
        # A system may have the server of another one.
        if find_version "$server" && [[ " $done_versions " != *" $VERSION "* ]]; then
            done_versions+=" $VERSION"
            test_version "$VERSION" "$CLASSES"
        fi
    done
    if wants mixed; then
        suite "all: mixed" busted "$ample" 'tools/specs.sh real spec/contract/versions_spec.lua'
    fi
    settle
fi
echo
table
summary

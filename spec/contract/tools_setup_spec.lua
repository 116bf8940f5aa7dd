--- tools/setup.sh looks up the names of packages, and says by name what the system lacks.

local cluster = require "spec.support.cluster"

--- Runs tools/setup.sh where all packages that the tests need are installed but for some.
---@param missing any those, as a pattern of grep
---@param archive any what the archive has, which is known once its lists were fetched
---@param user? any the number of the user who runs it; root unless given
local function set_up(missing, archive, user)
    return cluster.run { "bash", "-c", ([[
        cd %s || exit
        bin=$(mktemp -d)
        trap 'rm -rf "$bin"' EXIT
        stub() { printf '#!/bin/sh\n%%s\n' "$2" >"$bin/$1" && chmod 755 "$bin/$1"; }
        stub id 'echo %d'
        stub sudo 'exit 1'
        stub dpkg-query "printf 'ii  %%s \n' $(tools/setup.sh --list test | tr '|' '\n' | grep -vE '%s' | tr '\n?' '  ')"
        stub apt-cache '[ -e "$0.fetched" ] || exit
            case " %s " in *" $2 "*) echo "  Candidate: 1" ;; *) echo "  Candidate: (none)" ;; esac'
        stub apt-get 'shift; [ "$1" = update ] && : >"${0%%-get}-cache.fetched" || echo "apt: $*"'
        sed 's|>/dev/null </dev/null|</dev/null|; s|/var/lib/apt/lists|/dev/null|' tools/setup.sh >"$bin/setup"
        PATH=$bin:$PATH bash "$bin/setup" test]]):format(cluster.quote(cluster.root), user or 0, missing, archive) }
end

describe("tools/setup.sh #once", function()
    it("does nothing if all packages are installed, by one of their names", function()
        assert.same({ "", 0 }, { set_up("^(luajit2|libluajit-5.1-dev)$", "") })
    end)

    it("installs the first name that the system has", function()
        assert.same({ "Installing: libcmocka-dev\napt: install -y --no-install-recommends libcmocka-dev", 0 },
            { set_up("^libcmocka", "libcmocka-dev") })
        local output = set_up("^(lib)?luajit", "luajit libluajit-5.1-dev")
        assert.matches("Installing: libluajit-5.1-dev luajit\n", output, 1, true)
        output = set_up("^(lib)?luajit", "luajit luajit2 libluajit-5.1-dev libluajit2-5.1-dev")
        assert.matches("Installing: libluajit2-5.1-dev luajit2\n", output, 1, true)
    end)

    it("goes on without a package that the tests can do without, and names it", function()
        local output, status = set_up("^(chromium|tmux)", "tmux")
        assert.matches("This system has no package: chromium\nInstalling: tmux\n", output, 1, true)
        assert.equal(0, status)
    end)

    it("tells another user than root what to install, without a package that the tests can do without", function()
        local output, status = set_up("^(chromium|cmake|(lib)?luajit)", "", 1000)
        assert.matches("\n    apt-get install --no-install-recommends cmake libluajit2-5.1-dev luajit2\n", output, 1, true)
        assert.equal(1, status)
    end)

    it("installs nothing if another package does not exist, and names it", function()
        assert.same({ "This system has no package: tmux", 1 }, { set_up("^(cmake|tmux)", "cmake") })
    end)
end)

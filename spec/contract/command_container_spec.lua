--- `zklock run` as the first process of a process namespace, as in a container. Needs unshare of util-linux, and a kernel that
-- gives namespaces to users.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

local UNSHARE = { "unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child" }

--- Runs `zklock run` with a script as the first process. Returns a table: status, output, errors.
local function run_first(path, script)
    local words = { (table.unpack or unpack)(UNSHARE) }
    for _, word in ipairs(commands.words { "run", "-k", "60", path, "-c", script }) do
        words[#words + 1] = word
    end
    return fixture.remember(program.run("unshare", words)):finish()
end

describe("zklock run as the first process #once", function()
    after_each(fixture.clean)

    local words = { (table.unpack or unpack)(UNSHARE) }
    words[#words + 1] = "true"
    local _, refused = cluster.run(words)

    local function first(title, fn)
        it(title, function()
            if refused ~= 0 then
                return pending "unshare is missing, or not allowed"
            end
            fn()
        end)
    end

    first("exits with the code of its command", function()
        local result = run_first(fixture.path(), "echo $PPID; exit 7")
        assert.same({ 7, "1\n" }, { result.status, result.output }, result.errors)
    end)

    first("passes TERM on, lets the command end, and releases", function()
        local path = fixture.path()
        local result = run_first(path, "trap 'echo ends; exit 3' TERM; kill -TERM 1; while :; do sleep 0.1; done")
        assert.equal(3, result.status, result.errors)
        assert.truthy(result.output:find("ends", 1, true))
        assert.same({}, fixture.children(path))
    end)

    first("reaps what its command orphans", function()
        local result = run_first(fixture.path(), [[
            orphan=$(sh -c 'sleep 0.1 >/dev/null & echo $!')
            while [ -e "/proc/$orphan" ]; do sleep 0.05; done
            exit 5]])
        assert.equal(5, result.status, result.errors)
    end)
end)

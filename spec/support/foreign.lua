--- support.foreign: contenders for a lock in separate processes, of zklock and of the foreign clients that may share its paths. The
-- commands and answers are in spec/foreign/README.md.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

local foreign = {}

--- The ends of a gate's names, for which all clients of a fleet wait in the queue: Curator's names.
local GATES = { mutex = "-lock-", rw = "-__WRIT__", semaphore = "-lock-" }

--- Compiles what has changed since the last build.
local function build()
    local output, status = cluster.run({ "spec/foreign/run", "build" })
    assert(status == 0, "the foreign clients cannot be built: " .. output)
end

--- Starts contenders, all at once, and returns them when they are ready. fixture.clean ends them. The list contains
-- { client =, path =, kind =, permits = 0, name = client, patterns = nil }.
function foreign.start(list)
    build()
    local started = {}
    for index, settings in ipairs(list) do
        local words = {
            "env", "ZKLOCK_LUA=" .. program.interpreter(), "spec/foreign/run", settings.client, fixture.servers(),
            settings.path, settings.kind, settings.permits or 0, settings.name or settings.client, settings.patterns
        }
        started[index] = fixture.remember(program.run(settings.name or settings.client, words))
    end
    for _, running in ipairs(started) do
        if running:line() ~= "ready" then
            error(running.name .. " did not come up: " .. running:finish().errors, 2)
        end
    end
    return started
end

--- Starts one contender.
function foreign.contender(client, path, kind, permits, name, patterns)
    return foreign.start({
        { client = client, path = path, kind = kind, permits = permits, name = name, patterns = patterns }
    })[1]
end

--- Returns a directory for the contenders' check of overlaps, which fixture.clean removes.
function foreign.arena()
    local directory = files.make_directory()
    fixture.on_clean(function()
        cluster.run({ "rm", "-rf", directory })
    end)
    return directory
end

--- Returns the log of an arena: a list of { name =, mode = }, in the order in which the contenders held.
local function read_log(directory)
    local turns = {}
    for line in io.lines(directory .. "/log") do
        local name, mode = line:match("^(%S+) (%S+)$")
        turns[#turns + 1] = { name = assert(name, line), mode = mode }
    end
    return turns
end

--- Lets a fleet contend: `list` as for foreign.start, without paths; each contender holds `turns` times.
--
-- A gate, a node ahead of all contenders, is removed when they all wait behind it. So none of them starts before the others.
-- Returns the number of overlaps that they noticed, the log, and the number of turns after which each contender had had one.
function foreign.contend(list, turns, kind, permits)
    local path, arena = fixture.directory(), foreign.arena()
    for index, settings in ipairs(list) do
        settings.path, settings.permits = path, permits
        settings.kind = settings.kind or kind
        settings.name = settings.client .. index
    end
    local contenders = foreign.start(list)
    local queue = kind == "semaphore" and path .. "/locks" or path
    local gate = fixture.join(queue, "_c_" .. fixture.UUID .. GATES[kind])
    for _, contender in ipairs(contenders) do
        contender:tell(("turns %d %s"):format(turns, arena))
    end
    fixture.await_children(queue, #contenders + 1, 60)
    assert(fixture.observer():delete(gate))

    local overlaps, failures = 0, {}
    for _, contender in ipairs(contenders) do
        local answer = contender:line() or "nothing: " .. contender:finish().errors
        local noticed = answer:match("^done " .. turns .. " (%d+)$")
        overlaps = overlaps + (noticed or 0)
        if not noticed then
            failures[#failures + 1] = contender.name .. " said " .. answer
        end
    end
    assert(#failures == 0, table.concat(failures, "; "))

    local log = read_log(arena)
    local seen, names, everybody = {}, 0, nil
    for index, turn in ipairs(log) do
        if not seen[turn.name] then
            seen[turn.name] = 0
            names = names + 1
        end
        seen[turn.name] = seen[turn.name] + 1
        if names == #list and not everybody then
            everybody = index
        end
    end
    for _, settings in ipairs(list) do
        assert(seen[settings.name] == turns, ("%s had %s turns"):format(settings.name, tostring(seen[settings.name])))
    end
    return overlaps, log, everybody
end

--- Returns the node names at the ends of paths in a contender's answer: sorted, or in the order of the answer.
function foreign.nodes(answer, keep_order)
    local names = {}
    for path in answer:gmatch("%S+") do
        names[#names + 1] = path:match("[^/]+$")
    end
    if not keep_order then
        table.sort(names)
    end
    return names
end

--- Waits until a server holds a watch on a node, so that a contender waits for it.
function foreign.await_watch(node)
    eventually(function()
        return fixture.is_watched(node)
    end, 60, "a watch on " .. node)
end

--- Returns whether a foreign client's package is of this version or a later one.
function foreign.is_since(package, version)
    return select(2, cluster.run { "sh", "-c",
        ("dpkg --compare-versions \"$(dpkg-query --show --showformat='${Version}' %s)\" ge %s"):format(package, version) }) == 0
end

return foreign

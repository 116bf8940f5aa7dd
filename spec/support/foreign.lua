--- support.foreign: contenders for a lock in processes of their own, of zklock and of the foreign clients that may share
-- its paths. What they are told and what they answer is in spec/foreign/README.md.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

local foreign = {}

--- Names under which a gate stands in a queue that every one of the fleet's clients waits behind: Curator's.
local GATES = { mutex = "-lock-", rw = "-__WRIT__", semaphore = "-lock-" }

local to_stop = {}
local built = false

--- Compiles what has changed since the last time.
local function build()
    if not built then
        local output, status = cluster.run({ "spec/foreign/run", "build" })
        assert(status == 0, "the foreign clients cannot be built: " .. output)
        built = true
    end
end

--- Starts contenders, all at once, and returns them when they are ready: a list of
-- { client =, path =, kind =, permits = 0, name = client, patterns = nil }.
function foreign.start(list)
    build()
    local started = {}
    for index, settings in ipairs(list) do
        local words = {
            "env", "ZKLOCK_LUA=" .. program.interpreter(), "spec/foreign/run", settings.client, fixture.servers(),
            settings.path, settings.kind, settings.permits or 0, settings.name or settings.client, settings.patterns
        }
        local running = program.run(settings.name or settings.client, words)
        to_stop[#to_stop + 1] = running
        started[index] = running
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

--- A directory for the contenders' check of who is inside.
function foreign.arena()
    local directory = files.make_directory()
    to_stop[#to_stop + 1] = {
        stop = function()
            cluster.run({ "rm", "-rf", directory })
        end
    }
    return directory
end

--- For after_each: ends the contenders, and then does what fixture.clean does.
function foreign.clean()
    while to_stop[1] do
        table.remove(to_stop):stop()
    end
    fixture.clean()
end

--- The log of an arena: a list of { name =, mode = }, in the order in which they were inside.
local function read_log(directory)
    local turns = {}
    for line in io.lines(directory .. "/log") do
        local name, mode = line:match("^(%S+) (%S+)$")
        turns[#turns + 1] = { name = assert(name, line), mode = mode }
    end
    return turns
end

--- Lets a fleet contend: `list` as for foreign.start, without paths; `turns` is how many each of them takes.
--
-- A gate, a node ahead of all of them, is removed when they all wait behind it: so nobody starts before the others.
-- Returns the overlaps that they noticed, the log, and how many of the first turns it took until each had had one.
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

--- The names at the ends of node paths in a contender's answer, sorted, or as they came.
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

--- Waits until a server holds a watch on a node, i.e. somebody waits for it.
function foreign.await_watch(node)
    eventually(function()
        return fixture.is_watched(node)
    end, 60, "a watch on " .. node)
end

return foreign

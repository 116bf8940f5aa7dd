--- ui.log: the file that tells who held which lock when: torn lines, its size, a full disk, what a restart restores.

local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local History = require "zklock.ui.history"
local Log = require "zklock.ui.log"

--- Returns the name of a file in a directory that is removed at the end.
local function new_name()
    local directory = files.make_directory()
    fixture.on_clean(function()
        os.execute("rm -rf " .. directory)
    end)
    return directory .. "/log"
end

--- Reads a file. Returns its records in short, and the number of torn lines.
local function read(name, path)
    local list = {}
    local torn = Log.read(name, path, function(record)
        list[#list + 1] = ("%s %s"):format(record.event, record.node or ("%g"):format(record.time))
    end)
    return table.concat(list, ", "), torn
end

local function lane(node, held, ended)
    return {
        node = node, mode = "exclusive", identity = 'web "1"\n', from = 0, held = held, ended = ended, fate = ended and "ended"
    }
end

describe("ui.log", function()
    after_each(fixture.clean)

    it("keeps what it is told, and tells it of one path or of all", function()
        local name = new_name()
        assert.is_nil((Log.read(name, nil, error)))
        local log = assert(Log.open(name, error))
        log:record(true, 1)
        log:note("holds", "/a", lane("/a/1", 2))
        log:note("holds", "/b", lane("/b/1", 3))
        log:note("left", "/a", lane("/a/1", 2, 4))
        log:record(true, 5)
        log:record(false, 6)
        assert.same({ "begins 1, holds /a/1, holds /b/1, left /a/1, stops 6", 0 }, { read(name) })
        assert.same({ "begins 1, holds /b/1, stops 6", 0 }, { read(name, "/b") })
        local records = {}
        Log.read(name, "/a", function(record)
            records[#records + 1] = record
        end)
        assert.same({ event = "left", time = 4, path = "/a", node = "/a/1", mode = "exclusive", identity = 'web "1"\n', from = 0,
            held = 2, ended = 4, fate = "ended" }, records[3])
    end)

    it("skips lines that are torn, and goes on behind one", function()
        local name = new_name()
        files.write(name, '{"event":"begins","time":1}\n{"event":"holds","time":2,"no')
        assert.same({ "begins 1", 1 }, { read(name) })
        local log = assert(Log.open(name, error))
        log:record(true, 3)
        assert.same({ "begins 1, begins 3", 1 }, { read(name) })
        files.write(name, "[1]\nnull\n{\n{}\n")
        assert.same({ "", 4 }, { read(name) })
    end)

    it("is bounded, and keeps the present holders", function()
        local name = new_name()
        local log = assert(Log.open(name, error, 2000))
        log:note("holds", "/a", lane("/a/long", 1))
        for index = 1, 100 do
            log:note("holds", "/a", lane("/a/" .. index, index))
            log:note("left", "/a", lane("/a/" .. index, index, index + 1))
        end
        local text = files.read(name .. ".1") .. files.read(name)
        assert(#text < 5000, #text)
        local told = read(name)
        assert.truthy(told:find("holds /a/long, ", 1, true) and told:find("left /a/100$"), told)
        assert.is_nil(told:find("/a/1,", 1, true))
    end)

    it("says that it cannot be opened or written", function()
        local _, message = Log.open("/nowhere/log", error)
        assert.truthy(message:find("No such file", 1, true), message)
        local messages = {}
        local log = assert(Log.open("/dev/full", function(problem)
            messages[#messages + 1] = problem
        end))
        log:record(true, 1)
        log:record(false, 2)
        assert.equal(1, #messages)
        assert.truthy(messages[1]:find("No space left", 1, true), messages[1])
    end)

    it("restores a lock's history: holders that are still there go on, and of others the end is unknown", function()
        local name, now = new_name(), 100
        local log = assert(Log.open(name, error))
        local function new_history()
            return History.new(now, false, function(event, one)
                log:note(event, "/a", one)
            end)
        end
        local function state_of(...)
            local state = { contenders = {}, waiters = 0, holders = 0 }
            for index, node in ipairs { ... } do
                state.contenders[index] = { node = node, name = node:match "[^/]*$", holder = true, sequence = index, since = 0 }
            end
            return state
        end
        local history = new_history()
        history:add(state_of(), 100)
        history:add(state_of("/a/stays", "/a/goes", "/a/ends"), 110)
        history:add(state_of("/a/stays", "/a/goes"), 120)
        log, now = assert(Log.open(name, error)), 200 -- the program was killed
        history = new_history()
        assert.equal(0, log:restore(function(record, last)
            history:restore(record, last)
        end))
        assert.equal(110, history.began)
        history:add(state_of("/a/stays", "/a/new"), 200)
        local fates = {}
        for _, one in ipairs(history.ended) do
            fates[one.node] = ("%s %g"):format(one.fate, one.ended)
        end
        assert.same({ ["/a/ends"] = "ended 120", ["/a/goes"] = "unseen 120" }, fates)
        assert.equal(110, history.lanes["/a/stays"].held)
        assert.same({ 1, 10 }, { history:figures(200).hold.count, history:figures(200).hold.p50 }) -- not that of unknown length
    end)
end)

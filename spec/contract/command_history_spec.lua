--- `zklock history`, and the logs that `zklock watch` and `zklock ui` keep for it.

local commands = require "spec.support.commands"
local dkjson = require "dkjson"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local nginx = require "spec.support.nginx"

--- Returns what `zklock history` prints.
local function history(log, path, ...)
    return commands.output { "history", "--log", log, path, ... }
end

--- Waits until a log has so many lines of an event.
local function await_lines(log, event, count)
    eventually(function()
        local text = files.read(log)
        return select(2, text:gsub('"event":"' .. event .. '"', "")) >= count, text
    end)
end

describe("zklock history", function()
    after_each(fixture.clean)

    it("shows who held when, who holds, and when nothing was recorded, by the log of zklock watch", function()
        local path, log = fixture.path(), commands.directory() .. "/log"
        local watch = commands.start { "watch", "--log", log, path }
        await_lines(log, "begins", 1)
        local first, second = fixture.join(path, nil, "web3:4711"), fixture.join(path, nil, "web4:1")
        local third = fixture.join(path, nil, "web5:1")
        await_lines(log, "holds", 1)
        assert(fixture.observer():delete(first))
        await_lines(log, "holds", 2)
        assert(fixture.observer():delete(third))
        await_lines(log, "left", 2)
        local lines = {}
        for line in history(log, path):gmatch "[^\n]+" do
            lines[#lines + 1] = line
        end
        local moment = "%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d"
        assert.equal(5, #lines)
        assert.truthy(lines[1]:find "^HELD SINCE +UNTIL +FOR +WAITED +END +IDENTITY$")
        assert.truthy(lines[2]:find("^%- +" .. moment .. " +%- +%- +%- +%(not recorded%)$"), lines[2])
        local span = "%d[%d.]* %a+"
        assert.truthy(lines[3]:find(("^%s  %s  %s +%s +released or lost +web3:4711$"):format(moment, moment, span, span)), lines[3])
        assert.truthy(lines[4]:find(("^%%- +%s +%%- +%s +gave up waiting +web5:1$"):format(moment, span)), lines[4])
        assert.truthy(lines[5]:find(("^%s  %%- +%%- +%s +holds +web4:1$"):format(moment, span)), lines[5])
        local record = assert(dkjson.decode((history(log, path, "--json"):match "\n([^\n]+)")))
        assert.same({ "left", "web3:4711", first, "ended" }, { record.event, record.identity, record.node, record.fate })
        watch:signal "TERM"
        watch:finish()
        local output = history(log, path)
        assert.truthy(output:find("\n" .. moment .. " +%- +%- +%- +%- +%(not recorded%)\n$"), output)
        assert.is_nil(history(log, "/other"):find "web")
        assert(second)
    end)

    it("ends who held when zklock watch ended, and is gone when it watches again; and each reader holds since it came", function()
        local path, log = fixture.path(), commands.directory() .. "/log"
        local before = fixture.join(path, nil, "before:1")
        local watch = commands.start { "watch", "--log", log, path }
        await_lines(log, "holds", 1)
        watch:signal "TERM"
        watch:finish()
        assert(fixture.observer():delete(before))
        for index = 1, 2 do
            fixture.join(path, "_c_3b241101-e2bb-4255-8caf-4136c566a96" .. index .. "-__READ__", "reader:" .. index)
        end
        commands.start { "watch", "--log", log, path }
        await_lines(log, "holds", 3)
        local output = history(log, path)
        assert.is_nil(output:find("holds +before:1"), output)
        assert.truthy(output:find "before:1", output)
        local count = 0
        for line in history(log, path, "--json"):gmatch "[^\n]+" do
            local record = dkjson.decode(line)
            if (record.identity or ""):find "^reader" then
                count = count + 1
                assert.equal(record.from, record.held)
            end
        end
        assert.equal(2, count)
    end)

    it("skips a torn line with a warning, and says what is missing", function()
        local directory = commands.directory()
        local log = directory .. "/log"
        files.write(log, '{"event":"left","path":"/a","node":"/a/1","time":1,"from":1,"held":1,"ended":1,"fate":"lo')
        local output, errors = history(log, "/a")
        assert.equal("", output)
        assert.truthy(errors:find("nothing is recorded of /a", 1, true), errors)
        assert.truthy(errors:find(("1 lines of %s are torn"):format(log), 1, true), errors)
        for _, case in ipairs {
            { { "history", "/a" }, "name a log by --log or ZKLOCK_LOG" },
            { { "history", "--log", directory .. "/none", "/a" }, "cannot read the log: " },
            { { "history", "--log", directory, "/a" }, ("cannot read the log: %s: Is a directory"):format(directory) },
            { { "watch", "--log", directory .. "/none/log", "/a" }, "cannot open the log: " },
            { { "ui", "--log", directory .. "/none/log" }, "cannot open the log: " }
        } do
            local result = commands.run(case[1])
            assert.equal(125, result.status)
            assert.truthy(result.errors:find(case[2], 1, true), result.errors)
        end
    end)

    it("has what zklock ui has seen, which shows it again after a restart; zklock why estimates by it", function()
        local top, log = fixture.directory(), commands.directory() .. "/log"
        local path = top .. "/a"
        local function start()
            local process = commands.start { "ui", "--listen", "127.0.0.1:0", "--log", log, top }
            process.port = tonumber(process:line():match ":(%d+)/$")
            return process
        end
        local process = start()
        await_lines(log, "begins", 1)
        local node = fixture.join(path, nil, "web3:4711")
        fixture.join(path, nil, "web4:1")
        await_lines(log, "holds", 1)
        assert(fixture.observer():delete(node))
        await_lines(log, "holds", 2)
        process:signal "TERM"
        assert.equal(143, process:finish().status)
        assert.truthy(history(log, path):find "web3:4711\n.*holds +web4:1\n")
        process = start()
        local status, body = nginx.get({ port = process.port }, "/?history&lock=" .. path:gsub("/", "%%2F"))
        assert.equal(200, status)
        assert.equal("web3:4711", dkjson.decode(body).ended[1].identity)
        fixture.join(path, nil, "web5:1")
        local output = commands.output({ "why", "--below", top, path }, { variables = { "ZKLOCK_LOG=" .. log } })
        local said = "Half of the last 1 holds took up to %d[%d.]* %a+: the last in the queue gets the lock in about %d"
        assert.truthy(output:find(said), output)
        process:signal "TERM"
        process:finish()
    end)
end)

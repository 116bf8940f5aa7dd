--- `zklock run` as a service of systemd, and `zklock lead`.

local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local socket = require "socket"
local unix = require "socket.unix"

--- Makes a socket that receives what a service tells its manager. Returns a function that returns the next message, the
-- variables for the service, and the socket.
local function new_manager()
    local manager, name = assert(unix.dgram()), fixture.temporary_directory() .. "/notify"
    assert(manager:bind(name))
    manager:settimeout(60)
    fixture.on_clean(function()
        manager:close()
    end)
    return function()
        return assert(manager:receive())
    end, { "NOTIFY_SOCKET=" .. name }, manager
end

describe("zklock run tells the manager of its service", function()
    after_each(fixture.clean)

    it("for whom it waits, when its command runs and when that has ended", function()
        local path = fixture.path()
        local next_message, variables = new_manager()
        local first = commands.start { "run", "--identity", "web3\nREADY=1", path, "-c", "echo begun; read line" }
        assert.equal("begun", first:line())
        local second = commands.start({ "run", path, "-c", "echo \"<$NOTIFY_SOCKET$WATCHDOG_USEC>\"" }, { variables = variables })
        local waits = "STATUS=waiting for " .. path .. ": held by web3"
        local message = next_message()
        assert.equal(waits, message:sub(1, #waits))
        assert.is_nil(message:find "\nREADY")
        first:tell ""
        assert.equal("STATUS=holds " .. path .. "\nREADY=1", next_message())
        assert.equal("STATUS=the command has ended\nSTOPPING=1", next_message())
        assert.equal("<>\n", second:finish().output)
    end)

    it("that it works, as often as the watchdog needs, while it waits and while its command runs", function()
        local path = fixture.path()
        local next_message, variables = new_manager()
        variables[2] = "WATCHDOG_USEC=200000"
        local first = commands.start { "run", path, "-c", "echo begun; read line" }
        assert.equal("begun", first:line())
        local second = commands.start({ "run", path, "-c", "echo begun; read line" }, { variables = variables })
        local function await(pattern, count)
            while count > 0 do
                count = count - (next_message():find(pattern) and 1 or 0)
            end
        end
        await("^STATUS=waiting", 1)
        await("^WATCHDOG=1$", 3)
        first:tell ""
        await("READY=1", 1)
        await("^WATCHDOG=1$", 3)
        second:tell ""
        await("STOPPING=1", 1)
        assert.equal(0, second:finish().status)
    end)

    it("nothing, and leaves that to the command, with --pass-notify", function()
        local _, variables, manager = new_manager()
        local output = commands.output({ "run", "--pass-notify", fixture.path(), "-c", "echo NOTIFY_SOCKET=$NOTIFY_SOCKET" },
            { variables = variables })
        assert.equal(variables[1] .. "\n", output)
        manager:settimeout(0)
        assert.is_nil((manager:receive()))
    end)
end)

local THROTTLED = -127

--- Seconds of the sessions of candidates that are cut off.
local SESSION = 6

describe("zklock lead", function()
    after_each(fixture.clean)

    --- Starts a candidate, which logs its elections, and the ends of its terms, in a directory.
    local function start(name, path, directory, options)
        local variables = { "NAME=" .. name, "LOG=" .. directory .. "/log" }
        return commands.start({ "lead", "--session-timeout", tostring(options.session or SESSION), "--on-elected",
            options.elected or 'echo "elected $NAME" >>"$LOG"', "--on-lost",
            'echo "lost $NAME ${ZKLOCK_TOKEN:+with a token}" >>"$LOG"', path },
            { variables = variables, servers = options.servers })
    end

    local function await_log(directory, text)
        eventually(function()
            return files.read(directory .. "/log") == text, files.read(directory .. "/log")
        end, 60)
    end

    for what, cut in pairs {
        ["after TERM"] = function(first)
            first:signal "TERM"
        end,
        ["when zklock is killed"] = function(first)
            first:signal "KILL"
        end,
        ["when zklock is stopped"] = function(first)
            first:signal "STOP"
        end,
        ["without a server"] = function(_, link)
            link:stop()
        end
    } do
        it("runs --on-lost before another one is elected: " .. what, function()
            local path, directory, link = fixture.path(), fixture.temporary_directory(), fixture.proxy()
            local first = start("one", path, directory, { servers = link.address })
            await_log(directory, "elected one\n")
            local second = start("two", path, directory, {})
            fixture.await_children(path, 2)
            cut(first, link)
            await_log(directory, "elected one\nlost one with a token\nelected two\n")
            second:signal "TERM"
            assert.equal(143, second:finish().status)
            await_log(directory, "elected one\nlost one with a token\nelected two\nlost two with a token\n")
        end)
    end

    it("exits as zklock run does, and runs --on-lost after an --on-elected that fails", function()
        local path, directory = fixture.path(), fixture.temporary_directory()
        assert.equal(3, start("one", path, directory, { elected = "exit 3" }):finish().status)
        await_log(directory, "lost one with a token\n")
        local leader = start("two", path, directory, {})
        await_log(directory, "lost one with a token\nelected two\n")
        assert.equal(123, commands.run({ "lead", "-n", "--on-elected", "true", "--on-lost", "echo never", path }).status)
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        assert.equal(120, leader:finish().status)
        await_log(directory, "lost one with a token\nelected two\nlost two with a token\n")
    end)

    it("runs neither command if the lock is lost before --on-elected can begin", function()
        local path, directory, link = fixture.directory(), fixture.temporary_directory(), fixture.proxy()
        link:deny("multi", THROTTLED) -- so the lease of half a session is not extended
        link:arm("create", "stall-reply")
        local candidate = start("one", path, directory, { servers = link.address, session = 12 })
        link:wait_fired(60)
        socket.sleep(4.5) -- of the 6 seconds; with less than 3 left, zklock waits for more
        link:resume()
        local result = candidate:finish()
        assert.truthy(result.errors:find("the lock was lost before the command began", 1, true), result.errors)
        assert.same({ 120, "" }, { result.status, files.read(directory .. "/log") or "" })
    end)

    it("releases when --on-lost has ended", function()
        local path, directory = fixture.path(), fixture.temporary_directory()
        assert(os.execute("mkfifo " .. directory .. "/gate"))
        local leader = commands.start { "lead", "--on-elected", "echo elected", "--on-lost",
            "echo lost; read line <" .. directory .. "/gate", path }
        assert.equal("elected", leader:line())
        leader:signal "TERM"
        assert.equal("lost", leader:line())
        assert.equal(123, commands.run({ "run", "-n", path, "--", "true" }).status)
        assert(io.open(directory .. "/gate", "w")):close()
        assert.equal(143, leader:finish().status)
        assert.same({}, fixture.children(path))
    end)
end)

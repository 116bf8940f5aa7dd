--- `zklock run` as a service of systemd.

local commands = require "spec.support.commands"
local fixture = require "spec.support.fixture"
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

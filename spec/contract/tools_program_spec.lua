--- support.program: the programs that specs start.

local eventually = require "spec.support.eventually"
local program = require "spec.support.program"

describe("programs for specs #once", function()
    local execute = os.execute

    after_each(function()
        os.execute = execute -- luacheck: ignore 122
    end)

    it("one that has ended is not killed: its process id may be another's", function()
        for command, is_killed in pairs { ["true"] = false, cat = true } do
            local started, killed = program.run(command, { command }), false
            if not is_killed then
                eventually(function()
                    return started:has_ended()
                end)
            end
            os.execute = function(line) -- luacheck: ignore 122
                killed = killed or line:find "^kill" ~= nil
                return execute(line)
            end
            started:stop()
            assert.equal(is_killed, killed)
        end
    end)
end)

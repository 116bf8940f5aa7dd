--- `make demo-live` at eight times its speed: it shows its locks, kills a service in the middle, sells each piece once, and ends.
--- Takes half a minute. #long #once

local events = require "spec.support.events"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"
local socket = require "socket"

describe("make demo-live #long #once", function()
    after_each(fixture.clean)

    it("shows the locks of two services, kills one, and ends when each piece is sold exactly once", function()
        local demo = fixture.remember(program.run("the demo", {
            "env", "ZKLOCK_CONFIG=", "tools/zookeeper", "run", "--", program.interpreter(), "tools/demo-live.lua", "8"
        }))
        local port = assert(tonumber(demo:line():match "^The locks, live:  http://127%.0%.0%.1:(%d+)/$"))
        local viewer = events.open(port, "/?events")
        viewer:await(function(event)
            for _, lock in ipairs(event.locks) do
                if lock.path:find "^/seckill/item%-%d$" and (lock.names[1] or ""):find "^buyer %d+ by service [12]$" then
                    return lock.waiters > 0
                end
            end
        end)
        local line, killed
        repeat
            line = assert(demo:line(), "the demo ends before a service is killed")
            killed = line:find "^Service 2 is killed"
        until killed
        local sold = 0
        repeat
            line = assert(demo:line(), "the demo has no result")
            sold = tonumber(line:match "(%d+) pieces are sold") or sold
        until line:find "different buyers"
        assert.equal("288 pieces were sold to 288 different buyers, 800 of 800 buyers have an answer: each piece exactly once.",
            line)
        assert.equal(288, sold)
        local result = demo:finish()
        assert.same({ 0, "" }, { result.status, result.output })
        assert.equal("end", viewer:finish(20))
        assert.is_nil((socket.connect("127.0.0.1", port)))
    end)
end)

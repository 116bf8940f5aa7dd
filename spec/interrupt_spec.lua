--- What Ctrl-C may do: raise at any instruction of an acquire, and leave nothing behind that nobody can give back.
--
-- The interpreter turns a signal into an error raised by a debug hook. A hook that counts instructions does the same at every
-- place in turn, without a signal.

local unpack = rawget(_G, "unpack") or table.unpack

local fixture = require "spec.support.fixture"

--- Calls fn(...); raises "interrupted!" in it after so many instructions, or right after it.
local function interrupted_after(count, fn, ...)
    local arguments = { ... }
    return pcall(function()
        debug.sethook(function()
            debug.sethook()
            error("interrupted!")
        end, "", count)
        fn(unpack(arguments))
        debug.sethook()
    end)
end

describe("an acquire that is interrupted", function()
    setup(function()
        if rawget(_G, "jit") then
            jit.off() -- compiled code looks at no hooks
        end
        collectgarbage("stop") -- which would give up what was forgotten
    end)

    teardown(function()
        collectgarbage("restart")
        if rawget(_G, "jit") then
            jit.on()
        end
        fixture.clean()
    end)

    it("at any instruction leaves the lock free, or held by an object that says so", function()
        local client = fixture.client({ session_timeout = 30 })
        local path = fixture.path()
        local interrupted = 0
        for count = 1, 240 do
            local lock = client:mutex(path)
            local ok = interrupted_after(count, lock.acquire, lock, 10)
            interrupted = interrupted + (ok and 0 or 1)
            if lock:held() then
                assert.is_true(lock:release())
            end
            assert(client:flush(10))
            assert.same({}, fixture.children(path), "after " .. count .. " instructions")
            assert(lock:acquire(10))
            assert.is_true(lock:release())
        end
        assert.is_true(interrupted > 50)
    end)
end)

--- Near the end of the sequence numbers a mutex warns first, and then refuses.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"

after_each(fixture.clean)

describe("near the end of the sequence numbers, a mutex", function()
    local servers
    local LIMIT = 2147483647 - 65536

    setup(function()
        servers = cluster.start({ seed = {
            ["/half"] = 1073741824 + 5, ["/before"] = LIMIT - 3, ["/limit"] = LIMIT, ["/end"] = 2147483646,
            ["/past"] = -2147483648
        } })
    end)

    teardown(function()
        servers:stop()
    end)

    it("warns from the half on, and works", function()
        local warned
        local client = fixture.client({ log = function(level, message)
            warned = warned or level == "warn" and message:find("/half", 1, true)
        end }, servers.servers)
        local lock = client:mutex("/half")
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        fixture.pump_until(client, function()
            return warned
        end)
    end)

    it("works up to the limit and then says exhausted", function()
        local client = fixture.client(nil, servers.servers)
        local lock = client:mutex("/before")
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        local code
        for _ = 1, 5 do
            code = select(3, lock:acquire(10))
            if code then
                break
            end
            assert.is_true(lock:release())
        end
        assert.equal("exhausted", code)
    end)

    local THROTTLED = -127

    --- Puts a node into a held lock's line of which its client knows nothing.
    local function add_stray(lock)
        local stem = lock:node():match("/_c_(%x+%-%x+%-%x+%-%x+%-)")
        return assert(fixture.observer():create(lock:path() .. "/_c_" .. stem .. "ffffffffffff-lock-", "", { sequential = true }))
    end

    --- A lock, and such a node, which is the first in its line.
    local function with_stray()
        local path, client = fixture.directory(), fixture.client()
        local lock = client:mutex(path)
        assert(lock:acquire(10))
        local stray = add_stray(lock)
        assert.is_true(lock:release())
        return path, lock, stray
    end

    -- In a fault campaign servers lost deletions with a damaged log. The nodes came back, at the head of the line; their owner
    -- looked for such nodes right before its own only, and others stood between: nobody got the lock while all of them lived.
    it("removes a node of its own that came back, also when others wait between", function()
        local path, lock, stray = with_stray()
        local observer = fixture.observer()
        local between = fixture.join(path, "_c_" .. fixture.UUID .. "-lock-")
        eventually(function()
            assert.equal("timeout", (select(3, lock:acquire(1))))
            return not observer:exists(stray)
        end)
        assert(observer:exists(between))
        assert(observer:delete(between))
        assert(lock:acquire(10))
        assert.is_true(lock:release())
    end)

    -- The client's nodes in the list were only counted: a node that was gone made up for the one too many.
    it("removes such a node also when the delete of another one, which is gone already, is to be repeated", function()
        local client, link = fixture.client_behind_proxy()
        local observer, lock = fixture.observer(), client:mutex(fixture.directory())
        assert(lock:acquire(10))
        local held, stray = lock:node(), add_stray(lock)
        fixture.join(lock:path(), "_c_" .. fixture.UUID .. "-lock-")
        link:deny("delete", THROTTLED, 1) -- it is carried out all the same
        assert(lock:release({ wait = false }))
        eventually(function()
            return not observer:exists(held)
        end)
        assert.equal("timeout", select(3, lock:acquire(5)))
        assert.is_false(observer:exists(stray) and true or false)
    end)

    it("removes such a node also by a try that it makes fail", function()
        local _, lock, stray = with_stray()
        assert.equal("timeout", (select(3, lock:try_acquire())))
        eventually(function()
            return not fixture.observer():exists(stray)
        end)
        assert(lock:try_acquire())
        assert.is_true(lock:release())
    end)

    -- A fault campaign made servers forget what they had acknowledged (ZOOKEEPER-4785); the refusal then spoke of numbers that
    -- were used up, and the number was 2.
    it("refuses a number that the servers have given twice, and says that it is so", function()
        local path = fixture.directory()
        assert(fixture.observer():create(path .. "/_c_" .. fixture.UUID .. "-lock-0000000001"))
        local client = fixture.client()
        local ok, message, code = client:mutex(path):acquire(10)
        assert.same({ nil, "exhausted" }, { ok, code })
        assert.truthy(message:find("another node of '" .. path .. "' has the sequence number 1 too", 1, true), message)
        assert(client:flush(10))
        assert.equal(0, client:stats().seats)
    end)

    for _, path in ipairs({ "/limit", "/end", "/past" }) do
        it("says exhausted at " .. path:sub(2) .. ", names the path and leaves nothing behind", function()
            local client = fixture.client(nil, servers.servers)
            for _, timeout in ipairs({ 10, 0 }) do
                local ok, message, code = client:mutex(path):acquire(timeout)
                assert.same({ nil, "exhausted" }, { ok, code })
                assert.truthy(message:find(path, 1, true), message)
            end
            assert(client:flush(10))
            assert.equal(0, client:stats().seats)
            assert.same({}, client:mutex(path):contenders(10))
        end)
    end
end)

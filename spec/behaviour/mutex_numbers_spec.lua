--- Near the end of the sequence numbers a mutex first warns, and then refuses.

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

    it("warns from half of the range on, and works", function()
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

    it("works up to the limit, and then answers exhausted", function()
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

    --- Puts a stray into a held lock's queue: a node that looks like one of its client's, but is unknown to the client.
    local function add_stray(lock)
        local stem = lock:node():match("/_c_(%x+%-%x+%-%x+%-%x+%-)")
        return assert(fixture.observer():create(lock:path() .. "/_c_" .. stem .. "ffffffffffff-lock-", "", { sequential = true }))
    end

    --- Returns a path, a lock and such a stray, which is first in the lock's queue.
    local function with_stray()
        local path, client = fixture.directory(), fixture.client()
        local lock = client:mutex(path)
        assert(lock:acquire(10))
        local stray = add_stray(lock)
        assert.is_true(lock:release())
        return path, lock, stray
    end

    -- In a fault campaign servers with a damaged log lost deletions, and deleted nodes came back at the head of the queue. Their
    -- client looked for strays only directly before its own node. Other nodes were between, so no client got the lock.
    it("deletes a stray of its own, also if other waiters are between", function()
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

    -- Only the number of the client's nodes in the list was compared. A node that was already deleted made up for the stray.
    it("deletes a stray also while the delete of another node, which is already gone, has to be repeated", function()
        local client, link = fixture.client_behind_proxy()
        local observer, lock = fixture.observer(), client:mutex(fixture.directory())
        assert(lock:acquire(10))
        local held, stray = lock:node(), add_stray(lock)
        fixture.join(lock:path(), "_c_" .. fixture.UUID .. "-lock-")
        link:deny("delete", THROTTLED, 1) -- the delete is executed all the same
        assert(lock:release({ wait = false }))
        eventually(function()
            return not observer:exists(held)
        end)
        assert.equal("timeout", select(3, lock:acquire(5)))
        assert.is_false(observer:exists(stray) and true or false)
    end)

    -- Found by a simulated restore. The node of a holder counted although it was gone. The stray was hidden in that number, and the
    -- holder, when it had heard of its loss, did not list the queue.
    it("deletes a stray also while it holds by a node that was deleted", function()
        local client, observer, path = fixture.client(), fixture.observer(), fixture.directory()
        local first, second = client:mutex(path), client:mutex(path, { handoff = 0 })
        assert(first:acquire(10))
        local stray = add_stray(first)
        fixture.join(path, "_c_" .. fixture.UUID .. "-lock-")
        assert(observer:delete(first:node()))
        assert.equal("timeout", select(3, second:acquire(10)))
        assert.is_false(first:held())
        assert.is_false(observer:exists(stray) and true or false)
    end)

    it("deletes a stray also by a try that fails because of it", function()
        local _, lock, stray = with_stray()
        assert.equal("timeout", (select(3, lock:try_acquire())))
        eventually(function()
            return not fixture.observer():exists(stray)
        end)
        assert(lock:try_acquire())
        assert.is_true(lock:release())
    end)

    -- A fault campaign made servers lose acknowledged writes (ZOOKEEPER-4785). The refusal then said that the numbers were used up,
    -- although the number was 2.
    it("refuses a number that the servers have given twice, and gives that reason", function()
        local path = fixture.directory()
        assert(fixture.observer():create(path .. "/_c_" .. fixture.UUID .. "-lock-0000000001"))
        local client = fixture.client()
        local ok, message, code = client:mutex(path):acquire(10)
        assert.same({ nil, "exhausted" }, { ok, code })
        assert.truthy(message:find("another node of '" .. path .. "' has the sequence number 1 too", 1, true), message)
        assert(client:flush(10))
        assert.equal(0, client:stats().entries)
    end)

    for _, path in ipairs({ "/limit", "/end", "/past" }) do
        it("answers exhausted at " .. path:sub(2) .. ", names the path and leaves nothing behind", function()
            local client = fixture.client(nil, servers.servers)
            for _, timeout in ipairs({ 10, 0 }) do
                local ok, message, code = client:mutex(path):acquire(timeout)
                assert.same({ nil, "exhausted" }, { ok, code })
                assert.truthy(message:find(path, 1, true), message)
            end
            assert(client:flush(10))
            assert.equal(0, client:stats().entries)
            assert.same({}, client:mutex(path):contenders(10))
        end)
    end
end)

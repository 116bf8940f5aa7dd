--- The names of nodes tell who holds. So the answer needs no right to read nodes, and other nodes in the directory do not change
-- it.

local credentials = require "spec.support.credentials"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"

local UUID = fixture.UUID

--- Makes somebody lead.
local function led(client, path, settings)
    local is_led = false
    settings.on_elected = function()
        is_led = true
    end
    local leader = assert(client:leader(path, settings))
    eventually(function()
        client:pump()
        return is_led
    end)
    return leader
end

--- Returns how many contenders are holders.
local function count_holders(contenders)
    local count = 0
    for _, contender in ipairs(contenders) do
        count = count + (contender.holder and 1 or 0)
    end
    return count
end

describe("who holds", function()
    after_each(fixture.clean)

    it("is told of a semaphore whose own directory may not be listed", function()
        local path, client = fixture.path(), fixture.client()
        fixture.observer():create_all((path:gsub("/[^/]*$", "")))
        assert(client:create(path, "", { acl = { { scheme = "world", id = "anyone", perms = "c" } } }))
        local mine, theirs = client:semaphore(path, 2), fixture.semaphore(path, 2)
        assert(mine:acquire { timeout = 20, count = 2 })
        assert.equal(2, count_holders(assert(theirs:contenders(20))))
        assert.equal(0, theirs:available(20))
        assert.equal(2, theirs:revoke(20))
        assert(mine:release())
    end)

    it("does not depend on the right to read the nodes, and costs as many requests for one permit as for many", function()
        local path, client = fixture.path(), fixture.client()
        fixture.observer():create_all(path .. "/locks")
        fixture.observer():create_all(path .. "/leases")
        local mine = fixture.client { auth = credentials.digest "boss:pw" }
        local held = mine:semaphore(path, 30, { acl = "creator" })
        assert(held:acquire { timeout = 20, count = 25 })
        local wide = mine:semaphore(path, 30, { acl = "creator" })
        local call = assert(wide:acquire { count = 20, callback = function() end })
        eventually(function() -- the head of the queue has a node for each permit that it wants, and waits
            return fixture.has(path .. "/leases", 45)
        end)
        local theirs = client:semaphore(path, 30)
        assert.equal(25, count_holders(assert(theirs:contenders(20))))
        local before = client:stats().requests
        assert.equal(5, theirs:available(20))
        assert.is_true(client:stats().requests - before < 10)
        call:cancel()
        assert(mine:flush(20))
        assert(held:release())
    end)

    it("leaves out the nodes of a semaphore in the directory of a mutex", function()
        local path, client = fixture.path(), fixture.client()
        fixture.observer():create_all(path)
        local lease = assert(fixture.observer():create(path .. "/_c_" .. UUID .. "-lease-0000000000", "theirs"))
        local leader = led(client, path, { identity = "boss" })
        assert.equal("boss", leader:leader(20))
        local mutex = fixture.mutex(path)
        assert.equal(1, #assert(mutex:contenders(20)))
        assert.equal(1, mutex:revoke(20))
        assert.equal("theirs", (client:get(lease)))
    end)

    it("is a leader without a name for a client that may not read its node", function()
        local path = fixture.path()
        fixture.observer():create_all(path)
        led(fixture.client { auth = credentials.digest "boss:pw" }, path, { acl = "creator", identity = "boss" })
        local other = assert(fixture.client():leader(path, { identity = "other" }))
        assert.equal("", other:leader(20))
        assert.is_false(other:is_leader())
    end)
end)

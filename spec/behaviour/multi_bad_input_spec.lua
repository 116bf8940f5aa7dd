--- A mistake in a call on multis raises an error at the caller's line and names what is wrong.

local compat = require "spec.support.compat"
local fixture = require "spec.support.fixture"
local mistake = require "spec.support.mistake"

describe("a multi refuses", function()
    local client, other

    setup(function()
        client, other = fixture.client(), fixture.client()
    end)

    teardown(fixture.clean)

    local function refused(what, ...)
        local arguments = compat.pack(...)
        mistake(function()
            client:multi(compat.unpack(arguments, 1, arguments.n))
        end, "client:multi: ", what)
    end

    it("an empty list, and anything that is not a list #valgrind #asan", function()
        refused("there must be at least one lock", {})
        refused("list of locks")
        refused("list of locks", 5)
        refused("list of locks", "locks")
        refused("list of locks", client:mutex("/a"))
        refused("list of locks", client:mutex("/a"), client:mutex("/b"))
    end)

    it("a member that is not a lock, and names the member", function()
        refused("member 2 must be a lock", { client:mutex("/a"), "/b" })
        refused("member 1 must be a lock", { {} })
        refused("member 1 must be a lock", { false })
        refused("member 1 must be a lock (of a read/write lock: its read or its write)", { client:rwlock("/a") })
        refused("member 1 must be a lock", { client })
        refused("member 1 must be a lock", { client:multi({ client:mutex("/a") }) })
    end)

    it("a list with holes or with named keys", function()
        refused("member 2 must be a lock", { client:mutex("/a"), nil, client:mutex("/b") })
        refused("member 1 must be a lock", { [2] = client:mutex("/a") })
        refused("must be a lock", { [0] = client:mutex("/a"), [1] = client:mutex("/b") })
        refused("must be a lock", { [1.5] = client:mutex("/a") })
        refused("there is a key 'timeout'", { client:mutex("/a"), timeout = 5 })
    end)

    it("the same lock twice, two locks on one path, and both halves of a read/write lock", function()
        local lock, rw = client:mutex("/a"), client:rwlock("/b")
        refused("two members are on the path /a", { lock, client:mutex("/b"), lock })
        refused("two members are on the path /a", { lock, client:semaphore("/a", 2) })
        refused("two members are on the path /b", { rw.read, lock, rw.write })
    end)

    it("a semaphore and a lock on its queue, which wait for each other as soon as another program waits for a permit", function()
        for _, inner in ipairs { client:mutex("/s/locks"), client:rwlock("/s/locks").read, client:rwlock("/s/locks").write } do
            refused("the path /s/locks is the queue of the semaphore /s", { inner, client:semaphore("/s", 2) })
            refused("the path /s/locks is the queue of the semaphore /s",
                { client:semaphore("/s", 2), client:mutex("/s/a"), inner })
        end
        -- These do not exclude each other.
        assert(client:multi { client:semaphore("/s", 2), client:semaphore("/s/locks", 2), client:mutex("/s/locks/a") })
        assert(client:multi { client:mutex("/s"), client:mutex("/s/locks"), client:mutex("/s/leases"), client:semaphore("/t", 1) })
    end)

    it("a lock of another client", function()
        refused("member 2 is a lock of another client", { client:mutex("/a"), other:mutex("/b") })
    end)

    it("invalid timeouts and settings", function()
        local all = client:multi({ client:mutex("/a") })
        for _, timeout in ipairs({ -1, 0 / 0, "5", true }) do
            mistake(function()
                all:acquire(timeout)
            end, "multi:acquire: timeout must be a number of seconds, 0 or more")
            mistake(function()
                all:with_lock(print, timeout)
            end, "multi:with_lock: timeout must be a number of seconds, 0 or more")
        end
        mistake(function()
            all:acquire({ count = 1 })
        end, "unknown option 'count'")
        mistake(function()
            all:release({ wait = 5 })
        end, "multi:release: option 'wait' must be true or false")
        mistake(function()
            all:release(5)
        end, "multi:release: options must be a table")
        mistake(function()
            all:with_lock(nil)
        end, "multi:with_lock: the first argument must be a function")
        assert.equal("not_held", select(3, all:release()))
    end)

    it("a call with a dot instead of a colon", function()
        local all = client:multi({ client:mutex("/a") })
        for _, method in ipairs({ "acquire", "try_acquire", "release", "with_lock", "cancel", "held", "remaining", "members",
            "transaction" }) do
            mistake(function()
                all[method](5)
            end, "multi:" .. method .. ": call it with a colon")
        end
        mistake(function()
            client.multi({})
        end, "colon")
    end)

    it("to follow changes that the program makes to the list afterwards", function()
        local list = { client:mutex(fixture.path()), client:mutex(fixture.path()) }
        local all = client:multi(list)
        list[1] = nil
        assert.equal(2, #all:members())
        assert(all:acquire(10))
        assert.is_true(all:release())
    end)
end)

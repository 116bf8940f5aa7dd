--- Options that a program gives again and again: which client zklock.shared returns, and what locks have.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local zklock = require "zklock"

after_each(fixture.clean)

--- Returns what zklock.shared returns, and closes it after the spec.
local function shared(settings)
    local client = assert(zklock.shared(fixture.servers(), settings))
    fixture.on_clean(function()
        client:close()
    end)
    return client
end

describe("a shared client", function()
    it("is the same for the same options, in whatever order, and however often", function()
        local client = shared({ wait = loop, session_timeout = 21, identity = "me" })
        for _ = 1, 3 do
            assert.equal(client, shared({ identity = "me", session_timeout = 21, wait = loop }))
        end
        local settings = {}
        settings.session_timeout, settings.identity, settings.connect_timeout, settings.wait = 21, "me", 3, loop
        assert.equal(client, shared(settings))
    end)

    it("is another one if an option has another value, is missing, or is added", function()
        local client = shared({ wait = loop, session_timeout = 22, identity = "me" })
        for _, settings in ipairs({
            { session_timeout = 23, identity = "me" },
            { session_timeout = 22, identity = "you" },
            { session_timeout = 22 },
            { session_timeout = 22, identity = "me", lease = false },
            { session_timeout = 22, identity = "me", auth = { { scheme = "digest", credential = "a:b" } } }
        }) do
            settings.wait = loop
            local other = shared(settings)
            assert.not_equal(client, other)
            assert.equal(other, shared(settings))
            assert.equal(client, shared({ wait = loop, session_timeout = 22, identity = "me" }))
        end
    end)

    it("is another one for other credentials", function()
        local function of(credential)
            return shared({ wait = loop, session_timeout = 24, auth = { { scheme = "digest", credential = credential } } })
        end
        local client = of("a:b")
        assert.equal(client, of("a:b"))
        assert.not_equal(client, of("a:c"))
        assert.equal(client, of("a:b"))
    end)

    it("is another one if a text looks like several options, or a number like another", function()
        local function is_other(one, other)
            one.wait, other.wait = loop, loop
            assert.not_equal(shared(one), shared(other))
        end
        is_other({ identity = "a,lease=boolean:true" }, { identity = "a", lease = true })
        is_other({ identity = "a;b" }, { identity = "a" })
        is_other({ session_timeout = 20 }, { session_timeout = 20 + 2 ^ -48 })
    end)

    it("is opened again after it was closed", function()
        local settings = { wait = loop, session_timeout = 25 }
        local client = shared(settings)
        assert.equal(client, shared(settings))
        client:close()
        local other = shared(settings)
        assert.not_equal(client, other)
        assert.equal(other, shared(settings))
    end)

    it("is refused a bad option, also after a good call", function()
        shared({ wait = loop, session_timeout = 26 })
        for _, settings in ipairs({ { session_timeout = 26, typo = 1 }, { session_timeout = "26" } }) do
            settings.wait = loop
            assert.has_error(function()
                zklock.shared(fixture.servers(), settings)
            end)
        end
    end)
end)

describe("the options of locks, which are often the same", function()
    it("are each lock's own", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local function nodes_after_release(settings)
            local lock = client:mutex(path, settings)
            assert(lock:acquire(10))
            assert(lock:release())
            return #fixture.children(path)
        end
        for _ = 1, 2 do
            assert.equal(0, nodes_after_release(nil))
            assert.equal(1, nodes_after_release({ linger = 60 }))
            assert.equal(1, nodes_after_release({ linger = 60 }))
            assert.equal(0, nodes_after_release({ identity = "other" })) -- cannot share the node that lingers
            assert.equal(0, nodes_after_release({ linger = 0 }))
        end
    end)

    it("are not changed by what other calls make of them", function()
        local client, path = fixture.steady_client(), fixture.directory()
        --- The nodes by which two coroutines hold and wait: one, unless `handoff` is 0, as a leader's is.
        local function nodes_of_two()
            local lock, nodes = client:mutex(path, { identity = "me" }), nil
            loop.run(function()
                assert(lock:acquire(10))
                loop.until_true(function()
                    local stats = client:stats()
                    return stats.acquisitions - stats.grants - stats.refusals == 1
                end)
                assert(client:sync(path)) -- a round trip
                nodes = #fixture.children(path)
                assert(lock:release())
            end, function()
                loop.until_true(function()
                    return hold_of(lock):held()
                end)
                assert(lock:acquire(10))
                assert(lock:release())
            end)
            return nodes
        end
        assert.equal(1, nodes_of_two())
        client:leader(path .. "-leader", { identity = "me" }):close()
        assert.equal(1, nodes_of_two())
    end)

    it("are checked each time", function()
        local client = fixture.steady_client()
        for _ = 1, 2 do
            assert(client:mutex("/a", { linger = 1 }))
            assert.has_error(function()
                client:mutex("/a", { linger = -1 })
            end)
            assert.has_error(function()
                client:mutex("/a", { linger = 1, typo = true })
            end)
            assert.has_error(function()
                client:mutex("/a", 5)
            end)
            assert.has_error(function()
                client:mutex("/a", false)
            end)
            assert.has_error(function()
                client:semaphore("/a", 2, { linger = 1 })
            end)
        end
    end)

    local has_ffi, ffi = pcall(require, "ffi")
    if has_ffi then -- LuaJIT's int64_t compares as equal to a number
        it("are checked where a value only compares as equal to that of an earlier lock", function()
            local client = fixture.steady_client()
            assert(client:mutex("/a", { linger = 1 }))
            assert.has_error(function()
                client:mutex("/a", { linger = ffi.new("int64_t", 1) })
            end)
        end)
    end
end)

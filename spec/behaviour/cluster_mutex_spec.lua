--- cluster_mutex: the first program runs its function, those that come meanwhile wait and run nothing. The results are those of
-- Kong's function of the same name.

local compat = require "spec.support.compat"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local takes = require "spec.support.takes"
local zklock = require "zklock"

after_each(fixture.clean)

--- Returns a new key, which the specs of one file do not share.
local function new_key()
    return fixture.path()
end

local function never()
    error("this must not run")
end

--- Within support.loop: lets the other coroutines run for so long.
local function rest(client, seconds)
    client:mutex(fixture.path()):with_lock(function() end, 10)
    local until_then = require("zklock.core").now() + seconds
    loop.until_true(function()
        return require("zklock.core").now() >= until_then
    end)
end

describe("cluster_mutex", function()
    it("runs the function, and returns true and nothing else", function()
        local client, key, ran = fixture.loop_client(), new_key(), 0
        local results = compat.pack(client:cluster_mutex(key, nil, function(held)
            ran = ran + 1
            assert.is_true(held:held())
            assert.equal(zklock.path("/cluster_mutex", key), held:path())
            return "dropped"
        end))
        assert.same({ n = 1, true }, results)
        assert.equal(1, ran)
        assert.is_true(fixture.has(zklock.path("/cluster_mutex", key), 0))
    end)

    if compat.PCALL_YIELDS then
        it("runs one function of those that are called meanwhile; the others wait for its end and return false #asan", function()
            local key, ran, ended, results, functions = new_key(), 0, false, {}, {}
            for index = 1, 6 do
                local client = fixture.steady_client()
                functions[index] = function()
                    results[index] = client:cluster_mutex(key, { ttl = 30 }, function()
                        ran = ran + 1
                        rest(client, 2)
                        ended = true
                    end)
                    assert.is_true(ended)
                end
            end
            loop.run_all(functions)
            assert.equal(1, ran)
            local first = 0
            for index = 1, 6 do
                assert.is_boolean(results[index])
                first = first + (results[index] and 1 or 0)
            end
            assert.equal(1, first)
        end)

        it("does so within one client too", function()
            local client, key, ran, results = fixture.steady_client(), new_key(), 0, {}
            local function run()
                local result = client:cluster_mutex(key, nil, function()
                    ran = ran + 1
                    rest(client, 0.5)
                end)
                results[#results + 1] = result
            end
            loop.run_all { run, run, run }
            assert.equal(1, ran)
            assert.same({ true, false, false }, results)
        end)

        it("holds no longer than ttl: then another program runs its function, and the first is told", function()
            local client, other, key = fixture.steady_client(), fixture.steady_client(), new_key()
            local ended
            loop.run(function()
                local ok, message, code = client:cluster_mutex(key, { ttl = 1 }, function()
                    rest(client, 3)
                end)
                assert.same({ nil, "lost" }, { ok, code })
                assert.truthy(message:find("max_hold", 1, true), message)
            end, function()
                rest(other, 0.2)
                assert.is_false(other:cluster_mutex(key, nil, never)) -- it waited for the first
                assert.is_true(other:cluster_mutex(key, nil, function()
                    ended = true
                end))
            end)
            assert.is_true(ended)
        end)
    else
        it("answers with Lua 5.1's own error if the function yields, and leaves the mutex free", function()
            local client, key = fixture.steady_client(), new_key()
            loop.run(function()
                local ok, message, code = client:cluster_mutex(key, nil, function()
                    rest(client, 1)
                end)
                assert.same({ nil, "failed" }, { ok, code })
                assert.truthy(message:find("attempt to yield across", 1, true), message)
                assert.is_true(client:cluster_mutex(key, { no_wait = true }, function() end))
            end)
        end)
    end

    it("returns false to those that have waited, when the program that was ahead has ended", function()
        local key, functions, ended = new_key(), {}, 0
        local path = zklock.path("/cluster_mutex", key)
        local ahead, client = fixture.mutex(path)
        assert(ahead:acquire(10))
        for index = 1, 4 do
            local other = index % 2 == 0 and client or fixture.steady_client()
            functions[index] = function()
                assert.same({ n = 1, false }, compat.pack(other:cluster_mutex(key, nil, never)))
                ended = ended + 1
            end
        end
        functions[5] = function()
            loop.until_true(function()
                local stats = client:stats()
                return stats.acquisitions - stats.grants == 2 and fixture.has(path, 3) -- its own two wait for the holder's node
            end)
            assert.equal(0, ended)
            assert(hold_of(ahead):release())
        end
        loop.run_all(functions)
        assert.equal(4, ended)
    end)

    it("runs the function again once the first has ended", function()
        local key, ran = new_key(), 0
        for _ = 1, 3 do
            assert.is_true(fixture.steady_client():cluster_mutex(key, {}, function()
                ran = ran + 1
            end))
        end
        assert.equal(3, ran)
    end)

    it("with no_cleanup keeps the mutex until ttl is over, also after an error, and refuses others until then #asan", function()
        for _, fn in ipairs { function() end, error } do
            local client, other, key = fixture.steady_client(), fixture.steady_client(), new_key()
            local ran = client:cluster_mutex(key, { ttl = 3, no_cleanup = true }, fn)
            assert.equal(fn ~= error or nil, ran)
            fixture.collect()
            assert.is_false(other:cluster_mutex(key, { no_wait = true }, never))
            assert.is_false(client:cluster_mutex(key, { no_wait = true, no_cleanup = true }, never))
            loop.run(function()
                takes(3, function()
                    assert.is_false(other:cluster_mutex(key, { ttl = 30, no_cleanup = true }, never)) -- it waited
                end, 0)
            end)
            assert.is_true(other:cluster_mutex(key, { no_wait = true }, function() end))
            client:pump()
            assert.same({}, client:desk().left)
            assert.same({}, other:desk().left)
        end
    end)

    it("with no_cleanup answers lost if the function takes longer, and frees what the function has released", function()
        local client, key = fixture.client(), new_key()
        local ran, _, code = client:cluster_mutex(key, { ttl = 1, no_cleanup = true }, function(hold)
            assert(hold:extend(0.001))
            fixture.await_not_held(hold)
        end)
        assert.same({ nil, "lost" }, { ran, code })
        assert.is_true(client:cluster_mutex(key, { no_cleanup = true }, function(hold)
            assert(hold:release())
        end))
        assert.is_true(client:cluster_mutex(key, { no_wait = true }, function() end))
        client:pump()
        assert.same({}, client:desk().left)
    end)

    it("with no_wait returns false at once while another program is ahead", function()
        local client, other, key = fixture.steady_client(), fixture.steady_client(), new_key()
        assert.is_true(client:cluster_mutex(key, { no_wait = true }, function()
            takes(0, function()
                assert.same({ n = 1, false }, compat.pack(other:cluster_mutex(key, { no_wait = true }, never)))
            end)
        end))
    end)

    it("answers timeout after the timeout, or after the ttl", function()
        local client, other, key = fixture.steady_client(), fixture.steady_client(), new_key()
        assert.is_true(client:cluster_mutex(key, nil, function()
            for _, settings in ipairs { { timeout = 0.5 }, { timeout = 0.5, ttl = 9 }, { ttl = 0.5 } } do
                takes(0.5, function()
                    local ok, message, code = fixture.answered(function()
                        return other:cluster_mutex(key, settings, never)
                    end)
                    assert.same({ nil, "timeout" }, { ok, code })
                    assert.truthy(message:find(zklock.path("/cluster_mutex", key), 1, true), message)
                end)
            end
        end))
    end)

    it("returns an error of the function with its traceback, and leaves the mutex free", function()
        local client, key = fixture.steady_client(), new_key()
        local ok, message, code = client:cluster_mutex(key, nil, function()
            error("no such table")
        end)
        assert.same({ nil, "failed" }, { ok, code })
        assert.truthy(message:find("no such table", 1, true), message)
        assert.truthy(message:find("stack traceback", 1, true), message)
        assert.truthy(message:find(key, 1, true), message)
        local function odd(result)
            return setmetatable({}, { __tostring = function() return result end })
        end
        for _, case in ipairs {
            { odd "an odd error", "an odd error" }, { odd {}, "an error that has no text" }, { false, "false" }, { nil, "" }
        } do
            ok, message, code = client:cluster_mutex(key, nil, function()
                error(case[1])
            end)
            assert.same({ nil, "failed" }, { ok, code })
            assert.truthy(message:find("raised: .*" .. case[2]), message)
        end
        assert.is_true(fixture.steady_client():cluster_mutex(key, { no_wait = true }, function() end))
    end)

    it("answers disconnected if there is no ZooKeeper in time", function()
        local client, link = fixture.client_behind_proxy { wait = loop, session_timeout = 30 }
        fixture.cut_off(client, link)
        assert.equal("disconnected", select(3, client:cluster_mutex(new_key(), { timeout = 0.5 }, never)))
        assert.equal("disconnected", select(3, client:cluster_mutex(new_key(), { no_wait = true }, never)))
    end)

    it("takes any string as a key, and anything that can be called", function()
        local client = fixture.steady_client()
        for _, key in ipairs { "", "/", "..", "a/b\0c", ("x"):rep(5000) } do
            local callable = setmetatable({}, { __call = function() end })
            assert.is_true(client:cluster_mutex(key, nil, callable))
        end
    end)

    it("refuses mistakes of its caller", function()
        local client = fixture.client()
        mistake(function()
            client:cluster_mutex(nil, nil, never)
        end, "client:cluster_mutex: key must be a string")
        mistake(function()
            client:cluster_mutex("a", { owner = "me" }, never)
        end, "client:cluster_mutex: unknown option 'owner'")
        mistake(function()
            client:cluster_mutex("a", { ttl = 0 }, never)
        end, "client:cluster_mutex: option 'ttl' must be a number of seconds above 0")
        mistake(function()
            client:cluster_mutex("a", { timeout = 1, no_wait = true }, never)
        end, "client:cluster_mutex: option 'timeout' must not be given together with no_wait")
        mistake(function()
            client:cluster_mutex("a", nil)
        end, "client:cluster_mutex: the third argument must be a function")
    end)
end)

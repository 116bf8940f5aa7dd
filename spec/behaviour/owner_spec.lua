--- Several coroutines use one lock object, as programs do that keep it in a module. Each coroutine acquires for itself.

local compat = require "spec.support.compat"
local coroutines = require "spec.support.coroutines"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"

local assert_unused, begin = coroutines.assert_unused, coroutines.begin
local code_of, several = coroutines.code_of, coroutines.several

--- Defines a test only if the interpreter is able to run it.
local function it_if(able, ...)
    if able then
        it(...)
    end
end

--- Returns the directory in which the contenders of a lock queue.
local function contenders_of(kind, path)
    return path .. kind.directories[1]
end

after_each(fixture.clean)

for _, kind in ipairs(kinds) do
    local shared = kind.name == "read lock"

    describe("a " .. kind.name .. " that several coroutines use", function()
        for _, reentrant in ipairs({ false, true }) do
            it(("is held by each for itself (reentrant: %s) #asan"):format(tostring(reentrant)), function()
                local client, path = fixture.loop_client(), fixture.path()
                local lock = kind.new(client, path, { reentrant = reentrant, handoff = 2 })
                local inside, most, turns, tokens = 0, 0, 0, {}
                loop.run_all(several(4, function()
                    for _ = 1, 3 do
                        assert.is_false(lock:held())
                        local got = assert(lock:acquire(30))
                        inside, turns = inside + 1, turns + 1
                        most = math.max(most, inside)
                        assert.is_true(lock:held() and got:held())
                        assert.is_true(lock:remaining() > 0)
                        assert.equal(got:node(), lock:node())
                        tokens[#tokens + 1] = lock:token()
                        if reentrant then
                            assert(lock:acquire(30))
                            assert(lock:try_acquire())
                            assert.is_true(lock:release() and lock:release())
                        else
                            assert.equal("deadlock", code_of(lock:acquire(30)))
                            assert.equal("deadlock", code_of(lock:try_acquire()))
                        end
                        fixture.pass(4)
                        assert.is_true(lock:held())
                        inside = inside - 1
                        assert.is_true(lock:release())
                        assert.is_false(lock:held() or got:held())
                        assert.equal("not_held", code_of(lock:release()))
                    end
                end))
                assert.equal(12, turns)
                assert.equal(shared, most > 1)
                for index = 2, shared and 0 or #tokens do
                    assert.is_true(tokens[index] > tokens[index - 1])
                end
                assert_unused(lock)
                fixture.assert_nothing_left(client)
                for _, directory in ipairs(kind.directories) do
                    assert.same({}, fixture.children(path .. directory))
                end
            end)
        end

        it("runs with_lock for each coroutine, and passes its function the lock that is held #asan", function()
            local client, path = fixture.loop_client(), fixture.path()
            local lock = kind.new(client, path)
            local inside, most, turns = 0, 0, 0
            loop.run_all(several(4, function(number)
                local ok, answer = lock:with_lock(function(given, ...)
                    inside, turns = inside + 1, turns + 1
                    most = math.max(most, inside)
                    assert.is_true(given:held() and lock:held())
                    assert.equal(given:token(), lock:token())
                    assert.same({ given:token_numbers() }, { lock:token_numbers() })
                    assert.is_number((lock:token_numbers()))
                    assert.equal("deadlock", code_of(lock:with_lock(error, 10)))
                    if compat.PCALL_YIELDS then
                        fixture.pass(4)
                    end
                    inside = inside - 1
                    return ...
                end, 30, number)
                assert.same({ true, number }, { ok, answer })
                assert.is_false(lock:held())
            end))
            assert.equal(4, turns)
            assert.is_true(shared or most == 1)
            assert_unused(lock)
            fixture.assert_nothing_left(client)
        end)

        it("is the holding coroutine's: others release it by its hold only", function()
            local client, path = fixture.loop_client(), fixture.path()
            local lock, held = kind.new(client, path, { reentrant = true }), nil
            loop.run(function()
                held = assert(lock:acquire(30))
                assert.equal(held, lock:acquire(30))
                loop.until_true(function()
                    return not held:held()
                end)
                assert.is_false(lock:held())
                assert.equal("not_held", code_of(lock:release()))
            end, function()
                loop.until_true(function()
                    return held
                end)
                local ok, message, code = lock:release()
                assert.same({ nil, "not_held" }, { ok, code })
                assert.truthy(message:find(path, 1, true), message)
                assert.truthy(message:find("call it of the hold that acquire returned", 1, true), message)
                assert.equal("not_held", code_of(lock:extend(1)))
                assert.same({ false, 0 }, { lock:held(), lock:remaining() })
                assert.is_nil(lock:token() or lock:node() or lock:waited())
                assert.is_true(held:held() and held:token() ~= nil and held:node() ~= nil and held:waited() == 0)
                assert.is_true(held:release())
                assert.is_true(held:held())
                assert.is_true(held:release())
                assert.is_false(held:held())
            end)
            assert_unused(lock)
            fixture.assert_nothing_left(client)
        end)

        it("ends all waits when cancelled", function()
            local client, path = fixture.loop_client(), fixture.path()
            local lock = kind.new(client, path)
            local rival = kind.rival(client, path, { handoff = 0 })
            local codes = {}
            assert(rival:acquire(10))
            local functions = several(3, function(number)
                codes[number] = code_of(lock:acquire(30))
            end)
            functions[4] = function()
                loop.until_true(function()
                    local waiting = 0
                    for _ in pairs(client:desk().attempts) do
                        waiting = waiting + 1
                    end
                    return waiting == 3
                end)
                assert.is_true(lock:cancel())
                assert.is_false(lock:cancel())
            end
            loop.run_all(functions)
            assert.same({ "cancelled", "cancelled", "cancelled" }, codes)
            assert_unused(lock)
            assert(rival:release())
            fixture.assert_nothing_left(client)
        end)

        it("passes to on_lost and on_revoke the lock that was lost or is wanted", function()
            local client, path, lost, revoked = fixture.loop_client(), fixture.path(), {}, {}
            local lock = kind.new(client, path, {
                on_lost = function(gone, reason)
                    lost[#lost + 1] = { gone, reason }
                end,
                on_revoke = function(wanted)
                    revoked[#revoked + 1] = wanted
                    assert(wanted:release({ wait = false }))
                end
            })
            local got, done = {}, 0
            loop.run_all(several(2, function(number)
                got[number] = assert(lock:acquire(30))
                if number == 1 then
                    fixture.pass(4)
                    assert.is_true(shared or lock:release())
                else
                    loop.until_true(function()
                        return not shared or done == 1
                    end)
                    assert(fixture.observer():delete(lock:node()))
                    loop.until_true(function()
                        client:pump()
                        return lost[shared and 2 or 1] -- readers of one client share a node
                    end)
                    assert.same({ "lost", "lost" }, { lost[1][2], lost[#lost][2] })
                    assert.is_true(lost[1][1] == got[2] or lost[#lost][1] == got[2])
                    assert.is_false(lock:held())
                    assert(lock:acquire(30))
                    assert(kind.new(client, path):revoke(10) > 0)
                    loop.until_true(function()
                        client:pump()
                        return revoked[1]
                    end)
                    assert.is_false(lock:held())
                end
                done = done + 1
            end))
            assert.equal(shared and 2 or 1, #lost)
        end)

        it_if(compat.PCALL_YIELDS, "releases at the end of with_lock what its function has acquired anew beside others", function()
            local client, path = fixture.loop_client(), fixture.path()
            local lock = kind.new(client, path)
            local step = 0
            local function until_step(wanted)
                loop.until_true(function()
                    return step >= wanted
                end)
            end
            loop.run(function()
                assert.is_true(lock:with_lock(function()
                    step = 1
                    fixture.until_children(contenders_of(kind, path), 1)
                    assert.is_true(lock:release())
                    until_step(2)
                    assert(lock:acquire(30))
                    assert.is_true(lock:held())
                end, 30))
                assert.is_false(lock:held())
                step = 4
            end, function()
                until_step(1)
                assert(lock:acquire(30))
                step = 2
                fixture.pass(4)
                assert.is_true(lock:held())
                assert.is_true(lock:release())
                until_step(4)
                assert.is_false(lock:held())
            end)
            assert_unused(lock)
            fixture.assert_nothing_left(client)
        end)

        it("answers deadlock at once to a coroutine that its own holder has resumed #asan", function()
            local client, path = fixture.loop_client(), fixture.path()
            for _, reentrant in ipairs({ false, true }) do
                local lock = kind.new(client, path, { reentrant = reentrant })
                loop.run(function()
                    assert(lock:acquire(30))
                    local code
                    begin(function()
                        code = code_of(lock:acquire(shared and 30 or 0.2)) or "held"
                        if code == "held" then
                            assert.is_true(lock:release())
                        end
                    end)
                    -- Readers hold together, perhaps a moment later. Whether other holders release their permits is not known.
                    local waits = shared or kind.name == "semaphore"
                    if not waits then
                        assert.equal("deadlock", code)
                    end
                    if shared then
                        loop.until_true(function()
                            return code
                        end)
                    end
                    assert.is_true(lock:held())
                    assert.is_true(lock:release())
                    loop.until_true(function()
                        return code
                    end)
                    assert.is_true(not waits or code == "held" or code == "timeout" and not shared, code)
                end)
                assert_unused(lock)
            end
        end)

        it("can be used by a plain program's coroutines: they get deadlock if a wait would stop the holder", function()
            local client, path = fixture.client(), fixture.path()
            for _, reentrant in ipairs({ false, true }) do
                local lock = kind.new(client, path, { reentrant = reentrant })
                local thread = begin(function()
                    assert(lock:acquire(10))
                    coroutine.yield()
                    assert.is_true(lock:held())
                    assert.is_true(lock:release())
                end)
                if shared then
                    assert(lock:acquire(10))
                    assert.is_true(lock:release())
                else
                    assert.equal("deadlock", code_of(lock:acquire(10)))
                    assert.equal("deadlock", code_of(lock:acquire()))
                end
                assert.equal(shared and "held" or "timeout", code_of(lock:try_acquire()) or lock:release() and "held")
                assert.equal("not_held", code_of(lock:release()))
                assert.is_false(lock:held())
                assert(coroutine.resume(thread))
                assert.equal("dead", coroutine.status(thread))
                assert(lock:acquire(10))
                assert.is_true(lock:release())
                assert_unused(lock)
            end
        end)

        it("stays held when its coroutine has ended, for as long as the lock or the hold is referred to", function()
            local client, path = fixture.client(), fixture.path()
            for _, by in ipairs({ "lock", "hold" }) do
                local kept = {}
                begin(function() -- not on the spec's stack, where LuaJIT's collector would find them
                    local lock = kind.new(client, path)
                    kept.lock = lock
                    kept.hold = assert(lock:acquire(10))
                end)
                local lock = kind.new(client, path)
                if kind.name == "mutex" then
                    assert.equal("deadlock", code_of(kept.lock:acquire(10)))
                end
                assert.equal("not_held", code_of(kept.lock:release()))
                kept[by == "lock" and "hold" or "lock"] = nil
                fixture.collect()
                assert(client:flush(10))
                assert.is_true(#fixture.children(path .. kind.directories[#kind.directories]) > 0)
                kept[by] = nil
                fixture.collect()
                fixture.await_children(path .. kind.directories[#kind.directories], 0)
                assert_unused(lock)
            end
        end)

        it("checks its holder's node in transactions, each coroutine its own", function()
            local client, path, target = fixture.loop_client(), fixture.path(), fixture.path()
            local lock = kind.new(client, path)
            assert(client:create(target, "0"))
            local written = 0
            loop.run_all(several(3, function(number)
                assert(lock:acquire(30))
                fixture.pass(4)
                assert(lock:transaction():set(target, tostring(number)):commit(10))
                written = written + 1
                assert.is_true(lock:release())
                assert.equal("not_held", code_of(lock:transaction():set(target, "never"):commit(10)))
            end))
            assert.equal(3, written)
        end)

        it("is one lock for all coroutines of one owner, if the adapter reports owners", function()
            local owner = { first = {}, second = {}, third = {} }
            local acts = "first"
            local adapter = setmetatable({ owner = function()
                return owner[acts]
            end }, { __index = require "zklock.adapters.blocking" })
            local client, path = fixture.client({ wait = adapter }), fixture.path()
            local lock = kind.new(client, path, { reentrant = true })
            local first
            begin(function()
                first = assert(lock:acquire(10))
            end)
            assert.is_true(lock:held())
            begin(function()
                assert.equal(first, lock:acquire(10)) -- the first coroutine has ended: its owner acquires again
                assert.is_true(lock:release())
            end)
            acts = "third"
            assert.is_false(lock:held())
            assert.equal("not_held", code_of(lock:release()))
            acts = "second"
            assert.is_nil((lock:try_acquire()) and not shared or nil)
            if shared then
                assert.is_true(lock:release())
            end
            assert.is_false(lock:held())
            assert.equal("not_held", code_of(lock:release()))
            acts = "first"
            assert.is_true(lock:held())
            assert.is_true(lock:release())
            assert.is_false(lock:held())
            assert_unused(lock)
            fixture.assert_nothing_left(client)
        end)

        it("says so when it is waited for in vain and the owner itself holds it", function()
            local owners, acts = { {}, {} }, 1
            local client, path = fixture.client { wait = setmetatable({ owner = function()
                return owners[acts]
            end }, { __index = require "zklock.adapters.blocking" }) }, fixture.path()
            local hint = "; the request that asks holds it itself"
            assert(kind.rival(client, path, { handoff = 0 }):acquire(10))
            local lock = kind.new(client, path, { handoff = 0 })
            for _, way in ipairs { "acquire", "try_acquire" } do
                for _, who in ipairs { 1, 2 } do
                    acts = who
                    local _, message, code = lock[way](lock, way == "acquire" and 1 or nil)
                    assert.equal("timeout", code)
                    assert.equal(who == 1, message:find(hint, 1, true) ~= nil, message)
                end
            end
        end)
    end)
end

--- One lock object that several coroutines use, as a module keeps it: each of them acquires for itself.

local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local zklock = require "zklock"

--- Functions for loop.run_all of so many coroutines; each gets its number.
local function several(count, fn)
    local functions = {}
    for index = 1, count do
        functions[index] = function()
            fn(index)
        end
    end
    return functions
end

local function code_of(...)
    return (select(3, ...))
end

--- Leaves out what the interpreter cannot do.
local function it_if(able, ...)
    if able then
        it(...)
    end
end

--- Resumes a new coroutine once.
local function begin(fn)
    local thread = coroutine.create(fn)
    assert(coroutine.resume(thread))
    return thread
end

--- No coroutine has left anything in a lock object.
local function assert_unused(lock)
    assert.is_false(lock._others)
    assert.is_false(lock._hold)
    assert.is_nil(lock._client._attempts[lock])
end

--- The directory in which the contenders of a lock queue.
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
                    for round = 1, 3 do
                        -- A coroutine that has not asked for the object yet may look at what another one has acquired by it.
                        assert.is_true(round == 1 or not lock:held())
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
                            assert.equal("deadlock", code_of(got:try_acquire()))
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

        it("runs with_lock of each, and gives its function the lock that is held #asan", function()
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

        it("is not released by a coroutine that has not got it, but by one that was given it", function()
            local client, path = fixture.loop_client(), fixture.path()
            local lock, blocker = kind.new(client, path, { reentrant = true }), nil
            local tried, given = false, false
            loop.run(function()
                assert(lock:acquire(30))
                assert(lock:acquire(30))
                loop.until_true(function()
                    return given
                end)
                assert.is_false(lock:held())
                assert.equal("not_held", code_of(lock:release()))
            end, function()
                loop.until_true(function()
                    return lock:held()
                end)
                -- One that comes after a rival cannot have it, whatever the kind.
                blocker = kind.rival(client, path)
                begin(function()
                    blocker:acquire(60)
                end)
                assert.is_nil((lock:acquire(0.05)))
                local ok, message, code = lock:release()
                assert.same({ nil, "not_held" }, { ok, code })
                assert.truthy(message:find(path, 1, true), message)
                assert.truthy(message:find("another", 1, true), message)
                assert.same({ false, 0 }, { lock:held(), lock:remaining() })
                assert.is_nil(lock:token() or lock:node())
                tried = true
            end, function()
                loop.until_true(function()
                    return tried
                end)
                assert.is_true(lock:held())
                assert.is_true(lock:release())
                assert.is_true(lock:held())
                assert.is_true(lock:release())
                assert.is_false(lock:held())
                given = true
                blocker:cancel()
            end)
        end)

        it("ends all waits at a cancel", function()
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
                    for _ in pairs(client._attempts) do
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

        it("tells of a loss and of a revocation by the lock that it is about", function()
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
                    assert.not_equal(lock, got[2])
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

        it("says deadlock at once to a coroutine that its holder waits for #asan", function()
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
                    -- Readers go in beside each other, perhaps a moment later; of permits it is not known whether others give back
                    -- theirs.
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

        it("is used by a plain program's coroutines too: they say deadlock where waiting would stop the holder", function()
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

        it("leaves what an ended coroutine holds to the others", function()
            local client, path = fixture.client(), fixture.path()
            for _, reentrant in ipairs({ false, true }) do
                local lock = kind.new(client, path, { reentrant = reentrant })
                assert(lock:acquire(10))
                assert.is_true(lock:release())
                begin(function()
                    assert(lock:acquire(10))
                end)
                assert.is_true(lock:held())
                if reentrant then
                    assert(lock:acquire(10))
                    assert.is_true(lock:release())
                else
                    assert.equal("deadlock", code_of(lock:acquire(10)))
                end
                assert.is_true(lock:held())
                assert.is_true(lock:release())
                assert.is_false(lock:held())
                assert_unused(lock)
            end
        end)

        it("knows its holder's node in transactions, each coroutine's own", function()
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

        it("is one lock for coroutines of one owner, if the adapter knows owners", function()
            local owner = { first = {}, second = {}, third = {} }
            local acts = "first"
            local adapter = setmetatable({ owner = function()
                return owner[acts]
            end }, { __index = require "zklock.adapters.blocking" })
            local client, path = fixture.client({ wait = adapter }), fixture.path()
            local lock = kind.new(client, path, { reentrant = true })
            begin(function()
                assert(lock:acquire(10))
            end)
            assert.is_true(lock:held())
            begin(function()
                assert(lock:acquire(10)) -- the first has ended: its owner acquires again
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
    end)
end

describe("a read/write lock that several coroutines use", function()
    it("makes readers and writers of different coroutines wait for each other #asan", function()
        for _, reentrant in ipairs({ false, true }) do
            local client, path = fixture.loop_client(), fixture.path()
            local rw = client:rwlock(path, { reentrant = reentrant })
            local readers, writers, turns = 0, 0, 0
            loop.run_all(several(6, function(number)
                for round = 1, 3 do
                    if (number + round) % 3 == 0 then
                        assert(rw.write:acquire(30))
                        writers = writers + 1
                        assert.same({ 1, 0 }, { writers, readers })
                        fixture.pass(4)
                        assert.same({ 1, 0 }, { writers, readers })
                        assert(rw.read:acquire(30)) -- a downgrade, by the coroutine that writes
                        writers, readers = writers - 1, readers + 1
                        assert.is_true(rw.write:release())
                    else
                        assert(rw.read:acquire(30))
                        readers = readers + 1
                        assert.equal("deadlock", code_of(rw.write:acquire(30)))
                    end
                    assert.equal(0, writers)
                    fixture.pass(4)
                    readers = readers - 1
                    assert.is_true(rw.read:release())
                    turns = turns + 1
                end
            end))
            assert.equal(18, turns)
            assert_unused(rw.read)
            assert_unused(rw.write)
            fixture.assert_nothing_left(client)
        end
    end)

    it("does not take a reader beside another coroutine's writer for a downgrade", function()
        local client, path = fixture.loop_client(), fixture.path()
        local rw = client:rwlock(path)
        loop.run(function()
            assert(rw.write:acquire(30))
            fixture.pass(4)
            assert.is_true(rw.write:release())
        end, function()
            loop.until_true(function()
                return rw.write:held()
            end)
            assert.equal("timeout", code_of(rw.read:try_acquire()))
            assert(rw.read:acquire(30))
            assert.is_false(rw.write:held())
            assert.is_true(rw.read:release())
        end)
    end)

    it("says deadlock in a plain program where the other half is another coroutine's", function()
        local client = fixture.client()
        local rw = client:rwlock(fixture.path())
        for held, wanted in pairs({ read = "write", write = "read" }) do
            local thread = begin(function()
                assert(rw[held]:acquire(10))
                coroutine.yield()
                assert.is_true(rw[held]:release())
            end)
            assert.equal("deadlock", code_of(rw[wanted]:acquire(10)))
            assert.equal("timeout", code_of(rw[wanted]:try_acquire()))
            assert(coroutine.resume(thread))
            assert(rw[wanted]:acquire(10))
            assert.is_true(rw[wanted]:release())
        end
    end)
end)

describe("a semaphore that several coroutines use", function()
    it("gives each its permits, and never more than there are #asan", function()
        local client, path = fixture.loop_client(), fixture.path()
        local semaphore = client:semaphore(path, 3)
        local out, most, turns = 0, 0, 0
        loop.run_all(several(6, function(number)
            local count = 1 + number % 2
            for _ = 1, 3 do
                assert(semaphore:acquire({ count = count, timeout = 30 }))
                out = out + count
                most = math.max(most, out)
                assert.equal(count, #semaphore:_meant():_nodes())
                fixture.pass(4)
                out = out - count
                assert.is_true(semaphore:release())
                turns = turns + 1
            end
        end))
        assert.equal(18, turns)
        assert.is_true(most > 1 and most <= 3, most)
        assert_unused(semaphore)
        fixture.assert_nothing_left(client)
    end)

    it("says deadlock in a plain program when its other coroutines have the permits", function()
        local client = fixture.client()
        local semaphore = client:semaphore(fixture.path(), 3)
        local thread = begin(function()
            assert(semaphore:acquire({ count = 2, timeout = 10 }))
            coroutine.yield()
            assert.is_true(semaphore:release())
        end)
        assert.equal("deadlock", code_of(semaphore:acquire({ count = 2, timeout = 10 })))
        assert(semaphore:acquire(10))
        assert.is_true(semaphore:release())
        assert(coroutine.resume(thread))
        assert(semaphore:acquire({ count = 3, timeout = 10 }))
        assert.is_true(semaphore:release())
    end)
end)

describe("a multi that several coroutines use", function()
    local function members_of(client, reentrant)
        return client:mutex(fixture.path(), { reentrant = reentrant }),
            client:rwlock(fixture.path(), { reentrant = reentrant }).write,
            client:semaphore(fixture.path(), 1, { reentrant = reentrant })
    end

    for _, reentrant in ipairs({ false, true }) do
        it(("is held by each for itself, also beside those that use its members alone (reentrant: %s) #asan"):format(
            tostring(reentrant)), function()
            local client = fixture.loop_client()
            local mutex, writer, semaphore = members_of(client, reentrant)
            local all = client:multi({ mutex, writer, semaphore })
            local inside, turns = { [mutex] = 0, [writer] = 0, [semaphore] = 0 }, 0
            local function use(lock)
                inside[lock] = inside[lock] + 1
                assert.equal(1, inside[lock])
                fixture.pass(4)
                assert.is_true(lock:held())
                inside[lock] = inside[lock] - 1
            end
            local functions = several(3, function()
                for _ = 1, 3 do
                    assert.is_false(all:held())
                    assert.equal(all, all:acquire(50))
                    assert.is_true(all:held())
                    use(mutex)
                    use(writer)
                    use(semaphore)
                    assert(all:transaction():check():commit(10))
                    assert.is_true(all:release())
                    assert.is_false(all:held())
                    assert.equal("not_held", code_of(all:release()))
                    turns = turns + 1
                end
            end)
            for _, lock in ipairs({ mutex, writer, semaphore }) do
                functions[#functions + 1] = function()
                    for _ = 1, 3 do
                        assert(lock:acquire(50))
                        use(lock)
                        assert.is_true(lock:release())
                        turns = turns + 1
                    end
                end
            end
            loop.run_all(functions)
            assert.equal(18, turns)
            for _, lock in ipairs({ mutex, writer, semaphore }) do
                assert_unused(lock)
            end
            assert.is_nil(next(all._kept))
            fixture.assert_nothing_left(client)
        end)
    end

    it("runs with_lock of each", function()
        local client = fixture.loop_client()
        local all, inside, turns = client:multi({ members_of(client) }), 0, 0
        loop.run_all(several(3, function()
            assert.is_true(all:with_lock(function(given)
                inside, turns = inside + 1, turns + 1
                assert.equal(1, inside)
                assert.is_true(given:held())
                assert.equal("deadlock", code_of(all:with_lock(error, 10)))
                if compat.PCALL_YIELDS then
                    fixture.pass(4)
                end
                inside = inside - 1
            end, 50))
        end))
        assert.equal(3, turns)
        fixture.assert_nothing_left(client)
    end)

    it("ends all waits at a cancel, gives back what they have, and leaves alone who waits for a member", function()
        local client, codes, waited = fixture.loop_client(), {}, nil
        local mutex, writer, semaphore = members_of(client)
        local all = client:multi({ mutex, writer, semaphore })
        local blocker = fixture.join(writer:path())
        local functions = several(2, function(number)
            codes[number] = code_of(all:acquire(50))
        end)
        functions[3] = function()
            waited = writer:acquire(50)
        end
        functions[4] = function()
            loop.until_true(function()
                return mutex:held() and #fixture.children(writer:path()) > 1
            end)
            fixture.pass(4)
            assert.is_true(all:cancel())
            assert.is_false(all:cancel())
            fixture.pass(4)
            fixture.observer():delete(blocker)
        end
        loop.run_all(functions)
        assert.same({ "cancelled", "cancelled" }, codes)
        assert.truthy(waited)
        assert.is_true(waited:release())
        assert_unused(mutex)
        assert_unused(writer)
        fixture.assert_nothing_left(client)
    end)

    it("says deadlock in a plain program when another coroutine has a member", function()
        local client = fixture.client()
        local mutex, writer, semaphore = members_of(client)
        local all = client:multi({ mutex, writer, semaphore })
        for _, lock in ipairs({ mutex, writer, semaphore }) do
            local thread = begin(function()
                assert(lock:acquire(10))
                coroutine.yield()
                assert.is_true(lock:release())
            end)
            assert.equal("deadlock", code_of(all:acquire(10)))
            assert.equal("timeout", code_of(all:try_acquire()))
            assert(coroutine.resume(thread))
            assert(all:acquire(10))
            assert.is_true(all:release())
        end
        fixture.assert_nothing_left(client)
    end)
end)

describe("coroutines that are forgotten", function()
    it("while they wait by an object that another one holds, leave the queue and the object #valgrind", function()
        local suspend = true
        local client = assert(zklock.connect(fixture.servers(), { connect_timeout = 0, wait = {
            wake = function() end,
            wait = function(...)
                if suspend then
                    coroutine.yield()
                    return true
                end
                return loop.wait(...)
            end
        } }))
        eventually(function()
            return client:state() == "connected"
        end)
        for _, kind in ipairs(kinds) do
            local path = fixture.path()
            local lock, rival = kind.new(client, path, { handoff = 0 }), kind.rival(client, path, { handoff = 0 })
            suspend = false
            assert(rival:acquire(10))
            suspend = true
            coroutine.wrap(function() -- not on the stack of the spec, where LuaJIT's collector would find them
                for _ = 1, 3 do
                    begin(function()
                        lock:acquire(60)
                    end)
                end
            end)()
            suspend = false
            eventually(function()
                collectgarbage()
                client:pump()
                return next(client._attempts) == nil
            end)
            eventually(function()
                collectgarbage()
                return not lock._others or next(lock._others) == nil
            end)
            fixture.await_children(path .. kind.directories[#kind.directories], 1)
            assert.is_true(rival:release())
            assert(lock:acquire(10))
            assert.is_true(lock:release())
        end
        client:close(0)
    end)
end)

describe("owners that are gone", function()
    --- A client whose coroutines work for owners[1]; in a table, so that no local variable keeps an owner.
    local function client_of(owners)
        local adapter = setmetatable({ owner = function()
            return owners[1]
        end }, { __index = require "zklock.adapters.blocking" })
        return fixture.client({ wait = adapter, session_timeout = 4 })
    end

    --- Does something in a coroutine for a new owner, which is then gone.
    local function for_an_owner(owners, fn)
        owners[1] = {}
        begin(fn)
        owners[1] = {}
        fixture.collect()
    end

    it("leave a lost hold to the next who acquires by the object itself", function()
        local owners, told = {}, 0
        local client, path = client_of(owners), fixture.path()
        local lock = client:mutex(path, { on_lost = function()
            told = told + 1
        end })
        local held
        for_an_owner(owners, function()
            assert(lock:acquire(10))
            held = lock:node()
        end)
        assert(fixture.observer():delete(held))
        fixture.pump_until(client, function()
            return told == 1
        end)
        assert.equal(lock, lock:acquire(10))
        assert.is_true(lock:release())
        assert.equal(1, told)
        assert_unused(lock)
    end)

    it("give up what they held beside others, when they are collected", function()
        local owners = {}
        local client, path = client_of(owners), fixture.path()
        local rw = client:rwlock(path)
        local first = {}
        owners[1] = first
        assert(rw.read:acquire(10))
        for_an_owner(owners, function()
            assert(rw.read ~= assert(rw.read:acquire(10)))
        end)
        owners[1] = first
        assert.is_true(rw.read:held())
        assert.is_true(rw.read:release())
        eventually(function()
            collectgarbage()
            return client:rwlock(path).write:try_acquire()
        end)
    end)
end)

--- Readers share a read/write lock, a writer holds it alone, and all are served in the order of arrival.

local socket = require "socket"
local hold_of = require "spec.support.hold_of"
local new_dice = require "spec.support.dice"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local rwlocks = require "spec.support.rwlocks"

--- Lets clients queue one after the other, all before the first releases. `groups` lists in letters which of them hold together,
-- in the order in which they must be granted: {"RR", "W"}. Each client holds until its whole group holds. A client may be
-- granted only when all groups ahead of its own are releasing.
local function serve(groups)
    local path = fixture.path()
    local functions, entered = {}, {}
    local all, left, arrived = #table.concat(groups), 0, false
    for number, group in ipairs(groups) do
        local ahead = #functions
        entered[number] = 0
        for letter in group:gmatch(".") do
            local place, lock = #functions + 1, rwlocks.half(fixture.rwlock(path), letter)
            functions[place] = function()
                fixture.until_children(path, place - 1)
                assert(lock:acquire(40))
                assert.equal(ahead, left)
                entered[number] = entered[number] + 1
                loop.until_true(function()
                    arrived = arrived or fixture.has(path, all)
                    return arrived and entered[number] == #group
                end)
                assert.is_true(lock:held())
                left = left + 1
                assert(lock:release())
            end
        end
    end
    loop.run_all(functions)
    assert.equal(all, left)
    assert.same({}, fixture.children(path))
end

after_each(fixture.clean)

describe("a read/write lock", function()
    it("is shared by readers, and keeps writers out #valgrind #asan", function()
        local path = fixture.path()
        local first, second, third = fixture.rwlock(path), fixture.rwlock(path), fixture.rwlock(path)
        assert(first.read:acquire(10))
        assert(second.read:try_acquire())
        assert.is_true(first.read:held() and second.read:held())
        assert.equal("timeout", select(3, third.write:try_acquire()))
        fixture.assert_times_out(third.write, 0.1)
        assert.is_true(first.read:release())
        assert.equal("timeout", select(3, third.write:try_acquire()))
        assert.is_true(second.read:release())
        assert(third.write:try_acquire())
    end)

    it("is held by one writer alone: no other writer, no reader #valgrind #asan", function()
        local path = fixture.path()
        local writer = fixture.rwlock(path)
        local other, client = fixture.rwlock(path)
        assert(writer.write:acquire(10))
        for _, lock in ipairs({ other.read, other.write }) do
            local before = fixture.observer():exists(path)
            assert.equal("timeout", select(3, lock:try_acquire()))
            assert.same(before, (fixture.observer():exists(path))) -- the try has written nothing
            fixture.assert_times_out(lock, 0.1)
            assert(client:flush(10))
            assert.equal(1, #fixture.children(path))
        end
        assert.is_true(writer.write:release())
        assert(other.read:try_acquire())
    end)

    it("is shared or exclusive between objects of one client as between those of several clients #asan", function()
        local path = fixture.path()
        local one, client = fixture.rwlock(path)
        local two = client:rwlock(path)
        assert(one.read:acquire(10))
        assert(two.read:try_acquire())
        assert.equal("timeout", select(3, client:rwlock(path).write:try_acquire()))
        assert.is_true(one.read:release())
        assert.is_true(two.read:release())
        assert(one.write:try_acquire())
        assert.equal("timeout", select(3, two.read:try_acquire()))
        assert.equal("timeout", select(3, two.write:try_acquire()))
    end)

    it("names its nodes as Curator does, directly below its path", function()
        local path = fixture.path()
        local rw = fixture.rwlock(path, { identity = "me" })
        assert(rw.read:acquire(10))
        assert.same({ __READ__ = 1 }, rwlocks.kinds(path))
        assert.equal(path, rw.read:node():match("^(.*)/[^/]*$"))
        assert.equal("me", (fixture.observer():get(rw.read:node())))
        assert.is_true(rw.read:release())
        assert(rw.write:acquire(10))
        assert.same({ __WRIT__ = 1 }, rwlocks.kinds(path))
        assert(rw.read:acquire(10))
        assert.same({ __READ__ = 1, __WRIT__ = 1 }, rwlocks.kinds(path))
        assert.equal("zklock read lock (" .. path .. ", held)", tostring(rw.read))
        assert.equal("zklock write lock (" .. path .. ", held)", tostring(rw.write))
        assert.equal("zklock read/write lock (" .. path .. ")", tostring(rw))
        assert.same({ path, path, path }, { rw:path(), rw.read:path(), rw.write:path() })
    end)

    it("takes two requests for an acquire and its release without other contenders, and a try takes three", function()
        local rw, client = fixture.rwlock(fixture.directory())
        local function cost(lock, acquire)
            local before = fixture.sent(client)
            for _ = 1, 10 do
                assert(acquire(lock))
                assert.is_true(lock:release())
            end
            return fixture.sent(client) - before
        end
        cost(rw.read, rw.read.acquire)
        for _, lock in ipairs({ rw.read, rw.write }) do
            for requests, acquire in pairs({ [20] = lock.acquire, [30] = lock.try_acquire }) do
                eventually(function() -- until no second passes between a release and the next acquire
                    local sent = cost(lock, acquire)
                    return sent == requests, sent
                end)
            end
        end
    end)

    it("lists its contenders by kind, in queue order, with all holders #asan", function()
        local path = fixture.path()
        local order = { "R", "R", "W", "R", "W" }
        local functions, list = {}, nil
        for place, letter in ipairs(order) do
            local rw = fixture.rwlock(path, { identity = letter .. place })
            functions[place] = function()
                fixture.until_children(path, place - 1)
                assert(rwlocks.half(rw, letter):acquire(30))
                if place == 1 then
                    fixture.until_children(path, #order)
                    list = assert(rw:contenders(10))
                end
                loop.until_true(function()
                    return list
                end)
                assert(rwlocks.half(rw, letter):release())
            end
        end
        loop.run_all(functions)
        local last = -1
        for place, letter in ipairs(order) do
            local one = list[place]
            assert.same({ letter .. place, letter == "R" and "shared" or "exclusive", place <= 2 },
                { one.identity, one.mode, one.holder })
            assert.is_true(one.sequence > last)
            last = one.sequence
        end
        assert.equal(#order, #list)
    end)

    it("keeps a writer waiting if only the nearest of its readers has left #asan", function()
        local path = fixture.path()
        local far, near, writer = fixture.rwlock(path), fixture.rwlock(path), fixture.rwlock(path)
        assert(far.read:acquire(10))
        assert(near.read:acquire(10))
        local far_node, near_node = far.read:node(), near.read:node()
        loop.run(function()
            assert(writer.write:acquire(30))
            assert.is_false(far.read:held())
        end, function()
            fixture.until_watched(near_node)
            assert(hold_of(near.read):release())
            fixture.until_watched(far_node)
            assert.is_false(writer.write:held())
            assert(hold_of(far.read):release())
        end)
        assert.is_true(hold_of(writer.write):held())
    end)

    it("serves R W R in the order of arrival: the second reader does not overtake the writer #asan", function()
        serve({ "R", "W", "R" })
    end)

    it("serves W R W in the order of arrival", function()
        serve({ "W", "R", "W" })
    end)

    it("serves R R W R in the order of arrival, the first two together", function()
        serve({ "RR", "W", "R" })
    end)

    it("grants all readers between two writers together", function()
        serve({ "W", "RRRR", "W", "W", "RR" })
    end)

    it("does not delay a writer without end when readers come and go all the time", function()
        local path = fixture.path()
        local functions, done, reads = {}, false, 0
        for index = 1, 3 do
            local rw = fixture.rwlock(path)
            functions[index] = function()
                while not done do
                    assert(rw.read:acquire(30))
                    reads = reads + 1
                    fixture.pass(1)
                    assert(rw.read:release())
                end
            end
        end
        functions[4] = function()
            local rw = fixture.rwlock(path)
            for _ = 1, 5 do
                local before = reads
                assert(rw.write:acquire(30))
                assert.is_true(reads - before <= 6) -- the readers that were ahead of the writer
                assert(rw.write:release())
                loop.until_true(function()
                    return reads > before
                end)
            end
            done = true
        end
        loop.run_all(functions)
        fixture.await_children(path, 0)
    end)

    it("gives a writer, and a reader after a writer, a greater token than all holders before", function()
        local path = fixture.path()
        local one, two = fixture.rwlock(path), fixture.rwlock(path)
        assert(one.write:acquire(10))
        local written = one.write:token()
        assert.is_true(one.write:release())
        assert(one.read:acquire(10))
        assert(two.read:acquire(10))
        local tokens = { one.read:token(), two.read:token() }
        assert.is_true(tokens[1] > written and tokens[2] > written)
        assert.is_true(one.read:release() and two.read:release())
        assert(two.write:acquire(10))
        assert.is_true(two.write:token() > tokens[1] and two.write:token() > tokens[2])
    end)

    it("excludes clients that use its path as a mutex", function()
        local rw, client = fixture.rwlock(fixture.path())
        local mutex = client:mutex(rw:path())
        assert(rw.read:acquire(10))
        assert.equal("timeout", select(3, mutex:try_acquire()))
        assert.is_true(rw.read:release())
        assert(mutex:acquire(10))
        assert.equal("timeout", select(3, rw.read:try_acquire()))
        assert.equal("timeout", select(3, rw.write:try_acquire()))
    end)

    it("leaves nothing behind when waits for either half time out or are cancelled #valgrind #asan", function()
        local rw, client = fixture.rwlock(fixture.path())
        local holder = fixture.join(rw:path())
        for _, lock in ipairs({ rw.read, rw.write }) do
            fixture.assert_times_out(lock, 0.1)
            local code
            loop.run(function()
                code = select(3, lock:acquire(20))
            end, function()
                fixture.until_watched(holder)
                assert.is_true(lock:cancel())
            end)
            assert.equal("cancelled", code)
        end
        assert(client:flush(10))
        assert.equal(1, #fixture.children(rw:path()))
        assert.is_false(fixture.is_watched(rw:path()))
        assert.same({ 0, 0 }, { client:stats().entries, client:stats().watches })
    end)

    it("is free again when the client of its readers is closed", function()
        local path = fixture.path()
        local readers, client = fixture.rwlock(path)
        local more = client:rwlock(path)
        assert(readers.read:acquire(10))
        assert(more.read:acquire(10))
        assert.is_true(client:close())
        assert.is_false(readers.read:held() or more.read:held())
        assert(fixture.rwlock(path).write:try_acquire())
    end)
end)

describe("when a contender of a read/write lock leaves, it wakes only", function()
    --- Runs one holder and waiters in this order, each in a separate client, and calls `act` while they wait. Waiters that are
    -- granted keep the lock, the others are cancelled. Returns how many notifications each waiter got since before `act`.
    local function wakes(letters, enough, act)
        local path = fixture.path()
        local locks, clients, functions, entered, before = {}, {}, {}, 0, {}
        for place = 1, #letters do
            local rw, client = fixture.rwlock(path)
            locks[place], clients[place] = rwlocks.half(rw, letters:sub(place, place)), client
            functions[place] = function()
                fixture.until_children(path, place) -- the holder is before the first waiter
                if locks[place]:acquire(30) then
                    entered = entered + 1
                end
            end
        end
        local holder = fixture.rwlock(path)
        assert(holder.write:acquire(10))
        functions[#functions + 1] = function()
            fixture.until_children(path, #letters + 1)
            loop.until_true(function()
                for place = 1, #letters do
                    if clients[place]:stats().watches ~= 1 then
                        return false
                    end
                end
                return true
            end)
            for place, client in ipairs(clients) do
                assert(client:sync("/", { timeout = 10 })) -- answered after the reply that set its watch
                before[place] = client:stats().notifications
            end
            act(holder, locks)
            loop.until_true(function()
                return entered == enough
            end)
            for place, client in ipairs(clients) do
                assert(client:sync("/", { timeout = 10 })) -- answered after all notifications of its server
                before[place] = client:stats().notifications - before[place]
            end
            for place = 1, #letters do
                locks[place]:cancel()
            end
        end
        loop.run_all(functions)
        return before
    end

    it("the waiters that can go on: each reader behind a writer once, the writer behind them not at all", function()
        assert.same({ 1, 1, 1, 1, 1, 0, 0 }, wakes("RRRRRWR", 5, function(holder)
            assert(hold_of(holder.write):release())
        end))
    end)

    it("the next waiter: one writer, and none of the readers behind it", function()
        assert.same({ 1, 0, 0, 0 }, wakes("WRRR", 1, function(holder)
            assert(hold_of(holder.write):release())
        end))
    end)

    it("its neighbour, if it stops waiting: none before it, and readers only if it was their writer", function()
        assert.same({ 0, 0, 0, 1 }, wakes("RRWR", 0, function(_, locks)
            locks[3]:cancel()
            loop.until_true(function()
                return locks[4]._client:stats().notifications > 0
            end)
        end))
    end)
end)

describe("eight clients of a read/write lock with a hundred random operations each", function()
    local CLIENTS, OPERATIONS = 8, 100

    --- Checks what must be true of all clients at any time, given which of them hold now.
    local function new_referee()
        local referee = { readers = 0, writers = 0, highest = "", written = "", grants = 0 }

        function referee:enter(lock, letter)
            self.grants = self.grants + 1
            local token = lock:token()
            if letter == "W" then
                assert(self.writers == 0 and self.readers == 0, "a writer beside others")
                assert(token > self.highest, "a writer's token does not grow")
                self.writers, self.written = 1, token
            else
                assert(self.writers == 0, "a reader beside a writer")
                assert(token > self.written, "a reader's token is not above the last writer's")
                self.readers = self.readers + 1
            end
            self.highest = token > self.highest and token or self.highest
        end

        function referee:leave(lock, letter)
            assert(lock:held(), "lost in the middle")
            if letter == "W" then
                self.writers = self.writers - 1
            else
                self.readers = self.readers - 1
            end
        end

        --- A writer becomes a reader: from now on others may read.
        function referee:downgrade(rw)
            assert(rw.read:token() > rw.write:token(), "the reader's token is not above its writer's")
            self.highest = rw.read:token() > self.highest and rw.read:token() or self.highest
            self.writers, self.readers = self.writers - 1, self.readers + 1
        end

        return referee
    end

    local function operate(rw, referee, random)
        local letter = random(3) == 1 and "W" or "R"
        local lock = rwlocks.half(rw, letter)
        local way = random(6)
        local got, message, code
        if way == 1 then
            got, message, code = lock:try_acquire()
        elseif way == 2 then
            got, message, code = lock:acquire(random(20) / 1000)
        else
            got, message, code = lock:acquire(30)
        end
        if not got then
            assert(way <= 2 and code == "timeout", message)
            return
        end
        referee:enter(lock, letter)
        for _ = 1, random(3) - 1 do
            fixture.pass(1)
        end
        if letter == "W" and random(3) == 1 then
            assert(random(2) == 1 and rw.read:acquire(10) or rw.read:acquire(0))
            referee:downgrade(rw)
            assert(rw.write:release({ wait = random(2) == 1 }))
            lock, letter = rw.read, "R"
            fixture.pass(1)
        elseif letter == "R" and random(5) == 1 then
            assert(select(3, rw.write:acquire()) == "deadlock")
        end
        referee:leave(lock, letter)
        assert(lock:release({ wait = random(2) == 1 }))
    end

    it("never see a writer together with another holder, nor a token out of order", function()
        local seed = tonumber(os.getenv("ZKLOCK_SEED")) or math.floor(socket.gettime() * 1000) % 1000000 + 1
        local ok, problem = pcall(function()
            local path = fixture.path()
            local referee, functions, clients = new_referee(), {}, {}
            for index = 1, CLIENTS do
                local rw, client = fixture.rwlock(path)
                local random = new_dice(seed * 100 + index)
                clients[index] = client
                functions[index] = function()
                    for _ = 1, OPERATIONS do
                        operate(rw, referee, random)
                    end
                end
            end
            loop.run_all(functions)
            assert.is_true(referee.grants > CLIENTS * OPERATIONS / 2, referee.grants)
            for _, client in ipairs(clients) do
                assert(client:flush(10))
                local stats = client:stats()
                assert.same({ 0, 0, 0 }, { stats.entries, stats.watches, stats.losses })
            end
            assert.same({}, fixture.children(path))
        end)
        assert(ok, ("with ZKLOCK_SEED=%d: %s"):format(seed, tostring(problem)))
    end)
end)

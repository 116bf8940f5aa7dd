--- The read/write lock, the semaphore and revocation together with the real Curator and kazoo on the same paths, each in separate
-- processes. The mutex is in foreign_spec.lua; spec/foreign/README.md says how the contenders are driven.

local fixture = require "spec.support.fixture"
local foreign = require "spec.support.foreign"

--- How many times each contender of a fleet holds; `make test-all` lets them do so 600 times.
local TURNS = tonumber(os.getenv "ZKLOCK_TURNS" or 40)

local PERMITS = 2

--- Lets a fleet contend, and checks the promises for all of them. `fleet`: list of { client =, kind = }.
local function contend(fleet, kind, permits)
    local overlaps, log, everybody = foreign.contend(fleet, TURNS, kind, permits)
    assert.equal(0, overlaps)
    assert.equal(#fleet * TURNS, #log)
    if kind == "rw" then
        -- Readers hold in any order. No writer passes a queued contender, and at least one of four turns is a writer's.
        assert.is_true(everybody <= 4 * #fleet, everybody)
    else
        -- All contenders are queued when the first permit is granted, and a contender that returns queues behind the others. So the
        -- first grants go to all of them. A contender may be slow to log its grant, but only while it has one of the permits.
        local names, count = {}, 0
        for index = 1, #fleet + 1 do
            local name = log[index].name
            count, names[name] = count + (names[name] and 0 or 1), true
        end
        assert.is_true(count > #fleet - permits, count)
    end
    return log
end

local function count_modes(log)
    local modes = {}
    for _, turn in ipairs(log) do
        modes[turn.mode] = (modes[turn.mode] or 0) + 1
    end
    return modes
end

describe("a fleet on one read/write lock #once", function()
    after_each(fixture.clean)

    it(("of two zklock and two Curator, mostly readers, takes %d turns without an overlap"):format(4 * TURNS), function()
        local log = contend({
            { client = "zklock" }, { client = "curator" }, { client = "zklock" }, { client = "curator" }
        }, "rw")
        assert.same({ read = 3 * TURNS, write = TURNS }, count_modes(log))
    end)

    it(("of two zklock and two kazoo, which only write, takes %d turns without an overlap"):format(4 * TURNS), function()
        local log = contend({
            { client = "zklock" }, { client = "kazoo", kind = "write" },
            { client = "zklock" }, { client = "kazoo", kind = "write" }
        }, "rw")
        assert.same({ read = 2 * TURNS * 3 / 4, write = 2 * TURNS + 2 * TURNS / 4 }, count_modes(log))
    end)
end)

describe("a read/write lock shared with #once", function()
    after_each(fixture.clean)

    it("Curator admits readers of both together, and no writer of either meanwhile", function()
        local path = fixture.path()
        local contenders = foreign.start({
            { client = "zklock", path = path, kind = "read" },
            { client = "curator", path = path, kind = "read" },
            { client = "zklock", path = path, kind = "write" },
            { client = "curator", path = path, kind = "write" }
        })
        local our_reader, their_reader, our_writer, their_writer =
            contenders[1], contenders[2], contenders[3], contenders[4]
        assert.equal("ok", our_reader:ask("acquire 30"))
        assert.equal("ok", their_reader:ask("acquire 30"))
        our_writer:tell("acquire 30")
        fixture.await_children(path, 3)
        their_writer:tell("acquire 30")
        fixture.await_children(path, 4)
        assert.equal("ok", our_reader:ask("release"))
        -- The new readers queue behind the writers now.
        our_reader:tell("acquire 30")
        fixture.await_children(path, 4)
        assert.equal("ok", their_reader:ask("release"))
        assert.equal("ok", our_writer:line())
        their_reader:tell("acquire 30")
        fixture.await_children(path, 4)
        assert.equal("ok", our_writer:ask("release"))
        assert.equal("ok", their_writer:line())
        assert.equal("ok", their_writer:ask("release"))
        assert.equal("ok", our_reader:line())
        assert.equal("ok", their_reader:line())
    end)

    it("Curator lists Curator's readers and writers with ours, and Curator lists ours", function()
        local path = fixture.path()
        local rw = fixture.client({ identity = "ours" }):rwlock(path)
        local contenders = foreign.start({
            { client = "curator", path = path, kind = "read" },
            { client = "curator", path = path, kind = "write" }
        })
        assert(rw.read:acquire(10))
        assert.equal("ok", contenders[1]:ask("acquire 30"))
        contenders[2]:tell("acquire 30")
        fixture.await_children(path, 3)
        local list = assert(rw.read:contenders(10))
        assert.equal(3, #list)
        assert.same({ "shared", true, "ours" }, { list[1].mode, list[1].holder, list[1].identity })
        assert.same({ "shared", true }, { list[2].mode, list[2].holder })
        assert.same({ "exclusive", false }, { list[3].mode, list[3].holder })
        -- Each of Curator's two locks lists only its own kind.
        assert.same({ foreign.nodes(list[1].node)[1], foreign.nodes(list[2].node)[1] },
            foreign.nodes(contenders[1]:ask("participants"), true))
    end)

    it("Curator keeps its queued writer waiting when we downgrade a writer", function()
        local path = fixture.path()
        local contenders = foreign.start({
            { client = "zklock", path = path, kind = "rw" },
            { client = "curator", path = path, kind = "write" }
        })
        local ours, their_writer = contenders[1], contenders[2]
        assert.equal("ok", ours:ask("acquire 30"))
        their_writer:tell("acquire 30")
        fixture.await_children(path, 2)
        assert.equal("ok", ours:ask("downgrade"))
        fixture.await_children(path, 2)
        for _, name in ipairs(fixture.children(path)) do
            if name:find("__READ__", 1, true) then
                foreign.await_watch(path .. "/" .. name)
            end
        end
        assert.equal("ok", ours:ask("release"))
        assert.equal("ok", their_writer:line())
    end)

    it("kazoo's WriteLock is listed by both, with its identity", function()
        local path = fixture.path()
        local rw = fixture.client({ identity = "ours" }):rwlock(path)
        local kazoo = foreign.contender("kazoo", path, "write", 0, "theirs")
        assert(rw.read:acquire(10))
        kazoo:tell("acquire 30")
        fixture.await_children(path, 2)
        local list = assert(rw.write:contenders(10))
        assert.equal(2, #list)
        assert.same({ "ours", "shared", true }, { list[1].identity, list[1].mode, list[1].holder })
        assert.same({ "theirs", "exclusive", false }, { list[2].identity, list[2].mode, list[2].holder })
        assert.is_true(rw.read:release())
        assert.equal("ok", kazoo:line())
        assert.equal("timeout", select(3, rw.read:try_acquire()))
        local waiter = foreign.contender("zklock", path, "read", 0, "waiter")
        waiter:tell("acquire 30")
        fixture.await_children(path, 2)
        assert.equal("theirs waiter", kazoo:ask("participants"))
    end)
end)

describe("a fleet on one semaphore #once", function()
    after_each(fixture.clean)

    it(("of two zklock and two Curator takes %d turns with never more than %d holders"):format(4 * TURNS, PERMITS), function()
        contend({
            { client = "zklock" }, { client = "curator" }, { client = "zklock" }, { client = "curator" }
        }, "semaphore", PERMITS)
    end)
end)

describe("a semaphore shared with Curator #once", function()
    after_each(fixture.clean)

    it("has a fixed number of permits, whatever client takes them, and a released permit is granted again", function()
        local path = fixture.path()
        local contenders = foreign.start({
            { client = "zklock", path = path, kind = "semaphore", permits = PERMITS },
            { client = "curator", path = path, kind = "semaphore", permits = PERMITS },
            { client = "zklock", path = path, kind = "semaphore", permits = PERMITS },
            { client = "curator", path = path, kind = "semaphore", permits = PERMITS }
        })
        assert.equal("ok", contenders[1]:ask("acquire 30"))
        assert.equal("ok", contenders[2]:ask("acquire 30"))
        assert.equal("timeout", contenders[3]:ask("acquire 1"))
        assert.equal("timeout", contenders[4]:ask("acquire 1"))
        fixture.await_children(path .. "/locks", 0)
        fixture.await_children(path .. "/leases", PERMITS)
        contenders[3]:tell("acquire 30")
        fixture.await_children(path .. "/locks", 1)
        contenders[4]:tell("acquire 30")
        fixture.await_children(path .. "/locks", 2)
        assert.equal("ok", contenders[2]:ask("release"))
        assert.equal("ok", contenders[3]:line())
        assert.equal("ok", contenders[1]:ask("release"))
        assert.equal("ok", contenders[4]:line())
    end)

    it("lists the leases and the queue of both, and Curator lists our lease", function()
        local path = fixture.path()
        local semaphore = fixture.client({ identity = "ours" }):semaphore(path, PERMITS)
        local contenders = foreign.start({
            { client = "curator", path = path, kind = "semaphore", permits = PERMITS, name = "first" },
            { client = "curator", path = path, kind = "semaphore", permits = PERMITS, name = "second" }
        })
        assert(semaphore:acquire(10))
        assert.equal("ok", contenders[1]:ask("acquire 30"))
        contenders[2]:tell("acquire 30")
        fixture.await_children(path .. "/locks", 1)
        fixture.await_children(path .. "/leases", PERMITS + 1) -- Curator creates its node first and waits then
        local list = assert(semaphore:contenders(10))
        assert.equal(4, #list)
        assert.same({ "lease", true, "ours" }, { list[1].mode, list[1].holder, list[1].identity })
        assert.same({ "lease", true }, { list[2].mode, list[2].holder })
        assert.same({ "lease", false }, { list[3].mode, list[3].holder })
        assert.same({ "exclusive", false }, { list[4].mode, list[4].holder })
        assert.same(fixture.children(path .. "/leases"), foreign.nodes(contenders[1]:ask("participants")))
    end)
end)

describe("revocation #once", function()
    after_each(fixture.clean)

    for _, kind in ipairs({ "mutex", "write", "read" }) do
        it(("of a %s lock: Curator's Revoker asks our holder, which releases"):format(kind), function()
            local path = fixture.path()
            local contenders = foreign.start({
                { client = "zklock", path = path, kind = kind },
                { client = "curator", path = path, kind = kind == "read" and "write" or kind }
            })
            local ours, theirs = contenders[1], contenders[2]
            assert.equal("ok", ours:ask("revocable"))
            assert.equal("ok", ours:ask("acquire 30"))
            local node = path .. "/" .. fixture.children(path)[1]
            assert.equal("ok", theirs:ask("revoke " .. node))
            assert.equal("revoked", ours:ask("revoked 20"))
            theirs:tell("acquire 30")
            fixture.await_children(path, 2)
            assert.equal("ok", ours:ask("release"))
            assert.equal("ok", theirs:line())
        end)

        it(("of a %s lock: our revoke asks Curator's holder, which releases"):format(kind), function()
            local path = fixture.path()
            local contenders = foreign.start({
                { client = "curator", path = path, kind = kind },
                { client = "zklock", path = path, kind = kind == "read" and "write" or kind }
            })
            local theirs, ours = contenders[1], contenders[2]
            assert.equal("ok", theirs:ask("revocable"))
            assert.equal("ok", theirs:ask("acquire 30"))
            local node = path .. "/" .. fixture.children(path)[1]
            assert.equal("ok", ours:ask("revoke " .. node))
            assert.equal("revoked", theirs:ask("revoked 20"))
            ours:tell("acquire 30")
            fixture.await_children(path, 2)
            assert.equal("ok", theirs:ask("release"))
            assert.equal("ok", ours:line())
        end)
    end
end)

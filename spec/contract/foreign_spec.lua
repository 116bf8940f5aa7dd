--- The mutex together with the real Curator, go-zookeeper and kazoo on the same paths, each in separate processes: which clients
-- exclude and see each other, and which cannot share a path. spec/foreign/README.md says how they are driven.

local fixture = require "spec.support.fixture"
local foreign = require "spec.support.foreign"

--- How many times each contender of a fleet holds; `make test-all` lets them do so 600 times.
local TURNS = tonumber(os.getenv "ZKLOCK_TURNS" or 60)

--- The beginnings of node names, ours and Curator's.
local UUID = "_c_" .. fixture.UUID

local function a_mutex(path)
    return fixture.client({ identity = "ours", session_timeout = 60 }):mutex(path)
end

--- Returns the command that acquires a lock. Curator and kazoo get a timeout, so that a failing spec ends.
local function acquire_of(client)
    return client == "go" and "acquire" or "acquire 30"
end

describe("a fleet on one mutex", function()
    after_each(fixture.clean)

    local fleets = {
        { "zklock", "zklock", "curator", "curator", "go", "go" },
        { "zklock", "zklock", "kazoo", "kazoo" }
    }
    for _, fleet in ipairs(fleets) do
        local title = "of %s takes %d turns, one at a time, and no contender gets a second turn before all have had a first"
        it(title:format(table.concat(fleet, ", "), #fleet * TURNS), function()
            local list = {}
            for index, client in ipairs(fleet) do
                list[index] = { client = client }
            end
            local overlaps, log, everybody = foreign.contend(list, TURNS, "mutex")
            assert.equal(0, overlaps)
            assert.equal(#fleet * TURNS, #log)
            assert.equal(#fleet, everybody)
        end)
    end
end)

describe("a mutex shared with #once", function()
    after_each(fixture.clean)

    for _, client in ipairs({ "curator", "go", "kazoo" }) do
        it(client .. " and zklock wait for each other", function()
            local path = fixture.path()
            local lock = a_mutex(path)
            local contenders = foreign.start({
                { client = "zklock", path = path, kind = "mutex" },
                { client = client, path = path, kind = "mutex" }
            })
            local ours, theirs = contenders[1], contenders[2]
            assert(lock:acquire(10))
            theirs:tell(acquire_of(client))
            foreign.await_watch(lock:node())
            assert.is_true(lock:release())
            assert.equal("ok", theirs:line())

            assert.equal("timeout", select(3, lock:try_acquire()))
            ours:tell("acquire 30")
            fixture.await_children(path, 2)
            assert.equal("ok", theirs:ask("release"))
            assert.equal("ok", ours:line())
            assert.equal("ok", ours:ask("release"))
            assert.same({}, fixture.children(path))
        end)
    end

    it("Curator answers true beside another holder, because it does not look at its node again", function()
        local path = fixture.path()
        local curator = foreign.contender("curator", path, "mutex")
        assert.equal("ok", curator:ask("acquire 30"))
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        local lock = a_mutex(path)
        assert(lock:acquire(20))
        assert.equal("ok", curator:ask("acquire 30"))
        assert.is_true(lock:held())
        assert.equal(1, #fixture.children(path))
        -- The page advises to release: then Curator queues again.
        assert.equal("ok", curator:ask("release"))
        assert.equal("ok", curator:ask("release"))
        curator:tell("acquire 30")
        fixture.await_children(path, 2)
        assert.is_true(lock:release())
        assert.equal("ok", curator:line())
    end)

    it("Curator lists Curator's contenders, and Curator lists ours", function()
        local path = fixture.path()
        local lock = a_mutex(path)
        local curator = foreign.contender("curator", path, "mutex")
        assert(lock:acquire(10))
        curator:tell("acquire 30")
        fixture.await_children(path, 2)
        local list = assert(lock:contenders(10))
        assert.equal(2, #list)
        assert.same({ "ours", true }, { list[1].identity, list[1].holder })
        assert.same({ "exclusive", false }, { list[2].mode, list[2].holder })
        assert.is_true(lock:release())
        assert.equal("ok", curator:line())

        list = assert(lock:contenders(10))
        assert.equal(1, #list)
        assert.same({ "exclusive", true }, { list[1].mode, list[1].holder })
        local waiter = foreign.contender("zklock", path, "mutex")
        waiter:tell("acquire 30")
        fixture.await_children(path, 2)
        local names = fixture.children(path)
        assert.same(names, foreign.nodes(curator:ask("participants")))
        assert.equal("ok", curator:ask("release"))
        assert.equal("ok", waiter:line())
        -- Both list in the order of the queue.
        curator:tell("acquire 30")
        fixture.await_children(path, 2)
        assert.equal("ok", waiter:ask("release"))
        assert.equal("ok", curator:line())
        waiter:tell("acquire 30")
        fixture.await_children(path, 2)
        list = assert(lock:contenders(10))
        assert.same({ true, false }, { list[1].holder, list[2].holder })
        assert.equal("zklock", list[2].identity)
        assert.same({ foreign.nodes(list[1].node)[1], foreign.nodes(list[2].node)[1] },
            foreign.nodes(curator:ask("participants"), true))
    end)

    it("go-zookeeper lists go-zookeeper's contenders", function()
        local path = fixture.path()
        local lock = a_mutex(path)
        local go = foreign.contender("go", path, "mutex")
        assert.equal("ok", go:ask("acquire"))
        local list = assert(lock:contenders(10))
        assert.equal(1, #list)
        assert.same({ "", "exclusive", true }, { list[1].identity, list[1].mode, list[1].holder })
    end)

    it("kazoo lists kazoo's contenders, and kazoo lists ours", function()
        local path = fixture.path()
        local lock = a_mutex(path)
        local kazoo = foreign.contender("kazoo", path, "mutex", 0, "theirs")
        assert(lock:acquire(10))
        kazoo:tell("acquire 30")
        fixture.await_children(path, 2)
        local list = assert(lock:contenders(10))
        assert.equal(2, #list)
        assert.same({ "ours", true }, { list[1].identity, list[1].holder })
        assert.same({ "theirs", "exclusive", false }, { list[2].identity, list[2].mode, list[2].holder })
        assert.is_true(lock:release())
        assert.equal("ok", kazoo:line())

        local waiter = foreign.contender("zklock", path, "mutex", 0, "waiter")
        waiter:tell("acquire 30")
        fixture.await_children(path, 2)
        assert.equal("theirs waiter", kazoo:ask("participants"))
    end)
end)

describe("the check of overlaps #once", function()
    after_each(fixture.clean)

    it("is failed by each program in every turn if it does not lock while another holds", function()
        local path, arena = fixture.path(), foreign.arena()
        local contenders = foreign.start({
            { client = "zklock", path = path, kind = "mutex", name = "inside" },
            { client = "zklock", path = path, kind = "mutex" },
            { client = "curator", path = path, kind = "mutex" },
            { client = "go", path = path, kind = "mutex" },
            { client = "kazoo", path = path, kind = "mutex" }
        })
        assert.equal("ok", contenders[1]:ask("enter " .. arena))
        for index = 2, #contenders do
            assert.equal("done 5 5", contenders[index]:ask("turns 5 " .. arena .. " unlocked"))
        end
        assert.equal("ok", contenders[1]:ask("leave"))
        for index = 2, #contenders do
            assert.equal("done 5 0", contenders[index]:ask("turns 5 " .. arena .. " unlocked"))
        end
    end)

    it("notices readers beside a writer, writers beside a reader, and one holder too many of a semaphore", function()
        local path = fixture.path()
        local readers, permits = foreign.arena(), foreign.arena()
        local contenders = foreign.start({
            { client = "kazoo", path = path, kind = "read", name = "reader" },
            { client = "curator", path = path, kind = "rw" },
            { client = "kazoo", path = path, kind = "rw" },
            { client = "kazoo", path = path, kind = "write", name = "writer" },
            { client = "curator", path = path, kind = "semaphore", permits = 1 },
            { client = "kazoo", path = path, kind = "semaphore", permits = 1 }
        })
        local reader, curator, kazoo, writer = contenders[1], contenders[2], contenders[3], contenders[4]
        assert.equal("ok", reader:ask("enter " .. readers))
        -- Two of eight turns are writes.
        assert.equal("done 8 2", curator:ask("turns 8 " .. readers .. " unlocked"))
        assert.equal("done 8 2", kazoo:ask("turns 8 " .. readers .. " unlocked"))
        assert.equal("ok", reader:ask("leave"))
        assert.equal("ok", writer:ask("enter " .. readers))
        assert.equal("done 8 8", curator:ask("turns 8 " .. readers .. " unlocked"))
        assert.equal("done 8 8", kazoo:ask("turns 8 " .. readers .. " unlocked"))
        assert.equal("ok", contenders[5]:ask("enter " .. permits))
        assert.equal("done 5 5", contenders[6]:ask("turns 5 " .. permits .. " unlocked"))
        assert.equal("ok", contenders[5]:ask("leave"))
        assert.equal("ok", contenders[6]:ask("enter " .. permits))
        assert.equal("done 5 5", contenders[5]:ask("turns 5 " .. permits .. " unlocked"))
    end)
end)

describe("a downgraded writer #once", function()
    after_each(fixture.clean)

    it("keeps Curator's queued writer waiting if it keeps its number, as ours do", function()
        local path = fixture.path()
        local writer = fixture.join(path, UUID .. "-__WRIT__")
        local curator = foreign.contender("curator", path, "write")
        curator:tell("acquire 30")
        foreign.await_watch(writer)
        local reader = writer:gsub("__WRIT__", "__READ__")
        assert(fixture.observer():create(reader, "", { ephemeral = true }))
        assert(fixture.observer():delete(writer))
        foreign.await_watch(reader)
        assert(fixture.observer():delete(reader))
        assert.equal("ok", curator:line())
    end)

    -- CURATOR-621, present in the 5.4.0 of Debian 12: the reader gets a new number, behind all waiting contenders. From 5.5.0 on it
    -- keeps the writer's.
    local keeps = foreign.is_since("libcurator-recipes-java", "5.5")
    it(keeps and "keeps waiters out if it is Curator's" or "lets waiters in if it is Curator's: do not downgrade there", function()
        local path = fixture.path()
        local lock = a_mutex(path)
        local contenders = foreign.start({
            { client = "curator", path = path, kind = "rw" },
            { client = "zklock", path = path, kind = "mutex" }
        })
        assert.equal("ok", contenders[1]:ask("acquire 30"))
        contenders[2]:tell("acquire 30")
        fixture.await_children(path, 2)
        assert.equal("ok", contenders[1]:ask("downgrade"))
        if keeps then
            local list = assert(lock:contenders(10))
            assert.same({ "shared", "exclusive" }, { list[1].mode, list[2].mode })
            foreign.await_watch(list[1].node)
            assert.equal("ok", contenders[1]:ask("release"))
        end
        assert.equal("ok", contenders[2]:line())
        local list = assert(lock:contenders(10))
        assert.same({ "exclusive", not keeps and "shared" or nil }, { list[1].mode, list[2] and list[2].mode })
    end)
end)

describe("kazoo's names for readers and writers #once", function()
    after_each(fixture.clean)

    local modes = { read = "shared", write = "exclusive" }
    for kind, mode in pairs(modes) do
        it(("are listed by us as %s when it holds a %s lock, and exclude our mutex"):format(mode, kind), function()
            local path = fixture.path()
            local lock = a_mutex(path)
            local kazoo = foreign.contender("kazoo", path, kind)
            assert.equal("ok", kazoo:ask("acquire 10"))
            local list = assert(lock:contenders(10))
            assert.equal(1, #list)
            assert.same({ "kazoo", mode, true }, { list[1].identity, list[1].mode, list[1].holder })
            assert.equal("timeout", select(3, lock:try_acquire()))
            assert.equal("ok", kazoo:ask("release"))
            assert(lock:try_acquire())
        end)
    end

    it("let its WriteLock wait for our readers, writers and mutexes if it gets their patterns", function()
        local path = fixture.path()
        local kazoo = foreign.contender("kazoo", path, "write", 0, "kazoo", "-__READ__,-__WRIT__,-lock-")
        for _, marker in ipairs({ "-__READ__", "-__WRIT__", "-lock-" }) do
            local node = fixture.join(path, UUID .. marker)
            kazoo:tell("acquire 30")
            foreign.await_watch(node)
            assert(fixture.observer():delete(node))
            assert.equal("ok", kazoo:line())
            assert.equal("ok", kazoo:ask("release"))
        end
    end)

    it("let its ReadLock pass our readers and wait for our writers if it gets only the pattern of writers", function()
        local path = fixture.path()
        local kazoo = foreign.contender("kazoo", path, "read", 0, "kazoo", "-__WRIT__")
        fixture.join(path, UUID .. "-__READ__")
        assert.equal("ok", kazoo:ask("acquire 10"))
        assert.equal("ok", kazoo:ask("release"))
        local writer = fixture.join(path, UUID .. "-__WRIT__")
        kazoo:tell("acquire 30")
        foreign.await_watch(writer)
        assert(fixture.observer():delete(writer))
        assert.equal("ok", kazoo:line())
    end)

    -- python-zk/kazoo#649, present in the 2.8.0 of Debian 12 and mended in 2.9.0. A writer must wait for a reader before it. If the
    -- reader also waits for the writer, neither ever proceeds.
    local orders = foreign.is_since("python3-kazoo", "2.9")
    it(orders and "let its ReadLock pass a later writer" or
        "let its ReadLock wait also for a later writer: do not let it share a path with writers", function()
        local path = fixture.path()
        local reader = foreign.contender("kazoo", path, "read", 0, "reader")
        local first = fixture.join(path, UUID .. "-__WRIT__")
        reader:tell("acquire 30")
        foreign.await_watch(first)
        local later = foreign.contender("kazoo", path, "write", 0, "later")
        later:tell("acquire 30")
        fixture.await_children(path, 3)
        local children = fixture.children(path)
        assert(fixture.observer():delete(first))
        if orders then
            assert.equal("ok", reader:line())
            assert.equal("ok", reader:ask("release"))
            assert.equal("ok", later:line())
            return
        end
        for _, name in ipairs(children) do
            if name:find("lock__", 1, true) then
                -- Now the reader waits for the writer, and the writer waits for the reader.
                foreign.await_watch(path .. "/" .. name)
            end
        end
    end)
end)

describe("clients that cannot share a path: #once", function()
    after_each(fixture.clean)

    it("Curator does not see kazoo's names", function()
        local path, arena = fixture.path(), foreign.arena()
        local contenders = foreign.start({
            { client = "kazoo", path = path, kind = "mutex" },
            { client = "curator", path = path, kind = "mutex" }
        })
        assert.equal("ok", contenders[1]:ask("acquire 10"))
        assert.equal("ok", contenders[1]:ask("enter " .. arena))
        assert.equal("done 20 20", contenders[2]:ask("turns 20 " .. arena))
    end)

    it("go-zookeeper fails at kazoo's names, and leaves its own node behind", function()
        local path = fixture.path()
        local contenders = foreign.start({
            { client = "kazoo", path = path, kind = "mutex" },
            { client = "go", path = path, kind = "mutex" }
        })
        assert.equal("ok", contenders[1]:ask("acquire 10"))
        assert.matches("^error: .*Atoi", contenders[2]:ask("acquire"))
        assert.equal("ok", contenders[1]:ask("release"))
        local children = fixture.children(path)
        assert.equal(1, #children)
        assert.matches("^_c_%x+%-lock%-%d+$", children[1])
    end)

    it("kazoo without extra_lock_patterns does not see our names", function()
        local path, arena = fixture.path(), foreign.arena()
        local contenders = foreign.start({
            { client = "zklock", path = path, kind = "mutex" },
            { client = "kazoo", path = path, kind = "mutex", patterns = "-" }
        })
        assert.equal("ok", contenders[1]:ask("acquire 10"))
        assert.equal("ok", contenders[1]:ask("enter " .. arena))
        assert.equal("done 20 20", contenders[2]:ask("turns 20 " .. arena))
    end)

    it("kazoo's Semaphore and Curator's have different layouts", function()
        local path, arena = fixture.path(), foreign.arena()
        local contenders = foreign.start({
            { client = "kazoo", path = path, kind = "semaphore", permits = 1 },
            { client = "curator", path = path, kind = "semaphore", permits = 1 }
        })
        assert.equal("ok", contenders[1]:ask("acquire 10"))
        assert.equal("ok", contenders[1]:ask("enter " .. arena))
        assert.equal("done 20 20", contenders[2]:ask("turns 20 " .. arena))
    end)
end)

describe("a child that is not a lock node #once", function()
    after_each(fixture.clean)

    it("named 0 makes Curator wait, but not us", function()
        local path = fixture.directory()
        local stranger = path .. "/0"
        assert(fixture.observer():create(stranger))
        assert(a_mutex(path):acquire(10):release())
        local curator = foreign.contender("curator", path, "mutex")
        curator:tell("acquire 30")
        foreign.await_watch(stranger)
        assert(fixture.observer():delete(stranger))
        assert.equal("ok", curator:line())
    end)

    it("named notes makes go-zookeeper fail, but not us", function()
        local path = fixture.directory()
        assert(fixture.observer():create(path .. "/notes"))
        assert(a_mutex(path):acquire(10):release())
        assert.matches("^error: .*Atoi", foreign.contender("go", path, "mutex"):ask("acquire"))
    end)
end)

--- inspect.watch: the changes of a queue, in their order. It tells of lost connections and sessions, and of changes that it missed.

local fixture = require "spec.support.fixture"
local compat = require "spec.support.compat"
local inspect = require "zklock.inspect"
local loop = require "spec.support.loop"

--- Returns the next changes of a watcher, until there is none, as texts: "joined one", "gap fast 2".
local function changes(watcher)
    local list = {}
    local change, _, code = watcher:next(1)
    while change do
        local contender = change.contender
        local text = change.event
        if contender then
            text = ("%s %s%s"):format(text, contender.identity, contender.holder and " (holder)" or "")
        elseif change.reason then
            text = ("%s %s %s"):format(text, change.reason, change.missed or "?")
        end
        list[#list + 1] = text
        change, _, code = watcher:next(1)
    end
    assert.equal("timeout", code)
    return list
end

describe("inspect.watch", function()
    after_each(fixture.clean)

    it("tells who joins, who leaves, and who holds then", function()
        local path, client = fixture.path(), fixture.steady_client()
        local first = fixture.join(path, nil, "one")
        local watcher = inspect.watch(client, path)
        assert.same({ "joined one (holder)" }, changes(watcher))
        fixture.join(path, nil, "two")
        assert.same({ "joined two" }, changes(watcher))
        assert(fixture.observer():delete(first))
        assert.same({ "left one (holder)", "holds two (holder)" }, changes(watcher))
        local before = fixture.sent(client)
        assert.same({}, changes(watcher))
        assert.equal(before, fixture.sent(client))
        watcher:close()
        fixture.pump_until(client, function()
            return client:stats().watches == 0
        end)
    end)

    it("answers closed once it is closed", function()
        local watcher = inspect.watch(fixture.steady_client(), fixture.path())
        assert.same({}, changes(watcher))
        watcher:close()
        watcher:close()
        for _ = 1, 2 do
            assert.same({ nil, "the watcher is closed", "closed" }, { watcher:next(1) })
        end
    end)

    it("answers closed where it waits when it is closed", function()
        local client = fixture.steady_client()
        local watcher, answer = inspect.watch(client, fixture.path()), nil
        assert.same({}, changes(watcher))
        loop.run(function()
            answer = compat.pack(watcher:next())
        end, function()
            watcher:close()
        end)
        assert.same({ n = 3, nil, "the watcher is closed", "closed" }, answer)
    end)

    it("answers closed where it reads when it is closed, and leaves no watch", function()
        local path, client, link = fixture.path(), fixture.client_behind_proxy { wait = loop, session_timeout = 30 }
        local watcher, answer = inspect.watch(client, path), nil
        fixture.join(path, nil, "one")
        collectgarbage "stop" -- a watch that is collected is removed, too
        finally(function()
            collectgarbage "restart"
        end)
        link:arm("children", "stall-reply")
        loop.run(function()
            answer = compat.pack(watcher:next())
        end, function()
            loop.until_true(function()
                return link:fired()
            end)
            watcher:close()
            link:resume()
        end)
        assert.same({ n = 3, nil, "the watcher is closed", "closed" }, answer)
        fixture.pump_until(client, function()
            return client:stats().watches == 0
        end)
    end)

    it("answers with the code of a failure where it looks for a lock that does not exist", function()
        local client, link = fixture.client_behind_proxy { wait = loop, session_timeout = 30 }
        local watcher, answer = inspect.watch(client, fixture.path()), nil
        link:arm("exists", "stall-reply")
        loop.run(function()
            answer = compat.pack(watcher:next())
        end, function()
            loop.until_true(function()
                return link:fired()
            end)
            client:close(0)
        end)
        assert.equal("closed", answer[3])
    end)

    it("waits for a lock that does not exist, and outlives its deletion", function()
        local path, client = fixture.path(), fixture.steady_client()
        local watcher = inspect.watch(client, path)
        assert.same({}, changes(watcher))
        local node = fixture.join(path, nil, "one")
        assert.same({ "created", "joined one (holder)" }, changes(watcher))
        assert(fixture.observer():delete(node))
        assert(fixture.observer():delete(path))
        assert.same({ "deleted", "left one (holder)" }, changes(watcher))
    end)

    it("watches permits and queue of a semaphore", function()
        local path, client = fixture.path(), fixture.steady_client()
        local watcher = inspect.watch(client, path)
        assert.same({}, changes(watcher))
        local semaphore = fixture.semaphore(path, 2, { identity = "me" })
        assert(semaphore:acquire(20))
        local seen = table.concat(changes(watcher), ",")
        assert.truthy(seen:find "joined me %(holder%)", seen)
        assert(semaphore:release())
        assert.same({ "left me (holder)" }, changes(watcher))
    end)

    it("counts the changes that it has missed", function()
        local path, client = fixture.path(), fixture.steady_client()
        fixture.join(path, nil, "one")
        local watcher = inspect.watch(client, path)
        changes(watcher)
        fixture.join(path, nil, "two")
        assert(fixture.observer():delete(fixture.join(path, nil, "short")))
        assert.same({ "gap fast 2", "joined two" }, changes(watcher))
    end)

    it("notices what has changed while the connection was lost", function()
        local path = fixture.path()
        local client, link = fixture.client_behind_proxy { session_timeout = 30 }
        local first = fixture.join(path, nil, "one")
        local watcher = inspect.watch(client, path)
        changes(watcher)
        fixture.cut_off(client, link)
        fixture.join(path, nil, "two")
        assert(fixture.observer():delete(first))
        link:accept()
        local change = assert(watcher:next(30))
        assert.same({ "left", "one" }, { change.event, change.contender.identity })
        assert.equal("two", assert(watcher:next(30)).contender.identity)
    end)

    it("tells that its session has ended, and goes on in the next one", function()
        local path = fixture.path()
        local client, link = fixture.client_behind_proxy { session_timeout = 30 }
        local lock = client:mutex(path, { identity = "mine" })
        assert(lock:acquire(20))
        local watcher = inspect.watch(client, path)
        assert.same({ "joined mine (holder)" }, changes(watcher))
        fixture.kill_owner_behind(link, lock:node())
        local gap = assert(watcher:next(30))
        assert.same({ "gap", "session" }, { gap.event, gap.reason })
        assert.equal("left", assert(watcher:next(30)).event)
        fixture.join(path, nil, "two")
        assert.equal("two", assert(watcher:next(30)).contender.identity)
    end)
end)

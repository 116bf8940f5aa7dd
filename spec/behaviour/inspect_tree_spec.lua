--- zklock.inspect.tree: the locks below some paths, kept up to date: what it sees, how often it asks, what it remembers.

local core = require "zklock.core"
local dice = require "spec.support.dice"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local Tree = require "zklock.inspect.tree"

--- Updates a tree for so many seconds. Returns the last state of each lock that has changed, and the number of changes.
local function follow(tree, seconds)
    local seen, count, ends = {}, 0, core.now() + seconds
    while core.now() < ends do
        local changes = assert(tree:update(math.max(0, ends - core.now())))
        for path, state in pairs(changes) do
            seen[path], count = state, count + 1
        end
    end
    return seen, count
end

--- Returns the identities of a state's contenders in a line; holders have a star.
local function queue_of(state)
    local texts = {}
    for index, contender in ipairs(state.contenders) do
        texts[index] = (contender.holder and "*" or "") .. (contender.identity or "-")
    end
    return table.concat(texts, " ")
end

--- Updates a tree until the first contender of a lock is as wished, and returns it.
local function await_first(tree, path, condition)
    return eventually(function()
        assert(tree:update(0.5))
        local first = tree.states[path] and tree.states[path].contenders[1]
        return first and condition(first) and first
    end)
end

describe("inspect.tree", function()
    after_each(fixture.clean)

    it("finds the locks below its paths, follows them, and sends nothing while nothing changes", function()
        local top, client = fixture.directory(), fixture.steady_client()
        local first = fixture.join(top .. "/a", nil, "one")
        fixture.join(top .. "/a", nil, "two")
        fixture.join(top .. "/deep/er/b", nil, "three")
        local tree = Tree.new(client, { top })
        local seen = follow(tree, 3)
        assert.equal("*one two", queue_of(seen[top .. "/a"]))
        assert.equal("*three", queue_of(seen[top .. "/deep/er/b"]))
        assert.is_nil(tree.states[top .. "/deep"])
        local before = fixture.sent(client)
        local _, count = follow(tree, 5)
        assert.same({ 0, before }, { count, fixture.sent(client) })

        assert(fixture.observer():delete(first))
        seen = follow(tree, 3)
        assert.equal("*two", queue_of(seen[top .. "/a"]))
        fixture.join(top .. "/deep/new", nil, "four")
        seen = follow(tree, 3)
        assert.equal("*four", queue_of(seen[top .. "/deep/new"]))
    end)

    --- Deletes a directory and all below it.
    local function delete_all(path)
        for _, name in ipairs(fixture.children(path)) do
            delete_all(path .. "/" .. name)
        end
        fixture.observer():delete(path)
    end

    for _, seconds in ipairs { 0, 3 } do
        it(("sees a lock whose directories were deleted and made anew after %d s"):format(seconds), function()
            local top, client = fixture.directory(), fixture.steady_client()
            fixture.join(top .. "/a/b", nil, "one")
            local tree = Tree.new(client, { top })
            assert.equal("*one", queue_of(follow(tree, 2)[top .. "/a/b"]))
            delete_all(top .. "/a")
            follow(tree, seconds)
            fixture.join(top .. "/a/b", nil, "two")
            await_first(tree, top .. "/a/b", function(first)
                return first.identity == "two"
            end)
        end)
    end

    it("sees a lock that is made anew between the answers for its directory and for the one above", function()
        local client, happened = fixture.steady_client(), 0
        local real = client:desk().core
        for attempt = 1, is_virtual and 30 or 3 do
            local top = fixture.directory()
            local path = ("%s/lock-%d"):format(top, attempt)
            fixture.join(path, nil, "one")
            local tree, child_is_read = Tree.new(client, { top }), false
            follow(tree, 2)
            delete_all(path)
            client:desk().core = setmetatable({}, { __index = function(_, name)
                return function(_, ...)
                    local request = ...
                    if name == "operate" and request.kind == "children" then
                        if request.path == path then
                            child_is_read = true
                        elseif request.path == top and child_is_read then
                            child_is_read, happened = false, happened + 1
                            fixture.join(path, nil, "two") -- the answer for the child has been given by now
                        end
                    end
                    return real[name](real, ...)
                end
            end })
            follow(tree, 3)
            client:desk().core = real
            if not fixture.has(path, 1) then
                fixture.join(path, nil, "two")
            end
            await_first(tree, path, function(first)
                return first.identity == "two"
            end)
            tree:close()
        end
        assert(happened > 0 or not is_virtual)
    end)

    it("sees what a full listing sees, whatever was made and deleted before", function()
        local client = fixture.steady_client()
        for seed = 1, is_virtual and 40 or 2 do
            local roll, top = dice(seed), fixture.directory()
            local tree, places = Tree.new(client, { top }), { "/a", "/a/b", "/c", "/c/d/e" }
            for step = 1, 60 do
                local path = top .. places[roll(#places)]
                local what = roll(6)
                if what <= 3 then
                    fixture.join(path, nil, "contender " .. step)
                elseif what == 4 then
                    delete_all(path)
                else
                    for _, name in ipairs(fixture.children(path)) do
                        if name:find "-lock-" and roll(2) == 1 then
                            fixture.observer():delete(path .. "/" .. name)
                        end
                    end
                end
                if roll(3) == 1 then
                    assert(tree:update((roll(20) - 1) / 10))
                end
            end
            follow(tree, 4)
            local anew = Tree.new(client, { top })
            follow(anew, 2)
            for _, place in ipairs(places) do
                local state, listed = tree.states[top .. place], anew.states[top .. place]
                local queue = listed and queue_of(listed)
                assert.equal(queue, state and queue_of(state), ("seed %d, %s"):format(seed, place))
            end
            tree:close()
            anew:close()
        end
    end)

    it("reads each new contender once, and a directory once a second, however fast it changes", function()
        local top, client = fixture.directory(), fixture.steady_client()
        fixture.join(top .. "/a", nil, "one")
        local tree = Tree.new(client, { top })
        follow(tree, 2)
        local before = fixture.sent(client)
        for index = 1, 20 do
            fixture.join(top .. "/a", nil, "next " .. index)
            follow(tree, 0.1)
        end
        follow(tree, 2)
        local lists = fixture.sent(client) - before - 20
        assert.equal(21, #tree.states[top .. "/a"].contenders)
        assert(lists >= 2)
        assert(lists <= 5 or not is_virtual, ("%d lists in 4 seconds"):format(lists))
    end)

    it("waits for a path that does not exist, and outlives its deletion", function()
        local path, client = fixture.path(), fixture.steady_client()
        local tree = Tree.new(client, { path })
        assert.same({}, (follow(tree, 2)))
        local node = fixture.join(path, nil, "one")
        assert.equal("*one", queue_of(follow(tree, 3)[path]))
        assert(fixture.observer():delete(node))
        assert(fixture.observer():delete(path))
        assert.is_false(follow(tree, 3)[path])
        fixture.join(path, nil, "two")
        assert.equal("*two", queue_of(follow(tree, 3)[path]))
    end)

    it("forgets directories that are gone, with all that was below them", function()
        local top, client = fixture.directory(), fixture.steady_client()
        local node = fixture.join(top .. "/x/a", nil, "one")
        local tree = Tree.new(client, { top })
        follow(tree, 2)
        for _, path in ipairs { node, top .. "/x/a", top .. "/x" } do
            assert(fixture.observer():delete(path))
        end
        assert.is_false(follow(tree, 3)[top .. "/x/a"])
        assert.same({ 1, "free" }, { tree.count, tree.states[top].kind })
        fixture.pump_until(client, function()
            assert(tree:update(0)) -- the top has no watch if it was listed before its child was deleted
            local watches = client:stats().watches
            return watches == 1, ("%d watches, %d of the top"):format(watches, #tree.directories[top].watches)
        end)
    end)

    -- The answer of the read that set the watch makes a notification too. A busy machine passes it on after the read has returned.
    it("does not list a directory again by a notification with which its watch has not fired", function()
        local top, client, told = fixture.directory(), fixture.steady_client(), false
        local tree = Tree.new(client, { top })
        follow(tree, 2)
        local before = fixture.sent(client)
        tree.directories[top].watches[1]:wait { timeout = 0.1, callback = function() -- the end of this time is one
            told = true
        end }
        follow(tree, 3)
        assert.same({ true, before, 1 }, { told, fixture.sent(client), client:stats().watches })
    end)

    it("follows permits and queue of a semaphore, and gives its limit", function()
        local path, client = fixture.path(), fixture.steady_client()
        local tree = Tree.new(client, { path })
        follow(tree, 2)
        local semaphore = fixture.semaphore(path, 2, { identity = "me" })
        assert(semaphore:acquire(20))
        local state = follow(tree, 3)[path] or tree.states[path]
        assert.same({ "semaphore", 2, 1 }, { state.kind, state.limit, state.holders })
        assert(semaphore:release())
        assert.equal(0, follow(tree, 3)[path].holders)
    end)

    it("notices that a holder was asked to release, also one that has waited before", function()
        local path, client = fixture.path(), fixture.steady_client()
        local first, second = fixture.join(path, nil, "one"), fixture.join(path, nil, "two")
        local tree = Tree.new(client, { path })
        for _, node in ipairs { first, second } do
            await_first(tree, path, function(contender)
                return contender.node == node and contender.holder
            end)
            assert(fixture.observer():set(node, "__REVOKE__"))
            await_first(tree, path, function(contender)
                return contender.revoked
            end)
            assert(fixture.observer():delete(node))
        end
        follow(tree, 3)
        local before = fixture.sent(client)
        follow(tree, 5)
        assert.equal(before, fixture.sent(client))
        tree:close()
        fixture.pump_until(client, function()
            return client:stats().watches == 0
        end)
    end)

    it("keeps the first contenders of a long queue, and says how many there are", function()
        local path, client = fixture.path(), fixture.steady_client()
        for index = 1, 230 do
            fixture.join(path, nil, ("x"):rep(1000) .. index)
        end
        local tree = Tree.new(client, { path })
        local state = follow(tree, 3)[path]
        assert.same({ 200, 230, 229 }, { #state.contenders, state.total, state.waiters })
        assert.equal(("x"):rep(200), state.contenders[1].identity)
        assert.equal(200, tree.contender_count)
    end)

    it("looks at so many directories, and at others when there is room", function()
        local top, client = fixture.directory(), fixture.steady_client()
        for index = 1, 60 do
            assert(fixture.observer():create(("%s/%04d"):format(top, index)))
        end
        fixture.join(top, nil, "one")
        local tree = Tree.new(client, { top }, { directories = 50 })
        follow(tree, 3)
        assert.same({ "mutex", {} }, { tree.states[top].kind, tree.states[top].others }) -- their names are not kept
        assert.same({ 50, { [top] = true } }, { tree.count, tree.left_out })
        for index = 1, 20 do
            assert(fixture.observer():delete(("%s/%04d"):format(top, index)))
        end
        follow(tree, 3)
        assert.same({ 41, {} }, { tree.count, tree.left_out })
    end)

    it("leaves out what it cannot watch: other clients may make names as long as they wish", function()
        local top, client = fixture.directory(), fixture.steady_client()
        fixture.join(top .. "/a", nil, "one")
        for index = 1, 40 do
            assert(fixture.observer():create(("%s/%s%d"):format(top, ("x"):rep(20000), index)))
        end
        local tree = Tree.new(client, { top })
        assert.equal("*one", queue_of(follow(tree, 3)[top .. "/a"]))
        assert.same({ [top] = true }, tree.left_out)
        assert.equal(2, tree.count)
    end)

    it("leaves out directories beyond the paths that a client can watch", function()
        local top, client = fixture.directory(), fixture.steady_client()
        for index = 1, 800 do
            assert(fixture.observer():create(("%s/%04d%s"):format(top, index, ("x"):rep(900))))
        end
        local tree = Tree.new(client, { top })
        follow(tree, 3)
        assert(tree.count > 200, tree.count)
        assert.same({ [top] = true }, tree.left_out)
        local before = tree.count
        for index = 1, 400 do
            assert(fixture.observer():delete(("%s/%04d%s"):format(top, index, ("x"):rep(900))))
        end
        follow(tree, 3)
        assert.equal(before, tree.count) -- others have their places
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20)) -- there is room for the program's own locks
        assert(lock:release())
    end)

    it("leaves out semaphores, and watches no more holders, beyond the paths that a client can watch", function()
        local top, client = fixture.directory(), fixture.steady_client()
        for index = 1, 110 do
            fixture.join(("%s/s%03d%s/leases"):format(top, index, ("x"):rep(500)), "_c_" .. fixture.UUID .. "-lease-", "one")
            fixture.join(("%s/m%03d%s"):format(top, index, ("x"):rep(500)), nil, "two")
        end
        local tree = Tree.new(client, { top })
        local seen, kinds = follow(tree, 5), {}
        for _, state in pairs(seen) do
            kinds[state.kind] = (kinds[state.kind] or 0) + 1
            assert.equal(1, state.holders)
        end
        assert.equal(110, kinds.mutex)
        assert(kinds.semaphore > 10 and kinds.semaphore < 110, kinds.semaphore)
        assert.truthy(next(tree.left_out))
        assert(tree.other_bytes <= 150000, tree.other_bytes)
        local before = fixture.sent(client)
        follow(tree, 5)
        assert.equal(before, fixture.sent(client))
        for path, state in pairs(seen) do -- none loses its place when it is read again
            fixture.join(state.kind == "mutex" and path or path .. "/leases", "_c_" .. fixture.UUID ..
                (state.kind == "mutex" and "-lock-" or "-lease-"), "three")
        end
        for path, state in pairs(follow(tree, 5)) do
            assert.truthy(state, path)
        end
        local path = fixture.path()
        local lock = client:mutex(path)
        assert(lock:acquire(20)) -- there is room for the program's own locks
        assert(lock:release())
        tree:close()
        fixture.pump_until(client, function()
            return client:stats().watches == 0
        end)
    end)

    it("tries a directory that it may not read again, once a minute", function()
        local top, client = fixture.directory(), fixture.steady_client()
        local owner = fixture.client { auth = { { scheme = "digest", credential = "one:secret" } } }
        assert(owner:create(top .. "/secret", "", { acl = "creator" }))
        local tree = Tree.new(client, { top })
        follow(tree, 3)
        assert.same({ [top .. "/secret"] = true }, tree.unreadable)
        if is_virtual then
            local before = fixture.sent(client)
            follow(tree, 180)
            assert.equal(before + 3, fixture.sent(client))
        end
        assert(owner:delete(top .. "/secret"))
        follow(tree, 3)
        assert.same({}, tree.unreadable)
    end)

    it("reads everything again when its session has ended", function()
        local path = fixture.path()
        local client, link = fixture.client_behind_proxy { session_timeout = 30 }
        local lock = client:mutex(path, { identity = "mine" })
        assert(lock:acquire(20))
        local tree = Tree.new(client, { path })
        follow(tree, 2)
        fixture.kill_owner_behind(link, lock:node())
        fixture.join(path, nil, "two")
        local ends, state = core.now() + 60, nil
        repeat
            local changes = tree:update(1)
            state = changes and changes[path] or state
        until state and queue_of(state) == "*two" or core.now() > ends
        assert.equal("*two", queue_of(state))
    end)

    if is_virtual then
        it("shows a change at once, or a second after the last one", function()
            local path, client = fixture.path(), fixture.steady_client()
            fixture.join(path, nil, "one")
            local tree = Tree.new(client, { path })
            follow(tree, 5)
            local began = core.now()
            fixture.join(path, nil, "two")
            assert(tree:update(10)[path])
            local first = core.now()
            assert(first - began < 0.1)
            fixture.join(path, nil, "three")
            assert(tree:update(10)[path])
            local gap = core.now() - first
            assert(gap > 0.9 and gap < 1.1, tostring(gap))
        end)
    end
end)

--- ui.model: one snapshot for all viewers: what they are sent, how often ZooKeeper is asked, what is remembered, hostile texts. In
-- virtual time only: requests are counted in exact seconds, and minutes pass. On real servers spec/contract/command_ui_spec.lua and
-- tools/browser/ use it.

local core = require "zklock.core"
local exposition = require "spec.support.exposition"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local json = require "dkjson"
local Log = require "zklock.ui.log"
local loop = require "spec.support.loop"
local Model = require "zklock.ui.model"
local takes = require "spec.support.takes"

if not is_virtual then
    return
end

--- Reads a server-sent event. Returns its name, its data and its id.
local function read_event(message)
    local name, id, data = message:match "^event: (%w+)\nid: ([^\n]+)\ndata: ([^\n]+)\n\n$"
    assert(name, "not an event: " .. message:sub(1, 100))
    return name, assert(json.decode(data)), id
end

--- Runs `fn(model, client)` while a model of these paths runs.
local function with_model(paths, settings, fn)
    settings.paths = paths
    settings.clock = settings.clock or core.now -- in virtual time this is the clock of the world
    local client = fixture.steady_client()
    local model = Model.new(client, settings)
    loop.run_all({ function()
        model:run(settings.idle)
    end, function()
        fn(model, client)
        model:stop()
    end }, 1000)
end

--- Adds a viewer that counts how often it is woken.
local function view(model, path)
    local viewer
    viewer = assert(model:add_viewer(path, function()
        viewer.wakes = (viewer.wakes or 0) + 1
    end))
    return viewer
end

--- Returns the data of the next event for a viewer that is no beat.
local function next_event(model, viewer)
    local found
    loop.until_true(function()
        local message = model:message(viewer)
        if message and not message:find "^event: beat" then
            found = message
        end
        return found
    end)
    return read_event(found)
end

--- Waits until the model has read everything once.
local function settled(model)
    loop.until_true(function()
        return model.read_at
    end)
    model:pause(2)
end

describe("ui.model", function()
    after_each(fixture.clean)

    it("sends a snapshot first, then what has changed, with ids that go on", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/a", nil, "one")
        fixture.join(top .. "/b", nil, "other")
        with_model({ top }, {}, function(model)
            settled(model)
            local viewer = view(model)
            local name, data, id = next_event(model, viewer)
            assert.same({ "snapshot", 2, "connected" }, { name, #data.locks, data.frame.state })
            assert.equal(0, data.frame.unreadable)
            assert.is_nil(model:message(viewer))
            fixture.join(top .. "/a", nil, "two")
            local second
            name, data, second = next_event(model, viewer)
            assert.same({ "change", 1, top .. "/a", 1, "one" },
                { name, #data.locks, data.locks[1].path, data.locks[1].waiters, data.locks[1].names[1] })
            assert.equal(id:match "^(.*)%-", second:match "^(.*)%-")
            assert.truthy(tonumber(id:match "%d+$") < tonumber(second:match "%d+$"))
            assert(fixture.observer():delete(node))
            data = select(2, next_event(model, viewer))
            assert.equal("two", data.locks[1].names[1])
        end)
    end)

    it("shows one lock with its queue, what waits for what, and what has ended", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/a", nil, "one")
        local second = fixture.join(top .. "/a", nil, "two")
        with_model({ top }, {}, function(model)
            settled(model)
            local viewer = view(model, top .. "/a")
            local _, data = next_event(model, viewer)
            local lock = data.locks[1]
            assert.same({ "one", true, "two", false, node }, { lock.contenders[1].identity, lock.contenders[1].holder,
                lock.contenders[2].identity, lock.contenders[2].holder, lock.contenders[2].waits_for })
            assert(fixture.observer():delete(node))
            _, data = next_event(model, viewer)
            lock = data.locks[1]
            assert.same({ second, true, "one", "ended" }, { lock.contenders[1].node, lock.contenders[1].holder,
                lock.ended[1].identity, lock.ended[1].fate })
            fixture.join(top .. "/b", nil, "not shown")
            model:pause(3)
            assert.is_nil(model:message(viewer))
        end)
    end)

    it("tells deadlocks in each frame", function()
        local top = fixture.directory()
        fixture.join(top .. "/a", nil, "one")
        fixture.join(top .. "/b", nil, "two")
        with_model({ top }, {}, function(model)
            settled(model)
            local viewer = view(model)
            assert.same({}, select(2, next_event(model, viewer)).frame.deadlocks)
            local node = fixture.join(top .. "/a", nil, "two")
            fixture.join(top .. "/b", nil, "one")
            model:pause(3)
            assert.same({ { more = 0, steps = {
                { program = "one", holds = top .. "/a", waits_for = top .. "/b" },
                { program = "two", holds = top .. "/b", waits_for = top .. "/a" }
            } } }, select(2, next_event(model, viewer)).frame.deadlocks)
            assert(fixture.observer():delete(node))
            assert.same({}, select(2, next_event(model, viewer)).frame.deadlocks)
        end)
    end)

    it("has metrics of all locks, and of each one if there are not too many", function()
        local top = fixture.directory()
        fixture.join(top .. "/a", nil, "one")
        fixture.join(top .. "/b", nil, "two")
        fixture.join(top .. "/a", nil, "two")
        fixture.join(top .. "/b", nil, "one")
        local lost = fixture.join(top .. "/c", nil, "killed")
        local session = { connected = true }
        with_model({ top }, { sessions = function()
            return { known = true, connections = true, by_id = { [fixture.session_of(top .. "/a")] = session } }
        end }, function(model)
            settled(model)
            local function values()
                local found = {}
                for name, family in pairs(exposition(model:metrics())) do
                    for _, sample in ipairs(family.samples) do
                        found[sample.labels.path and ("%s %s"):format(name, sample.labels.path) or name] = sample.value
                    end
                end
                return found
            end
            local found = values()
            assert.same({ 3, 3, 2, 1, 0, 1, 1 }, { found.zklock_seen_locks, found.zklock_seen_held_locks, found.zklock_seen_waiters,
                found.zklock_seen_deadlocks, found.zklock_seen_losses_total, found.zklock_connected_clients,
                found["zklock_lock_waiters " .. top .. "/a"] })
            assert.equal(1, found["zklock_lock_holders " .. top .. "/c"])
            local age = found["zklock_lock_hold_age_seconds " .. top .. "/c"]
            assert(age > 0 and age < 100, age)
            session = {}
            model:pause(6)
            session = nil
            assert(fixture.observer():delete(lost))
            model:pause(6)
            found = values()
            assert.equal(1, found.zklock_seen_losses_total)
            assert.equal(0, found["zklock_lock_hold_age_seconds " .. top .. "/c"])
            for index = 1, 200 do
                fixture.join(("%s/many/%d"):format(top, index), nil, "x")
            end
            model:pause(3)
            found = values()
            assert.equal(203, found.zklock_seen_locks)
            assert.is_nil(found["zklock_lock_waiters " .. top .. "/a"])
        end)
    end)

    it("joins holds that follow each other to one interval in the list", function()
        local top = fixture.directory()
        local nodes = { (fixture.join(top .. "/a", nil, "one")), (fixture.join(top .. "/a", nil, "two")) }
        with_model({ top }, {}, function(model)
            settled(model)
            for _, node in ipairs(nodes) do
                assert(fixture.observer():delete(node))
                model:pause(3)
            end
            fixture.join(top .. "/a", nil, "three")
            model:pause(3)
            local _, data = read_event(assert(model:message(view(model))))
            local strip = data.locks[1].strip
            assert.equal(2, #strip)
            assert(strip[1][2] > strip[1][1] and strip[2][1] > strip[1][2])
            assert.equal(0, strip[2][2]) -- is held now
        end)
    end)

    it("sends ZooKeeper the same requests for 50 viewers as for one", function()
        local function requests(viewers)
            local top, sent = fixture.directory(), nil
            with_model({ top }, {}, function(model, client)
                fixture.join(top .. "/a", nil, "first")
                settled(model)
                local all = {}
                for index = 1, viewers do
                    all[index] = view(model, index % 2 == 0 and top .. "/a" or nil)
                end
                local before = fixture.sent(client)
                for round = 1, 5 do
                    fixture.join(top .. "/a", nil, "next " .. round)
                    model:pause(1.5)
                    for _, viewer in ipairs(all) do
                        assert.equal(round == 1 and "snapshot" or "change", (read_event(assert(model:message(viewer)))))
                    end
                end
                sent = fixture.sent(client) - before
            end)
            return sent
        end
        local one = requests(1)
        assert.equal(10, one) -- a list and a new node for each round
        assert.equal(one, requests(50))
    end)

    it("tells viewers of one kind the same text, and slow ones the sum of what they have missed", function()
        local top = fixture.directory()
        with_model({ top }, {}, function(model)
            settled(model)
            local quick, other, slow = view(model), view(model), view(model)
            for _, viewer in ipairs { quick, other, slow } do
                model:message(viewer)
            end
            for index = 1, 4 do
                fixture.join(top .. "/" .. index, nil, "x")
                model:pause(2)
                local first, second = model:message(quick), model:message(other)
                assert.equal(first:match '"locks".*', second:match '"locks".*')
            end
            local _, data = read_event(assert(model:message(slow)))
            assert.equal(4, #data.locks)
        end)
    end)

    it("shows that another client has asked a holder to release, and goes on showing who it is", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/a", nil, "one")
        local second = fixture.join(top .. "/a", nil, "two")
        with_model({ top }, {}, function(model)
            settled(model)
            local list, page = view(model), view(model, top .. "/a")
            local _, data = next_event(model, page)
            assert.is_nil(data.locks[1].contenders[1].revoked)
            next_event(model, list)
            for index, asked in ipairs { node, second } do
                local identity = ({ "one", "two" })[index]
                assert(fixture.observer():set(asked, "__REVOKE__"))
                _, data = next_event(model, page)
                local contender = data.locks[1].contenders[1]
                assert.same({ asked, true, true, identity },
                    { contender.node, contender.holder, contender.revoked, contender.identity })
                _, data = next_event(model, list)
                assert.equal(identity, data.locks[1].names[1])
                assert(fixture.observer():delete(asked))
                _, data = next_event(model, page)
                assert.equal(identity, data.locks[1].ended[index].identity)
                next_event(model, list)
            end
        end)
    end)

    it("keeps a viewer with an empty name of a lock apart from those of the list", function()
        local top = fixture.directory()
        with_model({ top }, {}, function(model)
            settled(model)
            local odd, list = view(model, ""), view(model)
            model:message(odd)
            model:message(list)
            fixture.join(top .. "/a", nil, "one")
            next_event(model, odd)
            local _, data = next_event(model, list)
            assert.equal(top .. "/a", data.locks[1].path)
        end)
    end)

    it("sends a beat when nothing changes, and at once when the connection is lost", function()
        local path = fixture.path()
        local client, link = fixture.client_behind_proxy { session_timeout = 30, wait = loop }
        local model = Model.new(client, { paths = { path } })
        loop.run(function()
            model:run()
        end, function()
            settled(model)
            local viewer = view(model)
            local message
            takes(10, function() -- from before the message at which the pause begins
                assert(model:message(viewer))
                loop.until_true(function()
                    message = model:message(viewer)
                    return message
                end)
            end)
            local name, data = read_event(message)
            assert.same({ "beat", "connected" }, { name, data.frame.state })
            fixture.cut_off(client, link)
            name, data = read_event(assert(model:message(viewer)))
            assert.equal("beat", name)
            assert.are_not.equal("connected", data.frame.state)
            link:accept()
            model:stop()
        end)
    end)

    it("tells a lost hold from a released one by the sessions that the servers know", function()
        local top = fixture.directory()
        local first = fixture.join(top .. "/a", nil, "killed")
        local second = fixture.join(top .. "/b", nil, "released")
        local id = fixture.session_of(top .. "/a") -- one observer: the spec decides what has become of its session
        local session = { connected = true }
        with_model({ top }, { sessions = function()
            return { known = true, connections = true, by_id = { [id] = session } }
        end }, function(model)
            settled(model)
            assert(fixture.observer():delete(second))
            model:pause(5)
            assert.equal("released", model.locks[top .. "/b"].history.ended[1].fate)
            local viewer = view(model, top .. "/a")
            next_event(model, viewer)
            session = {}
            local _, data = next_event(model, viewer)
            assert.same({ "disconnected", true }, { data.locks[1].contenders[1].session_state, data.locks[1].away })
            session = nil
            assert(fixture.observer():delete(first))
            model:pause(5)
            _, data = next_event(model, viewer)
            assert.equal("lost", data.locks[1].ended[1].fate)
            assert.truthy(data.locks[1].lost)
        end)
    end)

    it("shows the same spans of time when the clock is set back, and forgets them in time", function()
        local top, ahead = fixture.directory(), 7200
        local function clock()
            return core.now() + ahead
        end
        local first = fixture.join(top .. "/a", nil, "one")
        local second = fixture.join(top .. "/a", nil, "two")
        with_model({ top }, { clock = clock }, function(model)
            settled(model)
            assert(fixture.observer():delete(first))
            model:pause(10)
            local page, list = view(model, top .. "/a"), view(model)
            local _, before = next_event(model, page)
            next_event(model, list)
            ahead = 0
            local _, data = next_event(model, page)
            local was, is = before.locks[1], data.locks[1]
            local function near(expected, value)
                assert(math.abs(value - expected) < 0.01, ("%s is not %s"):format(value, expected))
            end
            near(clock(), data.frame.now)
            near(before.frame.began - 7200, data.frame.began)
            assert(data.frame.read_at <= data.frame.now and data.frame.read_at > data.frame.now - 5)
            near(was.began - 7200, is.began)
            near(was.contenders[1].held - 7200, is.contenders[1].held)
            near(was.ended[1].ended - 7200, is.ended[1].ended)
            local name
            name, data = next_event(model, list)
            assert.same({ "change", 1 }, { name, #data.locks })
            near(is.contenders[1].held, data.locks[1].since)
            assert(is.figures.rate > 0 and is.figures.rate < was.figures.rate)
            assert(fixture.observer():delete(second))
            assert(fixture.observer():delete(top .. "/a"))
            model:pause(330)
            assert.same({ 0, 2 }, { model.lock_count, model.lane_count })
        end)
    end)

    it("is out of reach while ZooKeeper is, for a minute, and then shows what has become of the locks", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/a", nil, "one")
        local client, link = fixture.client_behind_proxy { session_timeout = 10, wait = loop }
        local model = Model.new(client, { paths = { top }, clock = core.now })
        loop.run(function()
            model:run()
        end, function()
            settled(model)
            local viewer = view(model)
            next_event(model, viewer)
            fixture.cut_off(client, link)
            fixture.join(top .. "/b", nil, "two")
            assert(fixture.observer():delete(node))
            local states = {}
            for _ = 1, 60 do
                model:pause(1)
                fixture.observer():ping()
                local message = model:message(viewer)
                if message then
                    local name, data = read_event(message)
                    states[data.frame.state] = true
                    assert.same({}, data.locks or {})
                    assert.are_not.equal("snapshot", name)
                end
            end
            assert.is_nil(states.connected)
            assert.equal(1, model.lock_count) -- what was seen last stays
            link:accept()
            loop.until_true(function()
                return model.locks[top .. "/b"]
            end)
            model:pause(1)
            local seen = {}
            local name, data = read_event(assert(model:message(viewer)))
            for _, lock in ipairs(data.locks) do
                seen[lock.path] = lock.holders
            end
            assert.same({ "change", "connected", { [top .. "/a"] = 0, [top .. "/b"] = 1 } }, { name, data.frame.state, seen })
            model:stop()
        end)
    end)

    it("makes hostile texts harmless, and short", function()
        local top = fixture.directory()
        fixture.join(top .. "/<script>alert(1)</script>", nil, "\0\27[31m</script>\226\128\174\255" .. ("x"):rep(900000))
        with_model({ top }, {}, function(model)
            settled(model)
            local message = assert(model:message(view(model)))
            assert(#message < 3000, #message)
            assert.is_nil(message:gsub("\n", ""):find "%c")
            local _, data = read_event(message)
            assert.equal("\239\191\189\239\191\189[31m</script>\239\191\189\239\191\189xxx", data.locks[1].names[1]:sub(1, 28))
            assert.truthy(data.locks[1].names[1]:find "…$")
        end)
    end)

    it("shows what only its own process knows, when it has asked for a lock", function()
        local top = fixture.directory()
        with_model({ top }, {}, function(model, client)
            settled(model)
            local viewer = view(model)
            local _, data = read_event(assert(model:message(viewer)))
            assert.is_nil(data.frame.own)
            local lock = client:mutex(top .. "/mine", { on_lost = function() end })
            assert(lock:acquire(20))
            _, data = next_event(model, viewer)
            assert.same({ 1, lock:node() }, { data.frame.own.held, data.frame.own.leases[1].node })
            assert(data.frame.own.leases[1].remaining > 0)
            assert(lock:release())
        end)
    end)

    it("shows a lock for a while whose directory is deleted, and then forgets it", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/a", nil, "one")
        with_model({ top }, {}, function(model)
            settled(model)
            local viewer = view(model)
            next_event(model, viewer)
            assert(fixture.observer():delete(node))
            assert(fixture.observer():delete(top .. "/a"))
            loop.until_true(function()
                return model.locks[top .. "/a"].state == nil
            end)
            model:pause(1)
            local message = assert(model:message(viewer))
            for _, lock in ipairs(select(2, read_event(message)).locks) do
                assert.same({ top .. "/a", "mutex", true }, { lock.path, lock.kind, lock.missing })
            end
            model:pause(330)
            assert.is_nil(model.locks[top .. "/a"])
            message = assert(model:message(viewer))
            assert.same({ top .. "/a" }, select(2, read_event(message)).gone)
        end)
    end)

    it("refuses viewers beyond its limit, and ends when nobody has looked for a while", function()
        local top = fixture.directory()
        with_model({ top }, { idle = 60 }, function(model, client)
            settled(model)
            local all = {}
            for index = 1, Model.VIEWERS do
                all[index] = view(model)
            end
            assert.is_nil(model:add_viewer(nil, function() end))
            for _, viewer in ipairs(all) do
                model:remove_viewer(viewer)
            end
            model:pause(59)
            assert.is_false(model.stopped)
            model:pause(3)
            assert.is_true(model.stopped)
            fixture.assert_nothing_left(client)
        end)
    end)

    it("remembers what has ended in the last day, also of locks that are gone and before a restart, if it has a log", function()
        local top, directory = fixture.directory(), files.make_directory()
        fixture.on_clean(function()
            os.execute("rm -rf " .. directory)
        end)
        local path, held = top .. "/a", fixture.join(top .. "/b", nil, "stays")
        local since
        with_model({ top }, { log = assert(Log.open(directory .. "/log", error)) }, function(model)
            settled(model)
            local node = fixture.join(path, nil, "one")
            model:pause(3)
            assert(fixture.observer():delete(node))
            assert(fixture.observer():delete(path))
            for _ = 1, 330 do
                model:pause(1)
                fixture.observer():ping()
            end
            assert.is_nil(model.locks[path])
            assert.equal("one", json.decode(model:history(path)).ended[1].identity)
            since = model.histories[top .. "/b"].lanes[held].held
        end)
        with_model({ top }, { log = assert(Log.open(directory .. "/log", error)) }, function(model)
            settled(model)
            assert.equal(0, model.torn)
            local ended = json.decode(model:history(path)).ended
            assert.same({ 1, "one", "ended" }, { #ended, ended[1].identity, ended[1].fate })
            assert(math.abs(since - model.histories[top .. "/b"].lanes[held].held) < 0.01)
            assert.same({}, json.decode(model:history "/other").ended)
        end)
        local events = {}
        Log.read(directory .. "/log", path, function(record)
            events[#events + 1] = record.event
        end)
        assert.equal("begins holds left stops begins stops", table.concat(events, " "))
    end)

    it("keeps so many ended contenders of all locks together", function()
        local top, directory = fixture.directory(), files.make_directory()
        fixture.on_clean(function()
            os.execute("rm -rf " .. directory)
        end)
        local log = assert(Log.open(directory .. "/log", error))
        for index = 1, 25000 do
            log:note("left", "/" .. index % 50, { node = "/x/" .. index, mode = "exclusive", from = 0, held = 0, ended = core.now(),
                fate = "ended" })
        end
        with_model({ top }, { log = log }, function(model)
            assert.equal(20000, model.lane_count)
            assert.equal(400, #model.histories["/0"].ended)
        end)
    end)

    it("does not grow while locks come and go", function()
        local top = fixture.directory()
        with_model({ top }, { interval = 0.2 }, function(model)
            settled(model)
            for index = 1, 60 do
                local path = ("%s/%d"):format(top, index)
                local node = fixture.join(path, nil, "x")
                model:pause(0.5)
                assert(fixture.observer():delete(node))
                assert(fixture.observer():delete(path))
            end
            assert(model.lock_count > 0)
            model:pause(320)
            assert.same({ 0, 60 }, { model.lock_count, model.lane_count })
            assert.equal(1, model.tree.count)
            assert(#model.gone <= 60)
            for _, history in pairs(model.histories) do
                history:shift(-86400)
            end
            model:pause(20)
            assert.is_nil(next(model.histories))
            assert.equal(0, model.lane_count)
        end)
    end)
end)

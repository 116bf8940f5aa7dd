--- The figures of each lock group, and the page that zklock.metrics makes of them.

local socket = require "socket"
local hold_of = require "spec.support.hold_of"
local exposition = require "spec.support.exposition"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local locale = require "spec.support.locale"
local loop = require "spec.support.loop"
local metrics = require "zklock.metrics"
local program = require "spec.support.program"
local zklock = require "zklock"

after_each(fixture.clean)

--- Returns the figures of one lock group.
local function group(client, name)
    return assert(client:group_stats())[name or "default"]
end

--- Returns how many values of a histogram are in the bucket with this upper bound and in no smaller one.
local function in_bucket(histogram, le)
    local below = 0
    for _, bucket in ipairs(histogram) do
        if bucket.le == le then
            return bucket.count - below
        end
        below = bucket.count
    end
    error("no bucket " .. le)
end

--- Returns the upper bound of the bucket that a value is in.
local function bucket_of(histogram, seconds)
    for _, bucket in ipairs(histogram) do
        if seconds <= bucket.le then
            return bucket.le
        end
    end
end

--- Checks that a histogram has `count` values of `seconds` each. In virtual time they must be in the bucket `le`.
-- On real servers, whose machine may be busy, they may be larger; a single one must be in the bucket of its value.
local function has(histogram, count, le, seconds)
    assert.equal(count, histogram.count)
    if is_virtual then
        assert.equal(count, in_bucket(histogram, le))
        assert.near(count * seconds, histogram.sum, 0.1)
    else
        assert.is_true(histogram.sum >= count * seconds)
    end
    if count == 1 then
        assert.equal(1, in_bucket(histogram, bucket_of(histogram, histogram.sum)))
    end
end

--- Returns the refusals that are not 0.
local function refusals(figures)
    local found = {}
    for code, count in pairs(figures.refusals) do
        if count ~= 0 then
            found[code] = count
        end
    end
    return found
end

--- Returns the value of a series of a page; nil if there is none.
local function value(families, name, labels)
    for _, sample in ipairs((families[name] or { samples = {} }).samples) do
        local fits = true
        for label, wanted in pairs(labels) do
            fits = fits and sample.labels[label] == wanted
        end
        if fits then
            return sample.value
        end
    end
    return nil
end

describe("a lock group measures", function()
    it("a hold of 3 s in the bucket of 5 s, when it ends #asan", function()
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path(), { metrics = "stock" })
        assert(lock:acquire(10))
        socket.sleep(3)
        local figures = group(client, "stock")
        assert.same({ 1, 0, 0 }, { figures.held, figures.waiting, figures.hold_time.count })
        assert(lock:release())
        figures = group(client, "stock")
        has(figures.hold_time, 1, 5, 3)
        assert.equal(1, figures.wait_time.count)
        assert.same({ 0, 0 }, { figures.held, figures.waiting })
        assert.same({ lost = 0, max_hold = 0, closed = 0 }, figures.losses)
        assert.same({}, refusals(figures))
    end)

    it("a wait of 4 s in the bucket of 5 s, and acquisitions that wait", function()
        local client, rival = fixture.steady_client(), fixture.steady_client()
        local path = fixture.path()
        local lock, other = client:mutex(path), rival:mutex(path)
        assert(other:acquire(10))
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert.same({ 1, 0 }, { group(client).waiting, group(client).held })
            socket.sleep(4)
            assert(hold_of(other):release())
        end)
        has(group(client).wait_time, 1, 5, 4)
        assert.same({ 0, 1 }, { group(client).waiting, group(client).held })
        assert(hold_of(lock):release())
        assert.equal(1, group(client).hold_time.count)
        if is_virtual then
            assert.is_true(group(client).hold_time.sum < 1) -- not counted from the request
        end
    end)

    it("refusals by the code that the caller gets", function()
        local client, path = fixture.steady_client(), fixture.path()
        local lock = client:mutex(path)
        fixture.join(path)
        assert.equal("timeout", select(3, lock:acquire(1)))
        assert.equal("timeout", select(3, lock:try_acquire()))
        assert.equal("timeout", select(3, lock:with_lock(error, 1)))
        loop.run(function()
            assert.equal("cancelled", select(3, lock:acquire(60)))
        end, function()
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert.equal("timeout", select(3, client:multi({ lock }):try_acquire()))
            assert(lock:cancel())
        end)
        local mine = client:mutex(fixture.path())
        assert(mine:acquire(10))
        assert.equal("deadlock", select(3, mine:acquire(10)))
        assert.same({ timeout = 4, cancelled = 1, deadlock = 1 }, refusals(group(client)))
        assert.equal(0, group(client).waiting)
        client:close()
        assert.equal("closed", select(3, mine:acquire(10)))
        assert.same({ timeout = 4, cancelled = 1, deadlock = 1, closed = 1 }, refusals(group(client)))
    end)

    it("refusals that callbacks get", function()
        local client, path = fixture.steady_client(), fixture.path()
        local lock, codes = client:mutex(path), {}
        fixture.join(path)
        local function note(_, _, code)
            codes[#codes + 1] = code
        end
        assert(lock:try_acquire { callback = note })
        assert(lock:acquire { timeout = 1, callback = note })
        assert(lock:acquire { callback = note }):cancel()
        fixture.pump_until(client, function()
            return #codes == 3
        end)
        assert.same({ timeout = 2, cancelled = 1 }, refusals(group(client)))
        client:close()
        assert.equal("closed", select(3, lock:acquire { callback = note }))
        assert.same({ timeout = 2, cancelled = 1, closed = 1 }, refusals(group(client)))
    end)

    it("a hold that is extended as one hold", function()
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path(), { max_hold = 3 })
        assert(lock:acquire(10))
        assert(lock:extend(20))
        socket.sleep(4)
        assert(lock:extend(30))
        assert.same({ 1, 0 }, { group(client).held, group(client).hold_time.count })
        assert(lock:release())
        has(group(client).hold_time, 1, 5, 4)
        assert.equal(0, group(client).held)
    end)

    it("a refusal without a connection", function()
        local lock, link, client = fixture.mutex_behind_proxy(fixture.path())
        fixture.cut_off(client, link)
        assert.equal("disconnected", select(3, lock:acquire(1)))
        assert.same({ disconnected = 1 }, refusals(group(client)))
    end)

    it("losses by reason, and the hold until then", function()
        local client, told = fixture.steady_client(), 0
        local function on_lost()
            told = told + 1
        end
        local short = client:mutex(fixture.path(), { metrics = "short", max_hold = 2, on_lost = on_lost })
        assert(short:acquire(10))
        fixture.pump_until(client, function()
            return told == 1
        end)
        assert.same({ lost = 0, max_hold = 1, closed = 0 }, group(client, "short").losses)
        has(group(client, "short").hold_time, 1, 2.5, 2)
        assert.equal("lost", select(3, short:release()))
        local deleted = client:mutex(fixture.path(), { metrics = "deleted", on_lost = on_lost })
        assert(deleted:acquire(10))
        assert(fixture.observer():delete(deleted:node()))
        fixture.pump_until(client, function()
            return told == 2
        end)
        assert.same({ lost = 1, max_hold = 0, closed = 0 }, group(client, "deleted").losses)
        assert.equal(1, group(client, "deleted").hold_time.count)
        local open = client:mutex(fixture.path(), { metrics = "open" })
        assert(open:acquire(10))
        client:close()
        assert.same({ lost = 0, max_hold = 0, closed = 1 }, group(client, "open").losses)
        assert.same({ 1, 0 }, { group(client, "open").hold_time.count, group(client, "open").held })
        assert.equal(client:stats().losses, 3)
    end)

    it("a loss that only the release finds, once, and its hold #asan", function()
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        assert.equal("lost", select(3, lock:release()))
        local figures = group(client)
        assert.same({ lost = 1, max_hold = 0, closed = 0 }, figures.losses)
        assert.same({ 1, 0 }, { figures.hold_time.count, figures.held })
    end)

    it("each acquisition of a shared node, also of one that lingers, and a reentrant hold once", function()
        local client, path = fixture.steady_client(), fixture.path()
        local lock = client:mutex(path, { linger = 60, reentrant = true })
        for _ = 1, 3 do
            assert(lock:with_lock(function()
                assert(lock:acquire(5))
                socket.sleep(0.2)
                assert(lock:release())
            end, 10))
        end
        socket.sleep(5)
        local figures = group(client)
        assert.same({ 3, 3, 0 }, { figures.wait_time.count, figures.hold_time.count, figures.held })
        has(figures.hold_time, 3, 0.25, 0.2)
        local rwlock = client:rwlock(fixture.path(), { metrics = "readers" })
        local function read()
            assert(rwlock.read:acquire(10))
            socket.sleep(0.2)
            assert(rwlock.read:release())
        end
        loop.run(read, read, read)
        assert.same({ 3, 3, 0 }, { group(client, "readers").wait_time.count, group(client, "readers").hold_time.count,
            group(client, "readers").held })
    end)

    it("permits that are taken together once, and a multi's members each in their group", function()
        local client = fixture.steady_client()
        local semaphore = client:semaphore(fixture.path(), 3, { metrics = "permits" })
        assert(semaphore:acquire { count = 2, timeout = 10 })
        assert(semaphore:release())
        assert.same({ 1, 1 }, { group(client, "permits").wait_time.count, group(client, "permits").hold_time.count })
        local taken = client:mutex(fixture.path(), { metrics = "taken" })
        local multi = client:multi { client:mutex(fixture.path(), { metrics = "first" }), taken }
        assert(multi:with_lock(function() end, 10))
        assert.same({ 1, 1 }, { group(client, "first").hold_time.count, group(client, "taken").hold_time.count })
        fixture.join(taken:path())
        assert.equal("timeout", select(3, multi:acquire(2)))
        assert.same({}, refusals(group(client, "first")))
        assert.same({ timeout = 1 }, refusals(group(client, "taken"))) -- its first, hidden try is not counted
        assert.equal("timeout", select(3, multi:try_acquire()))
        assert.same({ timeout = 2 }, refusals(group(client, "taken")))
        assert(client:flush(10))
        assert.same({ 0, 0, 0, 0 }, { group(client, "first").held, group(client, "first").waiting, group(client, "taken").held,
            group(client, "taken").waiting })
    end)

    it("at most 32 names, and counts the locks of all others as other", function()
        local client = fixture.steady_client()
        local names = 0
        for index = 1, 40 do
            client:mutex("/a", { metrics = "group " .. index })
        end
        for _ in pairs(client:group_stats()) do
            names = names + 1
        end
        assert.equal(31, names) -- and one for the default, which no lock has used yet
        assert.is_table(group(client, "group 30"))
        assert.is_nil(group(client, "group 31"))
        assert.equal(10, client:stats().group_overflows)
        local lock = client:mutex(fixture.path(), { metrics = "group 40" })
        assert(lock:with_lock(function() end, 10))
        assert.equal(1, group(client, "other").hold_time.count)
        assert(client:mutex(fixture.path()):with_lock(function() end, 10))
        assert.equal(1, group(client).hold_time.count)
        assert.equal(11, client:stats().group_overflows)
    end)

    it("nothing under a name that Prometheus would not read", function()
        local client = fixture.steady_client()
        for _, wrong in ipairs { "", ("x"):rep(65), "a\0b", "a\nb", "\255", "\237\160\128", "\192\128", "\194a\128",
            "\244\144\128\128", 5, false } do
            local ok, problem = pcall(client.mutex, client, "/a", { metrics = wrong })
            assert.is_false(ok)
            assert.truthy(problem:find("metrics", 1, true), problem)
        end
        for _, right in ipairs { "stock", 'odd "name" \\', "库存", "\237\159\191", "\240\159\152\128", "Ünï" } do
            assert(client:mutex("/a", { metrics = right }))
        end
    end)
end)

describe("the page of zklock.metrics", function()
    it("has the values of a client, in valid Prometheus text", function()
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path(), { metrics = "stock" })
        assert(lock:acquire(10))
        socket.sleep(3)
        assert(lock:release())
        assert(lock:acquire(10))
        local families = exposition(assert(metrics.text(client)))
        assert.equal(1, value(families, "zklock_hold_seconds", { group = "stock", le = is_virtual and "5" or "+Inf" }))
        assert.equal(0, value(families, "zklock_hold_seconds", { group = "stock", le = "2.5" }))
        assert.equal(1, value(families, "zklock_held_acquisitions", { group = "stock" }))
        assert.equal(0, value(families, "zklock_refusals_total", { group = "stock", code = "timeout" }))
        assert.equal(0, value(families, "zklock_losses_total", { group = "stock", reason = "max_hold" }))
        assert.equal(2, value(families, "zklock_acquisitions_total", {}))
        assert.equal(1, value(families, "zklock_connected_clients", {}))
        assert.equal(1, value(families, "zklock_sessions_total", {}))
        assert.equal(0, value(families, "zklock_session_expiries_total", {}))
        local stats = client:stats()
        assert.is_true(value(families, "zklock_requests_total", {}) <= stats.requests)
        assert.is_true(value(families, "zklock_memory_bytes", {}) > 0)
    end)

    it("counts calls of connect that fail, in this process", function()
        local function failures()
            return value(exposition(metrics.collector():text()), "zklock_connect_failures_total", { code = "disconnected" }) or 0
        end
        local before = failures()
        local _, _, code = zklock.connect("127.0.0.1:1", { connect_timeout = 0.2, wait = loop })
        assert.equal("disconnected", code)
        assert.equal(before + 1, failures())
    end)

    it("adds up clients with the same labels, and keeps others apart", function()
        local collector = metrics.collector():add(fixture.steady_client()):add(fixture.steady_client())
        collector:add(fixture.steady_client(), { ensemble = "b" })
        local families = exposition(collector:text())
        assert.equal(2, #families.zklock_clients.samples)
        assert.equal(2, families.zklock_clients.samples[1].value)
        assert.equal(1, value(families, "zklock_clients", { ensemble = "b" }))
        assert.equal(1, #families.zklock_memory_bytes.samples)
    end)

    it("escapes labels", function()
        local odd = 'back\\slash "quotes" 库存'
        local client = fixture.steady_client()
        assert(client:mutex(fixture.path(), { metrics = odd }):with_lock(function() end, 10))
        local families = exposition(metrics.text(client, { zone = odd }))
        assert.same({ group = odd, zone = odd }, families.zklock_held_acquisitions.samples[1].labels)
        assert.equal(1, value(families, "zklock_hold_seconds", { group = odd, zone = odd, le = "+Inf" }))
    end)

    it("is refused for wrong arguments, at the line of the call", function()
        local client = fixture.steady_client()
        local function refused(what, fn, ...)
            local ok, problem = pcall(fn, ...)
            assert.is_false(ok)
            assert.truthy(problem:find(what, 1, true), problem)
        end
        refused("zklock.metrics.text: the first argument must be a client", metrics.text, {})
        refused("labels must be a table", metrics.text, client, "a")
        refused("labels must have names", metrics.text, client, { group = "a" })
        refused("labels must have names", metrics.text, client, { ["1"] = "a" })
        refused("the label 'a' must be a string", metrics.text, client, { a = "\n" })
        refused("unknown option", metrics.collector, { dictionary = "a" })
        refused("option 'dict'", metrics.collector, { dict = "a" })
        local collector = metrics.collector()
        refused("collector:add: the first argument must be a client", collector.add, collector, {})
        refused("collector:text: call it with a colon", collector.text)
        refused("there is no nginx here", collector.serve, collector)
    end)
end)

describe("the page of metrics in a locale with a decimal comma", function()
    it("has points #real", function()
        local german, problem = locale.environment("de_DE")
        if not german then
            pending("no such locale can be made here: " .. problem)
            return
        end
        local decimals = program.run("decimals", { "env", "LOCPATH=" .. german.LOCPATH, "LC_ALL=" .. german.LC_ALL,
            program.interpreter(), "spec/programs/decimals.lua" })
        assert.equal(rawget(_G, "jit") and "1.5" or "1,5", decimals:line()) -- LuaJIT has its own conversion
        local buckets, line = 0, decimals:line()
        while line ~= "end" do
            local le = line:match 'le="([^"]*)"'
            assert.is_nil(line:match "[^ ]*$":find(",", 1, true), line)
            assert.is_nil((le or ""):find(",", 1, true), line)
            buckets, line = buckets + (le and le:find(".", 1, true) and 1 or 0), decimals:line()
        end
        decimals:stop()
        assert.is_true(buckets > 0)
    end)
end)

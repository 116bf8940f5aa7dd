--- The promise of `held()` while the link from the leader to a follower stalls, and the link from the follower to the leader works.
-- The follower still forwards writes, and the leader still executes them. But no ping of the leader reaches the follower, so
-- the follower reports no sessions to the leader, and the leader ends them although the follower serves their clients.

local core = require "zklock.core"
local socket = require "socket"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local proxy = require "spec.support.proxy"
local zk = require "spec.support.zk"

local TICK, SESSION_TIMEOUT = 2, 4
--- A session is ended at a multiple of the tick on the leader's clock. The leader pings twice a tick, and the answer to its last
-- ping before the stall arrives within so many seconds. If the link stalls 1.5 s after such a multiple, sessions end 4.5 s later.
local STALLED_FOR = 4.5
--- In each try another client acquires its lock before the session ends: this many seconds, times the number of the try, before.
local STEP = 0.1
-- So many of these instants must be seen; a busy machine needs several rounds.
local TRIES, ENOUGH, ROUNDS = 12, 10, 20
local PATIENCE = 50

describe("mutexes of idle clients at a follower that no longer receives its leader's packets #once", function()
    local servers, leader, follower, link, near, observer

    setup(function()
        servers = cluster.start({ servers = 3, tick = 1000 * TICK, options = { syncLimit = 5 } })
        leader = servers:leader()
        follower = leader % 3 + 1
        link = proxy.between(servers, follower, leader)
        assert(servers:leader() == leader, "there is another leader")
        near = proxy.start(servers:address(follower))
        observer = assert(zk.connect(servers:address(leader)))
    end)

    teardown(function()
        fixture.clean()
        near:stop()
        link:stop()
        servers:stop()
    end)

    --- Waits until the leader ends a session that has lost its client, and returns the time.
    local function moment_of_expiry()
        local node = eventually(function()
            local probe = assert(zk.connect(servers:address(leader), 1000 * TICK))
            local created, problem = probe:create("/probe", "", { ephemeral = true })
            probe:disconnect()
            return created, problem
        end)
        while observer:exists(node) do
            socket.sleep(0.005)
        end
        return core.now()
    end

    --- Returns whether a call has succeeded. On a busy machine a client may stand still for so long that it fails; other failures
    -- are raised.
    local function done(ok, message, code)
        assert(ok or code == "disconnected" or code == "lost", message)
        return ok
    end

    --- Lets the client of a try create the node that shows whether its session lives, and hold its lock once. Returns whether it
    -- has done so.
    local function prepare(try, client)
        if not done(client:create(try.session, nil, { ephemeral = true })) then
            return false
        end
        assert(observer:sync()) -- a follower may answer before the leader has executed the agreed write
        local stat, problem = observer:exists(try.session)
        assert(stat or problem == "no_node", problem)
        try.id = stat and stat.ephemeralOwner:gsub("^0+", "")
        return stat and done(try.idle:acquire(20)) and done(try.idle:release())
    end

    --- Returns tries whose clients have held their locks once and are idle since. If a client could not do so, its try is left out.
    local function new_tries(directory)
        local tries = {}
        local elsewhere = fixture.client({ wait = loop, session_timeout = 60 }, servers:address(leader))
        assert(observer:create_all(directory .. "/sessions"))
        for number = 1, TRIES do
            local client = fixture.client({ wait = loop, session_timeout = SESSION_TIMEOUT }, near.address)
            local path = ("%s/lock-%d"):format(directory, number)
            local try = {
                number = number, path = path, session = ("%s/sessions/%d"):format(directory, number), idle = client:mutex(path),
                other = elsewhere:mutex(path)
            }
            tries[#tries + 1] = prepare(try, client) and try or nil
        end
        return tries
    end

    --- Notes whether both clients hold. The other client is checked twice, since time passes between two checks.
    local function look(try)
        local other, idle = hold_of(try.other), hold_of(try.idle)
        try.both = try.both or other:held() and idle:held() and other:held()
    end

    local function acquire_when_idle(try, expiry)
        loop.until_true(function()
            return core.now() >= expiry - try.number * STEP
        end, PATIENCE)
        try.in_time = not try.ended
        try.asked = true
        local lock, message, code = try.idle:acquire(PATIENCE)
        assert(lock or code == "lost", message)
        try.acquired = true
        look(try)
        local token = try.idle:token() -- nil if it has lost the lock again
        assert.is_true(try.both or not token or token > try.token)
        try.compared = token ~= nil
        loop.until_true(function()
            return try.let_go
        end, PATIENCE)
        try.idle:release()
    end

    --- Queues behind the idle client's node if there is one, and is granted at the latest when the session has ended.
    local function acquire_elsewhere(try)
        loop.until_true(function()
            return try.ended or try.asked and #assert(try.other:contenders(20)) > 0
        end, PATIENCE)
        assert(try.other:acquire(PATIENCE))
        try.token = try.other:token()
        look(try)
        try.granted = true
        -- Waits until the idle client has been granted the lock too, or has its next node behind ours.
        loop.until_true(function()
            return try.acquired or #observer:children(try.path) > 1
        end, PATIENCE)
        look(try)
        assert(try.other:release())
        try.let_go = true
    end

    local function all(tries, name)
        for _, try in ipairs(tries) do
            if not try[name] then
                return false
            end
        end
        return true
    end

    --- Checks all locks all the time. Lets the link deliver the delayed packets when all other clients have their locks, but not
    -- before the leader has ended all sessions.
    local function watch(directory, tries, expiry)
        local resumed = false
        loop.until_true(function()
            local sessions = {}
            for _, name in ipairs(assert(observer:children(directory .. "/sessions"))) do
                sessions[directory .. "/sessions/" .. name] = true
            end
            for _, try in ipairs(tries) do
                look(try)
                try.ended = try.ended or not sessions[try.session]
            end
            if not resumed and core.now() >= expiry and all(tries, "granted") then
                link:resume()
                resumed = true
            end
            return all(tries, "let_go")
        end, PATIENCE)
    end

    --- Whether a try counts: the client acquired before the leader ended its session, or gave up the session by itself, and did not
    -- lose the lock again before its token was compared. On a busy machine a client may be late.
    local function counts(try, log)
        return try.compared and (try.in_time or not log:find(("Expiring session 0x%s,"):format(try.id), 1, true))
    end

    --- Runs one stall and returns its tries.
    local function run(directory)
        local tries = new_tries(directory)
        if not tries[1] then
            fixture.clean()
            return tries
        end
        local expiry = moment_of_expiry()
        repeat
            expiry = expiry + TICK
        until expiry - STALLED_FOR > core.now()
        socket.sleep(expiry - STALLED_FOR - core.now())
        link:stall("down")
        near:stall("ends")
        local fibers = {
            function()
                watch(directory, tries, expiry)
            end
        }
        for _, try in ipairs(tries) do
            fibers[#fibers + 1] = function()
                acquire_when_idle(try, expiry)
            end
            fibers[#fibers + 1] = function()
                acquire_elsewhere(try)
            end
        end
        loop.run_all(fibers)
        near:resume()
        fixture.clean()
        return tries
    end

    it("are not held any more when other clients get them", function()
        local count, seen, both = 0, {}, {}
        for round = 1, ROUNDS do
            local tries = run("/round-" .. round)
            local log = servers:log(leader)
            for _, try in ipairs(tries) do
                if counts(try, log) and not seen[try.number] then
                    seen[try.number], count = true, count + 1
                end
                both[#both + 1] = try.both and ("acquired %.1f s before the session ended"):format(try.number * STEP) or nil
            end
            if count >= ENOUGH then
                break
            end
        end
        assert.is_true(count >= ENOUGH, "the machine is too slow for these instants")
        assert.same({}, both, ("of %d tries"):format(count))
    end)
end)

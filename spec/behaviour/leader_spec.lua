--- Leadership: one of several candidates leads, hears of the end of its term before another one can be elected, and campaigns
-- again. Several of these promises are known from defects of Curator's LeaderLatch and LeaderSelector.

local callbacks = require "spec.support.callbacks"
local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local socket = require "socket"
local zklock = require "zklock"

after_each(fixture.clean)

--- All candidates of a spec: `{ client =, leader =, name =, terms = { { token =, elected =, lost =, at = } } }`.
local function new_candidate(name, path, options, servers)
    options = options or {}
    local candidate = { name = name, terms = {}, calls = {} }
    candidate.client = fixture.client({ wait = "blocking", session_timeout = options.session_timeout or 10, log = options.log },
        servers)
    candidate.leader = assert(candidate.client:leader(path, {
        identity = name,
        on_elected = function(token)
            candidate.terms[#candidate.terms + 1] = { token = token, elected = core.now() }
            candidate.calls[#candidate.calls + 1] = "elected"
            if options.on_elected then
                options.on_elected(candidate)
            end
        end,
        on_lost = function(reason)
            local term = candidate.terms[#candidate.terms]
            term.lost, term.reason = core.now(), reason
            candidate.calls[#candidate.calls + 1] = reason
            if options.on_lost then
                options.on_lost(candidate)
            end
        end
    }))
    return candidate
end

--- Pumps candidates until a condition holds; checks each time that at most one of them leads.
local function run_until(candidates, condition, seconds, what)
    return eventually(function()
        local leading = 0
        for _, candidate in ipairs(candidates) do
            candidate.client:pump()
            leading = leading + (candidate.leader:is_leader() and 1 or 0)
        end
        assert(leading <= 1, "two leaders at once")
        return condition()
    end, seconds, what)
end

local function run_for(candidates, seconds)
    local deadline = socket.gettime() + seconds
    run_until(candidates, function()
        return socket.gettime() >= deadline
    end, seconds + 60)
end

--- Runs until one of the candidates leads; returns it.
local function await_leader(candidates, seconds)
    local found
    run_until(candidates, function()
        for _, candidate in ipairs(candidates) do
            if candidate.leader:is_leader() and #candidate.terms > 0 and not candidate.terms[#candidate.terms].lost then
                found = candidate
            end
        end
        return found
    end, seconds, "a leader")
    return found
end

local function three(path, options)
    local list = {}
    for _, name in ipairs { "anna", "bert", "carl" } do
        list[#list + 1] = new_candidate(name, path, options)
    end
    return list
end

describe("leadership", function()
    it("is one candidate's, with a token, and every candidate can ask who it is", function()
        local path = fixture.path()
        local all = three(path)
        local leader = await_leader(all)
        assert.equal(leader.terms[1].token, leader.leader:token())
        run_for(all, 3)
        for _, candidate in ipairs(all) do
            assert.equal(candidate == leader and 1 or 0, #candidate.terms)
            assert.equal(leader.name, (candidate.leader:leader(5)))
            assert.equal(candidate == leader, candidate.leader:is_leader())
            assert.equal(candidate == leader and "zklock leader (" .. path .. ", leading)" or
                "zklock leader (" .. path .. ", campaigning)", tostring(candidate.leader))
        end
        local answers, callback = callbacks.collect()
        assert(all[1].leader:leader { timeout = 5, callback = callback })
        assert.same({}, answers)
        assert.equal(leader.name, callbacks.await(all[1].client, answers, 1)[1])
        assert.is_true(fixture.has(path, 3))
    end)

    it("is asked for no longer than the session timeout, unless the question says how long", function()
        local path, link = fixture.path(), fixture.proxy()
        local anna = new_candidate("anna", path, { session_timeout = 4 }, link.address)
        await_leader { anna }
        fixture.cut_off(anna.client, link)
        local answers, callback = callbacks.collect()
        local asked = core.now()
        assert(anna.leader:leader { callback = callback })
        local answer = callbacks.await(anna.client, answers, 1)
        assert.equal("disconnected", answer[3])
        assert.is_not_nil(answer[2]:find(path .. " did not finish within 4 s", 1, true))
        if is_virtual then
            assert.near(4, answer.at - asked, 0.01)
        end
        assert.is_true(assert(anna.leader:leader { callback = callback }):cancel())
        assert.equal("cancelled", callbacks.await(anna.client, answers, 2)[3])
    end)

    it("is nobody's when there is no candidate", function()
        local path = fixture.path()
        local all = { new_candidate("anna", path) }
        await_leader(all)
        all[1].leader:close()
        assert(all[1].client:flush(5))
        local answer, message = all[1].leader:leader(5)
        assert.is_nil(answer)
        assert.is_nil(message)
    end)

    it("passes on by resign, in the order of the queue, and tokens grow", function()
        local path = fixture.path()
        local all = three(path, { session_timeout = 30 }) -- no session ends, which would change the order
        local order, token = {}, ""
        for turn = 1, 7 do
            local leader = await_leader(all)
            run_until(all, function()
                return fixture.has(path, 3) -- otherwise the leader queues before a candidate that has not queued yet
            end, 60, "all in the queue")
            order[turn] = leader.name
            assert.is_true(leader.leader:token() > token)
            token = leader.leader:token()
            assert.is_true(leader.leader:resign())
            assert.is_false(leader.leader:is_leader())
            assert.is_false(leader.leader:resign())
        end
        for turn = 4, 7 do
            assert.equal(order[turn - 3], order[turn])
        end
        assert.not_equal(order[1], order[2])
        assert.not_equal(order[2], order[3])
        for _, candidate in ipairs(all) do
            for index, call in ipairs(candidate.calls) do
                assert.equal(index % 2 == 1 and "elected" or "resigned", call)
            end
        end
    end)

    it("is the only candidate's again after it has resigned", function()
        local all = { new_candidate("anna", fixture.path()) }
        await_leader(all)
        all[1].leader:resign()
        run_until(all, function()
            return #all[1].terms == 2
        end, 10, "the second term")
        assert.same({ "elected", "resigned", "elected" }, all[1].calls)
    end)

    it("ends before the next term begins: on_lost has returned when another candidate is elected", function()
        local all, observed
        all = { new_candidate("anna", fixture.path(), { on_lost = function(anna)
            assert.is_false(anna.leader:is_leader())
            run_for({ all[2] }, 2) -- the other candidate has all the time that it wants
            observed = #all[2].terms
        end }) }
        await_leader(all)
        all[2] = new_candidate("bert", all[1].leader._lock:path())
        run_for(all, 1)
        assert.is_true(all[1].leader:resign())
        assert.equal(0, observed)
        assert.equal("bert", await_leader(all).name)
    end)

    it("passes on when the leader is closed, for good: code closed", function()
        local all = three(fixture.path())
        local first = await_leader(all)
        first.leader:close()
        first.leader:close()
        assert.same({ "elected", "closed" }, first.calls)
        local second = await_leader(all)
        assert.not_equal(first, second)
        second.client:close()
        assert.same({ "elected", "closed" }, second.calls)
        local rest = {}
        for _, candidate in ipairs(all) do
            if candidate ~= second then
                rest[#rest + 1] = candidate
            end
        end
        local third = await_leader(rest)
        assert.is_true(third ~= first and third ~= second)
        third.leader:close()
        run_for(rest, 2)
        assert.equal(1, #first.terms)
        assert.equal("zklock leader (" .. first.leader._lock:path() .. ", closed)", tostring(first.leader))
    end)

    it("is taken away by revoke: code revoked, and the former leader is the last in the queue", function()
        local all = three(fixture.path())
        local first = await_leader(all)
        assert.equal(1, fixture.client():mutex(first.leader._lock:path()):revoke(5))
        run_until(all, function()
            return first.calls[2]
        end, 10, "the end of the term")
        assert.equal("revoked", first.calls[2])
        assert.not_equal(first, await_leader(all))
    end)

    it("is given up if a revoke came after the grant, while the program was busy and was not told of either", function()
        local path = fixture.path()
        local anna = new_candidate("anna", path)
        await_leader { anna }
        local bert = new_candidate("bert", path)
        fixture.await_children(path, 2)
        anna.leader:close()
        eventually(function() -- without a pump of bert's
            anna.client:pump()
            return bert.client:stats().grants == 1
        end)
        local asked, campaign = fixture.children(path), next(bert.client:desk().attempts)
        assert.equal(1, #asked)
        assert.equal(1, fixture.client():mutex(path):revoke(20))
        eventually(function()
            return campaign._acquisition:revocations() == 1
        end)
        assert.same({}, bert.calls)
        run_until({ bert }, function()
            return bert.leader:is_leader() and not fixture.observer():exists(path .. "/" .. asked[1])
        end, 60, "another term")
        assert.same({ "elected" }, bert.calls)
    end)

    it("ends its term when on_elected raises, and queues again after a pause that grows", function()
        local log, path = {}, fixture.path()
        local anna = new_candidate("anna", path, {
            log = function(level, message)
                log[#log + 1] = level .. ": " .. message
            end,
            on_elected = function() error("cannot begin") end,
            on_lost = function() error("cannot end") end
        })
        run_until({ anna }, function()
            return #anna.terms == 4
        end, 30, "four terms")
        for term = 1, 3 do
            assert.equal("failed", anna.terms[term].reason)
            local pause = anna.terms[term + 1].elected - anna.terms[term].lost
            assert.is_true(pause >= 2 ^ (term - 1), pause)
            if is_virtual then
                assert.near(2 ^ (term - 1), pause, 0.2)
            end
        end
        local text = table.concat(log, "\n")
        assert.truthy(text:find("error: the leader /[^ ]+: the callback on_elected raised: [^\n]*cannot begin"), text)
        assert.truthy(text:find("error: the leader /[^ ]+: the callback on_lost raised: [^\n]*cannot end"), text)
        local bert = new_candidate("bert", path)
        run_until({ anna, bert }, function()
            return bert.leader:is_leader()
        end, 60, "the next candidate")
        local terms = #anna.terms
        run_for({ anna, bert }, 20)
        assert.equal(terms, #anna.terms)
        assert.is_true(bert.leader:is_leader())
    end)

    it("gives the mutex back, and queues again, after an error in its own code, as a term begins or ends", function()
        local path, calls, log, failing = fixture.path(), {}, {}, true
        local client = fixture.client { wait = setmetatable({ guard = function()
            if failing then
                error "no memory"
            end
            return function() end
        end }, { __index = require "zklock.adapters.blocking" }), log = function(_, message)
            log[#log + 1] = message
        end }
        local leader = assert(client:leader(path, {
            on_elected = function() calls[#calls + 1] = "elected" end,
            on_lost = function(reason) calls[#calls + 1] = reason end
        }))
        local function await(terms)
            eventually(function()
                client:pump()
                return #calls == terms and leader:is_leader()
            end)
        end
        local function await_report()
            local count = #log
            eventually(function()
                client:pump()
                return #log > count
            end)
            assert.truthy(log[#log]:find("the leader " .. path .. ": the candidate was interrupted: ", 1, true), log[#log])
            fixture.await_children(path, 0)
            assert.is_false(leader:is_leader())
            failing = false
        end
        await_report()
        assert.same({}, calls)
        await(1)
        failing = true
        assert.is_true(leader:resign())
        await_report()
        await(2)
        leader:close()
        fixture.await_children(path, 0)
        assert.same({ "elected", "elected", "closed" }, calls)
    end)

    local if_closes = coroutine.close and it or pending

    if_closes("ends its term when the coroutine of on_elected is closed", function()
        local thread, calls = nil, {}
        local client = fixture.client { wait = setmetatable({ spawn = function(fn)
            thread = coroutine.create(fn)
            assert(coroutine.resume(thread))
        end }, { __index = require "zklock.adapters.blocking" }), log = function() end }
        local leader = assert(client:leader(fixture.path(), {
            on_elected = function()
                calls[#calls + 1] = "elected"
                coroutine.yield()
            end,
            on_lost = function(reason) calls[#calls + 1] = reason end
        }))
        callbacks.run(client, function() return calls[1] end)
        assert(coroutine.close(thread))
        assert.is_false(leader:is_leader())
        assert.same({ "elected", "failed" }, calls)
        callbacks.run(client, function() return calls[3] end)
        assert.is_true(leader:is_leader())
    end)

    it("pauses no longer after close, so that the pause keeps no loop alive", function()
        local has_calls, ends
        local client = fixture.client { wait = setmetatable({ calls = function(_, has)
            has_calls = has
        end }, { __index = require "zklock.adapters.blocking" }), log = function() end }
        local leader = assert(client:leader(fixture.path(), {
            on_elected = function() error("cannot begin") end,
            on_lost = function(reason) ends = reason end
        }))
        callbacks.run(client, function()
            return ends
        end)
        assert.equal("failed", ends)
        assert.is_true(has_calls)
        leader:close()
        client:pump()
        assert.is_false(has_calls)
        leader:close()
        assert.equal("failed", ends)
    end)

    it("says so when its campaign cannot be begun, and tries again", function()
        local log = {}
        local anna = new_candidate("anna", fixture.path(), { log = function(level, message)
            log[#log + 1] = level .. ": " .. message
        end })
        await_leader { anna }
        local lock, refusals = anna.leader._lock, 0
        function lock.acquire(...)
            refusals = refusals + 1
            if refusals == 1 then
                return nil, "out of memory", "failed"
            end
            lock.acquire = nil
            return lock:acquire(select(2, ...))
        end
        assert.is_true(anna.leader:resign())
        run_until({ anna }, function()
            return #anna.terms == 2
        end, 10, "another term")
        assert.truthy(table.concat(log, "\n"):find("error: the leader /[^ ]+: the campaign failed: out of memory"))
    end)

    it("answers closed on a closed client, and refuses wrong arguments", function()
        local client = fixture.client()
        for _, wrong in ipairs { { "x" }, { "/x", { on_elected = 1 } }, { "/x", { on_gone = print } }, { "/x", 7 } } do
            local ok, problem = pcall(client.leader, client, wrong[1], wrong[2])
            assert.is_false(ok)
            assert.truthy(problem:find("client:leader: ", 1, true), problem)
        end
        client:close()
        assert.equal("closed", select(3, client:leader("/x")))
    end)

    it("needs no reference of the program: the candidate campaigns until it is closed", function()
        local path, elected = fixture.path(), 0
        local client = fixture.client { wait = "blocking" }
        assert(client:leader(path, { on_elected = function() elected = elected + 1 end }))
        collectgarbage()
        fixture.pump_until(client, function()
            return elected == 1
        end)
        collectgarbage()
        collectgarbage()
        assert(client:flush(5))
        assert.is_true(fixture.has(path, 1))
    end)
end)

describe("leadership, where other implementations have failed:", function()
    -- CURATOR-54: the leader's thread could not be interrupted if the connection was lost just when it had been elected.
    it("a term that is lost while on_elected begins is reported to it", function()
        local path, seen = fixture.path(), nil
        local all = { new_candidate("anna", path, { on_elected = function(anna)
            if #anna.terms == 1 then
                assert(fixture.observer():delete(anna.leader._held:node()))
                run_for({ anna }, 15)
                seen = { anna.leader:is_leader(), anna.terms[1].reason }
            end
        end }) }
        run_until(all, function()
            return #all[1].terms == 2
        end, 60, "the second term")
        assert.same({ false, "lost" }, seen)
    end)

    -- CURATOR-16, 73, 104: after an expired session, or a lost connection, candidates did not queue again, and nobody led.
    it("after the end of its session a candidate, leading or not, campaigns again", function()
        local path = fixture.path()
        local link = fixture.proxy()
        local all = { new_candidate("anna", path, { session_timeout = 4 }, link.address) }
        await_leader(all)
        link:stall()
        run_until(all, function()
            return all[1].calls[2]
        end, 60, "the end of the term")
        run_for(all, 10)
        link:resume()
        assert.equal("anna", await_leader(all, 60).name)
        assert.same({ "elected", "lost", "elected" }, all[1].calls)
        all[2] = new_candidate("bert", path)
        run_for(all, 1)
        fixture.kill_owner(fixture.other_child(path, all[1].leader._held:node()))
        run_for(all, 2)
        all[1].leader:close()
        assert.equal("bert", await_leader(all, 60).name)
    end)

    -- CURATOR-202: the node of a leader that gave up without a connection stayed when the session went on, and nobody led.
    it("a leader that resigns without a connection leaves no node when the connection is back", function()
        local path = fixture.path()
        local link = fixture.proxy()
        local anna = new_candidate("anna", path, { session_timeout = 30 }, link.address)
        await_leader { anna }
        local all = { anna, new_candidate("bert", path) }
        run_for(all, 1)
        fixture.cut_off(anna.client, link)
        assert.is_true(anna.leader:resign())
        run_for(all, 2)
        link:accept()
        assert.equal("bert", await_leader(all, 60).name)
        run_for(all, 2)
        assert.is_true(fixture.has(path, 2))
    end)

    -- CURATOR-504, 620, 644, 696: after a reconnect the client trusted its old node, which the servers then deleted: two leaders.
    it("a leader whose session has ended does not lead by its old node, whatever it sees when it reconnects", function()
        local path = fixture.path()
        local link = fixture.proxy()
        local anna = new_candidate("anna", path, { session_timeout = 4 }, link.address)
        await_leader { anna }
        local bert = new_candidate("bert", path)
        local all = { anna, bert }
        run_for(all, 1)
        fixture.cut_off(anna.client, link)
        assert.equal("bert", await_leader({ bert }, 60).name) -- anna does not run meanwhile, and knows by its lease
        assert.is_false(anna.leader:is_leader())
        link:accept()
        run_until(all, function()
            return anna.calls[2]
        end, 60, "anna's news")
        assert.equal("lost", anna.calls[2])
        run_for(all, 10)
        assert.equal(1, #anna.terms)
        assert.is_true(bert.leader:is_leader())
        assert.is_true(fixture.has(path, 2))
    end)

    -- CURATOR-3: a candidate that was closed while it looked at the queue made another node, which stayed.
    it("a candidate that is closed while it campaigns, at any instant, leaves no node", function()
        local path = fixture.path()
        local rival = new_candidate("rival", path)
        await_leader { rival }
        for turns = 0, 12 do
            local candidate = new_candidate("anna", path)
            for _ = 1, turns do
                core.poll(candidate.client:pollfd(), 0.0002)
                candidate.client:pump()
            end
            candidate.leader:close()
            assert(candidate.client:flush(10))
            candidate.client:pump()
            assert(candidate.client:flush(10))
            assert.is_true(fixture.has(path, 1))
            assert.same({}, candidate.calls)
        end
    end)

    -- CURATOR-518: a second interruption cancelled the next campaign, and the candidate never led again.
    it("resigning twice, also from within on_lost and on_elected, does not end the candidacy", function()
        local all = { new_candidate("anna", fixture.path(), {
            on_lost = function(anna)
                assert.is_false(anna.leader:resign())
            end,
            on_elected = function(anna)
                if #anna.terms < 5 then
                    assert.is_true(anna.leader:resign())
                    assert.is_false(anna.leader:resign())
                end
            end
        }) }
        run_until(all, function()
            return #all[1].terms == 5
        end, 30, "five terms")
        run_for(all, 2)
        assert.is_true(all[1].leader:is_leader())
        assert.equal(5, #all[1].terms)
    end)

    -- CURATOR-15: if the lock could not be acquired, the candidate stopped campaigning, and nobody could see that.
    it("a campaign that the servers refuse is reported, and repeated", function()
        local path, reports = fixture.path(), 0
        local owner = fixture.client { auth = { { scheme = "digest", credential = "owner:secret" } } }
        assert(owner:create(path, "", { acl = "read" }))
        local all = { new_candidate("anna", path, { log = function(level, message)
            reports = reports + (level == "error" and message:find("^the leader /[^ ]+: the campaign failed: ") and 1 or 0)
        end }) }
        run_until(all, function()
            return reports == 3
        end, 30, "three reports")
        assert.same({}, all[1].calls)
        assert(owner:delete(path))
        assert.equal("anna", await_leader(all, 30).name)
        assert.is_true(reports <= 4)
    end)

    -- CURATOR-724: candidates did not come back when the election's directory had been removed.
    it("the directory may be removed with all its nodes: the candidates make it again", function()
        local path = fixture.path()
        local all = three(path)
        local first = await_leader(all)
        for _, name in ipairs(fixture.children(path)) do
            fixture.observer():delete(path .. "/" .. name)
        end
        -- A candidate notices at its next heartbeat that its node was deleted. Until then the servers may elect another one.
        local deadline = socket.gettime() + 10
        eventually(function()
            for _, candidate in ipairs(all) do
                candidate.client:pump()
            end
            return socket.gettime() > deadline and first.calls[2]
        end, 60, "the loss")
        assert.equal("lost", first.calls[2])
        await_leader(all, 30)
        run_for(all, 2)
        assert.is_true(fixture.has(path, 3))
    end)

    -- A leader that still works when it is elected again works twice at once.
    it("the next term of a candidate does not begin before on_elected of its last term has returned", function()
        local inside, most, path = 0, 0, fixture.path()
        local all = { new_candidate("anna", path, { on_elected = function(anna)
            inside = inside + 1
            most = math.max(most, inside)
            if #anna.terms < 3 then
                anna.leader:resign()
                run_for({ anna }, 3) -- goes on for a while, as if it had not noticed
            end
            inside = inside - 1
        end }) }
        run_until(all, function()
            return #all[1].terms == 3
        end, 60, "three terms")
        assert.equal(1, most)
    end)

    it("zklock.connect's other locks on the same path exclude the leader, as a mutex", function()
        local path = fixture.path()
        local all = { new_candidate("anna", path) }
        await_leader(all)
        local client = assert(zklock.connect(fixture.servers(), { wait = "blocking" }))
        assert.equal("timeout", select(3, client:mutex(path):try_acquire()))
        client:close()
    end)

    it("waits in the lock group leader, or in another one of its choice", function()
        local client, path = fixture.client(), fixture.path()
        assert(client:leader(path))
        assert(client:leader(path, { metrics = "billing" }))
        eventually(function()
            client:pump()
            return client:group_stats().leader.held == 1
        end)
        local groups = client:group_stats()
        assert.same({ 0, 1 }, { groups.leader.waiting, groups.billing.waiting })
        assert.is_nil(groups.default)
    end)
end)

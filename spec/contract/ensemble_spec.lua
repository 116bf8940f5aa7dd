--- Locks of every kind while servers of an ensemble fail: the leader is killed, the majority is gone for a while, or all servers
-- are replaced by empty servers behind the same names.

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"

describe("with an ensemble of three servers, a holder and a waiter of every kind #once", function()
    --- The session timeout, in seconds, in specs where sessions end. Locks are lost after half of it, which must be enough time to
    -- begin.
    local SESSION = 20
    --- The same where holders keep their locks while servers start and elect a leader, however long that takes.
    local LONG = 300
    --- A spec that hangs is ended after so many seconds; in one spec the servers start twice.
    local LIMIT = 300
    local servers
    local round = 0

    setup(function()
        servers = cluster.start({ servers = 3, options = { maxSessionTimeout = 1000 * LONG, syncLimit = 40 } })
    end)

    --- If a spec fails, the next spec must find the servers as usual.
    after_each(function()
        fixture.clean()
        for number = 1, 3 do
            if not servers:mode(number) then
                servers:restart(number)
            end
        end
    end)

    teardown(function()
        servers:stop()
    end)

    --- Makes a holder and a waiter of each kind, each in a separate client. When all wait, `act(pairs)` runs in a coroutine and
    -- returns whether holders still hold; these are then released. After that each waiter must get its lock, and never while the
    -- holder holds it. Returns the pairs: the reasons that on_lost received, and the tokens.
    local function contend(session_timeout, act)
        round = round + 1
        local all, functions, decided = {}, {}, false
        for index, kind in ipairs(kinds) do
            local path = ("/ensemble-%d/%s"):format(round, kind.name)
            local pair = { name = kind.name, told = {} }
            pair.clients = {
                fixture.client({ wait = loop, session_timeout = session_timeout }, servers.servers),
                fixture.client({ wait = loop, session_timeout = session_timeout }, servers.servers)
            }
            pair.holder = kind.new(pair.clients[1], path, { on_lost = function(_, reason)
                pair.told[#pair.told + 1] = reason
            end })
            pair.waiter = kind.rival(pair.clients[2], path)
            pair.holder = assert(pair.holder:acquire(20))
            pair.token = pair.holder:token()
            all[index] = pair
            functions[2 * index - 1] = function()
                pair.next = assert(pair.waiter:acquire(LIMIT))
                assert.is_false(pair.holder:held())
                pair.next_token = pair.next:token()
                assert.is_true(pair.next:held())
                assert(pair.next:release())
                pair.done = true
            end
            functions[2 * index] = function()
                loop.until_true(function()
                    pair.clients[1]:pump()
                    assert.is_false(pair.holder:held() and pair.next ~= nil and pair.next:held())
                    return decided
                end, LIMIT)
                pair.survived = pair.holder:held()
                local released, message, code = pair.holder:release()
                assert(released or code == "lost", message)
            end
        end
        functions[#functions + 1] = function()
            loop.until_true(function()
                for _, pair in ipairs(all) do
                    if pair.clients[2]:stats().watches == 0 then
                        return false
                    end
                end
                return true
            end)
            act(all)
            decided = true
        end
        loop.run_all(functions, LIMIT)
        for _, pair in ipairs(all) do
            assert.is_true(pair.done)
            assert.is_true(#pair.told == (pair.survived and 0 or 1), pair.name)
        end
        return all
    end

    local function survived(all)
        for _, pair in ipairs(all) do
            assert.is_true(pair.survived, pair.name)
            assert.is_true(pair.next_token > pair.token, pair.name)
            for _, client in ipairs(pair.clients) do
                assert.equal(1, client:stats().sessions)
            end
        end
    end

    it("keep their locks when the leader is killed and another is elected", function()
        survived(contend(LONG, function(all)
            servers:kill(servers:leader())
            servers:wait()
            for _, pair in ipairs(all) do
                loop.until_true(function()
                    return pair.clients[1]:state() == "connected" and pair.clients[2]:state() == "connected"
                end)
                assert.is_true(pair.holder:held())
                assert.is_nil(pair.next)
            end
        end))
    end)

    it("keep their locks when the majority is gone for less than the session timeout", function()
        survived(contend(LONG, function(all)
            local leader = servers:leader()
            servers:kill(leader)
            servers:kill(leader % 3 + 1)
            for _, pair in ipairs(all) do
                assert.is_true(pair.holder:held())
            end
            servers:restart("all")
            for _, pair in ipairs(all) do
                assert.is_nil(pair.next)
            end
        end))
    end)

    it("are notified when it is gone for longer: no lock is held meanwhile, and the waiters are granted afterwards", function()
        local all = contend(SESSION, function(all)
            local leader = servers:leader()
            servers:kill(leader)
            servers:kill(leader % 3 + 1)
            for _, pair in ipairs(all) do
                loop.until_true(function()
                    return pair.told[1] and not pair.holder:held()
                end)
            end
            -- This takes longer than the session timeout; no lock may be granted meanwhile.
            local beginning = os.time()
            loop.until_true(function()
                for _, pair in ipairs(all) do
                    assert.is_false(pair.holder:held() or pair.next ~= nil)
                end
                return os.time() - beginning > SESSION + 1
            end)
            servers:restart("all")
        end)
        for _, pair in ipairs(all) do
            assert.same({ "lost" }, pair.told)
            assert.is_true(pair.next_token > pair.token, pair.name)
        end
    end)

    -- This spec is the last one: the servers begin anew, with their transaction numbers and tokens. No promise holds across that.
    it("are notified when all servers were replaced by empty ones, and the waiters queue anew and are granted", function()
        local all = contend(SESSION, function(all)
            servers:kill("all")
            assert(os.execute(("rm -rf %s/[123]/data/version-2"):format(cluster.quote(servers.directory))))
            servers:restart("all")
            for _, pair in ipairs(all) do
                loop.until_true(function()
                    return pair.told[1]
                end)
            end
        end)
        for _, pair in ipairs(all) do
            assert.same({ "lost" }, pair.told)
            assert.equal(2, pair.clients[2]:stats().sessions)
        end
    end)
end)

--- What locks of every kind promise when servers of an ensemble fail: the leader dies, the majority is gone for a while, or
-- all servers are replaced by empty ones behind the same names.

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"

describe("with an ensemble of three servers, a holder and a waiter of every kind #once", function()
    --- Seconds after which a session is over, where it is to be; its locks are lost after half of that, which must be time
    -- enough to begin.
    local SESSION = 10
    --- Seconds after which a spec that hangs is ended: servers start twice in one.
    local LIMIT = 300
    local servers
    local round = 0

    setup(function()
        servers = cluster.start({ servers = 3 })
    end)

    --- A spec that fails leaves to the next one what it would find otherwise.
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

    --- For each kind a holder and one that waits for it, each of a client of its own. When all wait, `act(pairs)` is run in a
    -- coroutine; what it returns is whether holders still hold, who are then released. Whoever waits must get its lock after
    -- that, and never while the holder has it. Returns the pairs: what each was told, and its tokens.
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
            assert(pair.holder:acquire(20))
            pair.token = pair.holder:token()
            all[index] = pair
            functions[2 * index - 1] = function()
                assert(pair.waiter:acquire(LIMIT))
                assert.is_false(pair.holder:held())
                pair.next_token = pair.waiter:token()
                assert.is_true(pair.waiter:held())
                assert(pair.waiter:release())
                pair.done = true
            end
            functions[2 * index] = function()
                loop.until_true(function()
                    pair.clients[1]:pump()
                    assert.is_false(pair.holder:held() and pair.waiter:held())
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

    it("go on when the leader is killed and another elected", function()
        survived(contend(60, function(all)
            servers:kill(servers:leader())
            servers:wait()
            for _, pair in ipairs(all) do
                loop.until_true(function()
                    return pair.clients[1]:state() == "connected" and pair.clients[2]:state() == "connected"
                end)
                assert.is_true(pair.holder:held())
                assert.is_false(pair.waiter:held())
            end
        end))
    end)

    it("go on when the majority is gone for less than the session timeout", function()
        survived(contend(60, function(all)
            local leader = servers:leader()
            servers:kill(leader)
            servers:kill(leader % 3 + 1)
            for _, pair in ipairs(all) do
                assert.is_true(pair.holder:held())
            end
            servers:restart("all")
            for _, pair in ipairs(all) do
                assert.is_false(pair.waiter:held())
            end
        end))
    end)

    it("are told when it is gone for longer: nobody holds meanwhile, and then those who waited get their turn", function()
        local all = contend(SESSION, function(all)
            local leader = servers:leader()
            servers:kill(leader)
            servers:kill(leader % 3 + 1)
            for _, pair in ipairs(all) do
                loop.until_true(function()
                    return pair.told[1] and not pair.holder:held()
                end)
            end
            -- Longer than the session timeout, during which nobody may get in.
            local beginning = os.time()
            loop.until_true(function()
                for _, pair in ipairs(all) do
                    assert.is_false(pair.holder:held() or pair.waiter:held())
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

    -- Last of all: the servers begin anew. Their transaction numbers do, too, and so tokens: no promise holds across that.
    it("are told when all servers were replaced by empty ones, and those who waited queue anew and get it", function()
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

--- The statements of docs/security.md about access control lists: what clients without rights can do, and what they cannot do.

local cluster = require "spec.support.cluster"
local credentials = require "spec.support.credentials"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local zk = require "spec.support.zk"

local SECRET, digest = credentials.SECRET, credentials.digest
local assert_refused, closed_directory, trusted = credentials.assert_refused, credentials.closed_directory, credentials.trusted

local STRANGERS = {
    { "without credentials", {} },
    { "with a wrong password", { auth = digest("fleet:open-sesame"), acl = "creator" } },
    { "with another name and the right password", { auth = digest("guest:" .. SECRET), acl = "creator" } }
}

for _, kind in ipairs(kinds) do
    describe("a " .. kind.name .. " under an acl of creator", function()
        after_each(fixture.clean)

        for _, stranger in ipairs(STRANGERS) do
            it("cannot be acquired, deleted, listed or revoked by a client " .. stranger[1], function()
                local base = closed_directory()
                local path = base .. "/lock"
                local client = fixture.client(stranger[2])
                local owner = kind.new(trusted(), path)
                assert(owner:acquire(10))
                for _, other in ipairs({ kind.new(client, path), kind.rival(client, path), kind.new(client, base .. "/other") }) do
                    assert_refused(other:acquire(10))
                    assert_refused(other:try_acquire())
                end
                local lock = kind.new(client, path)
                assert_refused(lock:contenders(10))
                assert_refused(lock:revoke(10))
                for _, node in ipairs({ owner:node(), kinds.holders(kind, path), path }) do
                    assert_refused(client:get(node))
                    assert_refused(client:set(node, "0"))
                    assert_refused(client:children(node))
                    assert_refused(client:create(node .. "/x", "", { acl = "open" }))
                    assert_refused(client:delete(node))
                end
                assert_refused(client:transaction():delete(owner:node()):commit(10))
                assert.is_true(owner:held())
                fixture.assert_nothing_left(client)
                assert.is_true(owner:release())
                assert_refused(kind.new(client, path):acquire(10))
            end)
        end

        it("can be waited for, listed, revoked and acquired next by a client with the same credential", function()
            local path = closed_directory() .. "/lock"
            local asked = 0
            local owner = kind.new(trusted(), path, { identity = "owner", on_revoke = function()
                asked = asked + 1
            end })
            local held = assert(owner:acquire(10))
            local next_one = kind.rival(trusted(), path)
            assert.equal("timeout", select(3, next_one:try_acquire()))
            assert.equal("owner", next_one:contenders(10)[1].identity)
            assert.equal(1, next_one:revoke(10))
            loop.run(function()
                loop.until_true(function()
                    owner._client:pump()
                    return asked == 1
                end)
                assert(held:release())
            end, function()
                assert(next_one:acquire(20))
                assert.is_true(next_one:release())
            end)
        end)
    end)
end

describe("an acl", function()
    after_each(fixture.clean)

    it("on a directory that another client made first does not help: write access to the parent decides", function()
        local path = fixture.path() -- the parent directory is open
        local squatter = fixture.client({ auth = digest("guest:x"), acl = "creator" })
        assert(squatter:create(path, "", { acl = "creator" }))
        assert_refused(trusted():mutex(path):acquire(10))
    end)

    it("hides names and data, but the existence of a node and the number of its children only since 3.8.4 and 3.9.2", function()
        local path = closed_directory() .. "/lock"
        local owner = trusted():mutex(path)
        assert(owner:acquire(10))
        local stat, _, code = fixture.client():exists(path, { timeout = 10 })
        if cluster.shared():has "exists_needs_read" then
            assert.same({ nil, "no_auth" }, { stat, code })
        else
            assert.equal(1, stat.num_children)
        end
        assert.equal("no_auth", select(2, fixture.observer():children(path)))
    end)
end)

describe("a session", function()
    after_each(fixture.clean)

    --- Returns the number that is `steps` above a number of 16 hexadecimal digits, if only the last seven digits change.
    local function number_after(number, steps)
        return number:sub(1, 9) .. ("%07x"):format(tonumber(number:sub(10), 16) + steps)
    end

    --- ZooKeeper derives a session's password from its number, and gives consecutive numbers.
    it("can be ended by any client that may connect, even without rights: its holder loses, and its locks pass on", function()
        local path = closed_directory() .. "/lock"
        local stranger = assert(zk.connect(fixture.servers()))
        local told
        local holder = trusted({ session_timeout = 4 }):mutex(path, { on_lost = function(_, reason)
            told = reason
        end })
        assert(holder:acquire(10))
        local node, token = holder:node(), holder:token()
        eventually(function()
            for steps = 1, 4 do
                zk.kill_session(fixture.servers(), number_after(stranger.session_id, steps))
            end
            return not stranger:exists(node)
        end)
        stranger:close()
        local next_one = trusted():mutex(path)
        assert(next_one:acquire(20))
        assert.is_true(next_one:token() > token)
        fixture.pump_until(holder._client, function()
            return told
        end)
        assert.equal("lost", told)
        assert.is_false(holder:held())
    end)
end)

--- Group membership: members see each other as long as their sessions live, and join again.

local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"

after_each(fixture.clean)

local function data_of(group)
    local list = {}
    for index, member in ipairs(assert(group:members(20))) do
        list[index] = member.data
    end
    return list
end

local function group_of(path, options)
    local client, link = fixture.client_behind_proxy { wait = loop, session_timeout = 10 }
    return assert(client:group(path, options)), client, link
end

describe("a group", function()
    it("has the members that have joined and not left, in their order, with their data #asan", function()
        local path = fixture.path()
        local one, two = group_of(path), group_of(path)
        assert.same({}, data_of(one))
        assert.is_true(one:join("10.0.0.1:80", 20))
        assert.is_true(two:join(nil, 20))
        local own = data_of(two)[2]
        assert.same({ "10.0.0.1:80", own }, data_of(two))
        assert.truthy(own:find ":%d+$") -- the client's identity
        assert.is_true(one:is_member() and two:is_member())
        assert.is_true(one:leave())
        assert.is_false(one:leave())
        assert.is_false(one:is_member())
        fixture.await_children(path, 1)
        assert.same({ own }, data_of(one))
        assert.equal(fixture.children(path)[1], assert(one:members(20))[1].node:match "[^/]*$")
    end)

    it("has several members of one client, also with the same data", function()
        local path = fixture.path()
        local one, client = group_of(path)
        local two = client:group(path)
        assert.is_true(one:join("same", 20) and two:join("same", 20))
        assert.same({ "same", "same" }, data_of(one))
        two:close()
        fixture.await_children(path, 1)
        assert.is_true(one:is_member())
    end)

    it("shows the new data of a member that joins again", function()
        local path = fixture.path()
        local one = group_of(path)
        assert.is_true(one:join("old", 20))
        assert.is_true(one:join("new", 20))
        fixture.await_children(path, 1)
        assert.same({ "new" }, data_of(one))
    end)

    it("has nobody as a member who leaves before the join is over", function()
        local path = fixture.path()
        local one, _, link = group_of(path)
        assert(one:members(20))
        link:stall "down"
        local joined, code
        loop.run(function()
            local _
            joined, _, code = one:join("late", 20)
        end, function()
            one:close()
            link:resume()
        end)
        assert.same({ nil, "cancelled" }, { joined, code })
        assert.is_false(one:is_member())
        fixture.await_children(path, 0)
    end)

    it("gets a member back whose session has ended", function()
        local path = fixture.path()
        local one, client, link = group_of(path)
        assert.is_true(one:join("web1", 20))
        fixture.kill_owner_behind(link, assert(one:members(20))[1].node)
        fixture.pump_until(client, function()
            return client:stats().sessions == 2 and one:is_member()
        end)
        assert.same({ "web1" }, data_of(one))
        assert.is_true(one:leave())
        fixture.await_children(path, 0)
    end)

    it("does not get a member back that has left meanwhile", function()
        local path = fixture.path()
        local one, client, link = group_of(path)
        assert.is_true(one:join("web1", 20))
        local node = assert(one:members(20))[1].node
        link:refuse()
        link:cut()
        one:leave()
        link:accept()
        fixture.await_children(path, 0)
        assert(client:flush(20))
        assert.is_nil((fixture.observer():exists(node)))
        assert.same({}, data_of(one))
    end)

    it("tells of each change: who comes, who goes, also before there is a member and after a new session", function()
        local path = fixture.path()
        local told = 0
        local watching, client, link = group_of(path, { on_change = function(group)
            told = told + 1
            assert.equal("zklock group", tostring(group):sub(1, 12))
        end })
        local function await(what)
            local before = told
            what()
            fixture.pump_until(client, function()
                return told > before
            end)
        end
        assert(client:flush(20))
        local one = group_of(path)
        fixture.pump_until(client, function() return client:stats().watches == 1 end)
        await(function() assert.is_true(one:join("a", 20)) end)
        assert.same({ "a" }, data_of(watching))
        local two = group_of(path)
        await(function() assert.is_true(two:join("b", 20)) end)
        await(function() one:leave() end)
        await(function()
            assert.is_true(watching:join("c", 20))
        end)
        await(function()
            fixture.kill_owner_behind(link, assert(watching:members(20))[2].node)
        end)
        watching:close()
        fixture.await_children(path, 1)
        assert.same({ "b" }, data_of(two))
    end)

    --- Makes the next call of a method fail.
    local function fail_once(object, method)
        object[method] = function()
            object[method] = nil
            return nil, "out of memory", "failed"
        end
    end

    it("goes on after a pause when what it does in the background cannot be begun, and says so", function()
        local path, told, log = fixture.path(), 0, {}
        local client, link = fixture.client_behind_proxy { wait = loop, session_timeout = 10, log = function(level, message)
            log[#log + 1] = level == "error" and message or nil
        end }
        local group = assert(client:group(path, { on_change = function() told = told + 1 end }))
        local other = group_of(path)
        local function await(text, count, what)
            local before = told
            what()
            fixture.pump_until(client, function()
                return told > before and #log == count
            end)
            assert.equal(("the group %s: %s: out of memory"):format(path, text), log[count])
        end
        fail_once(client, "exists")
        await("its changes cannot be followed now", 1, function()
            fixture.pump_until(client, function() return #log == 1 end)
            assert.is_true(other:join("a", 20))
        end)
        fail_once(client, "children")
        await("its changes cannot be followed now", 2, function() other:leave() end)
        assert.is_true(group:join("b", 20))
        fail_once(group._lock, "acquire")
        await("could not join again", 3, function()
            fixture.kill_owner_behind(link, assert(group:members(20))[1].node)
            fixture.pump_until(client, function() return #log == 3 and group:is_member() end)
        end)
        group:close()
        fixture.await_children(path, 0)
    end)

    it("refuses what cannot be right", function()
        local client = fixture.client()
        mistake(function() client:group("a") end, "client:group: ")
        mistake(function() client:group("/a", { data = "x" }) end, "unknown option 'data'")
        for _, data in ipairs { "", ("x"):rep(1025), "a\0" } do
            mistake(function() client:group("/a"):join(data) end, "group:join: data must be a string of 1 to 1024 bytes")
        end
        mistake(function() client:group("/a"):join("x", -1) end, "group:join: timeout must be")
        mistake(function() client:group("/a").leave() end, "group:leave: call it with a colon")
    end)
end)

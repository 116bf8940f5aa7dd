-- Group membership: the members of a path see each other, with the data that each has joined with. Here three processes join, and
-- one is killed: it is a member until its session timeout (4 seconds here) is over. The main process is no member. It is told of
-- each change, and asks who is there.
--
-- The list is as of a moment ago. What only one may do needs a lock, or a leader (leader.lua).
--
--   lua examples/group.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local core = require "zklock.core"
local zklock = require "zklock"

local function member(name, path)
    local client = assert(zklock.connect(common.servers, { session_timeout = 4 }))
    local group = assert(client:group(path))
    assert(group:join(name, 20))
    while client:state() ~= "closed" do -- a plain program; in an event loop, the loop pumps
        core.poll(client:pollfd(), 1)
        client:pump()
    end
end

if arg[2] then
    return member(arg[2], arg[3])
end

common.main(function()
    local path = common.fresh_path("group")
    local client = assert(zklock.connect(common.servers))
    local changed = true
    local group = assert(client:group(path, { on_change = function()
        changed = true
    end }))

    -- Waits until there are so many members, and prints them.
    local function await(count)
        local names = {}
        while #names ~= count do
            if not changed then
                core.poll(client:pollfd(), 1)
                client:pump()
            else
                changed, names = false, {}
                for index, one in ipairs(assert(group:members(20))) do
                    names[index] = one.data
                end
            end
        end
        table.sort(names)
        print("members: " .. table.concat(names, " "))
    end

    local members = common.start { { "anna", path }, { "bert", path }, { "carl", path } }
    await(3)
    members:signal(2, "KILL")
    print("bert is killed")
    await(2)
    group:close()
    members:signal(1, "KILL")
    members:signal(3, "KILL")
end)

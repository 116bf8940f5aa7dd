-- A read/write lock written by hand, in both forms of recipes/rwlock.lua: every waiter watches the directory, or only the node
-- that blocks it. Readers are inside together, a writer alone. Counts the notifications of both forms, as herd.lua does for the
-- mutex. Every fifth contender is a writer.
--
--   lua examples/rwlock_by_hand.lua HOST:PORT [CONTENDERS…]

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local count = require "recipes.count"
local rwlock = require "recipes.rwlock"
local zklock = require "zklock"

local clients = {}

-- Returns the notifications until all contenders have been inside, and how many readers were inside together at most.
local function measure(contenders, form)
    count.connect(zklock, common.servers, clients, contenders)
    local path = common.fresh_path("rwlock-by-hand")
    common.make_path(clients[1], path)
    local turns, together = {}, 0
    for index = 1, contenders do
        turns[index] = rwlock.join(clients[index], path, index % 5 == 1 and "write" or "read", form)
    end
    local total = count.all(turns, function(inside)
        for _, turn in ipairs(inside) do
            assert(turn.mode == "read" or #inside == 1) -- a writer is alone
        end
        together = math.max(together, #inside)
    end)
    return total, together
end

common.main(function()
    local row = "%12s %16s %18s %18s"
    print(row:format("contenders", "together inside", "directory watched", "one node watched"))
    for _, contenders in ipairs(common.numbers { 10, 50, 200 }) do
        local herd, herd_together = measure(contenders, "parent")
        local good, good_together = measure(contenders, "nearest")
        print(row:format(contenders, good_together, herd, good))
        assert(herd_together == 4 and good_together == 4) -- the four readers between two writers
        assert(good == contenders - 1) -- all but the first are woken, once each
        assert(herd > 2 * good)
    end
end)

-- Transfers between accounts. Each account has its lock, a transfer needs two of them, and transfers go in both
-- directions at once: taken one after the other, as they come, two of them would wait for each other for ever.
-- client:multi takes several locks in an order of its own, the same for everybody; all of them or none.
--
--   lua examples/bank.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local zklock = require "zklock"

local ACCOUNTS, START, CLERKS, TRANSFERS = { "anna", "bert", "carl" }, 100, 4, 15

local function balance(client, path, account)
    local data = assert(client:get(path .. "/" .. account))
    return tonumber(data)
end

-- Reads, thinks, writes: four requests, in the middle of which nobody else must touch one of the two accounts.
local function transfer(client, path, from, to, amount)
    local a, b = balance(client, path, from), balance(client, path, to)
    assert(client:set(path .. "/" .. from, tostring(a - amount)))
    assert(client:set(path .. "/" .. to, tostring(b + amount)))
end

local function clerk(name, path)
    local client = assert(zklock.connect(common.servers))
    local locks = {}
    for index, account in ipairs(ACCOUNTS) do
        locks[index] = client:mutex(zklock.path(path .. "/locks", account))
    end
    local index = tonumber(name:match("%d+$"))
    for turn = 1, TRANSFERS do
        -- Odd clerks pay from anna to bert, from bert to carl, from carl to anna; even clerks the other way round.
        local from = turn % #ACCOUNTS + 1
        local to = (turn + (index % 2 == 1 and 1 or 2)) % #ACCOUNTS + 1
        local both = client:multi { locks[from], locks[to] }
        assert(both:with_lock(function()
            transfer(client, path, ACCOUNTS[from], ACCOUNTS[to], turn)
        end, 60))
    end
    print(("%s has made %d transfers"):format(name, TRANSFERS))
end

if arg[2] then
    return clerk(arg[2], arg[3])
end

common.main(function()
    local path = common.fresh_path("bank")
    local client = assert(zklock.connect(common.servers))
    common.make_path(client, path)
    for _, account in ipairs(ACCOUNTS) do
        assert(client:create(path .. "/" .. account, tostring(START)))
    end

    local arguments = {}
    for index = 1, CLERKS do
        arguments[index] = { "clerk-" .. index, path }
    end
    local clerks = common.start(arguments)
    for _ = 1, CLERKS do
        local line = assert(clerks:line(), "a clerk is stuck, or has failed")
        print(line)
        assert(line:find("has made"))
    end

    local sum = 0
    for _, account in ipairs(ACCOUNTS) do
        local amount = balance(client, path, account)
        print(("%s has %d"):format(account, amount))
        sum = sum + amount
        assert(client:delete(path .. "/" .. account))
    end
    assert(sum == START * #ACCOUNTS)
    print(("%d transfers in both directions at once: the sum is still %d"):format(CLERKS * TRANSFERS, sum))
end)

-- Transfers between accounts. Each account has a lock, and a transfer needs two of them. Transfers go in both directions at
-- once. If each transfer took its locks one after the other as they come, two transfers could wait for each other for ever. A
-- multi (client:multi) takes all of several locks or none, in an order that is the same for every program.
--
-- Both balances are written by one transaction, which the server executes only if the clerk still has both locks. So no money
-- is lost or created if a clerk is killed in the middle, or is stopped until another clerk has changed the accounts. The end of
-- the program shows that: a clerk is stopped between reading and writing, and its write is refused when it continues.
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

-- Reads, thinks, writes: meanwhile no other clerk may change one of the two accounts. `both` are their locks, `think` takes a
-- while. Returns the results of commit.
local function transfer(both, client, path, from, to, amount, think)
    local a, b = balance(client, path, from), balance(client, path, to)
    local transaction = both:transaction() -- bound to the present holds
    think()
    return transaction
        :set(path .. "/" .. from, tostring(a - amount))
        :set(path .. "/" .. to, tostring(b + amount))
        :commit(10)
end

local function locks_of(client, path)
    local locks = {}
    for index, account in ipairs(ACCOUNTS) do
        locks[index] = client:mutex(zklock.path(path .. "/locks", account))
    end
    return locks
end

-- Is stopped in the middle of a transfer, for longer than its session timeout.
local function slow_clerk(path)
    local client = assert(zklock.connect(common.servers, { session_timeout = 10 }))
    local locks = locks_of(client, path)
    local both = assert(client:multi({ locks[1], locks[2] }):acquire(10))
    print("slow: has both locks, and stands still before it writes")
    local done, _, code = transfer(both, client, path, ACCOUNTS[1], ACCOUNTS[2], 50, function()
        os.execute("kill -STOP $PPID")
    end)
    assert(not done)
    print("slow: wakes up, writes, and is refused: " .. code)
end

local function clerk(name, path)
    local client = assert(zklock.connect(common.servers))
    local locks = locks_of(client, path)
    local index = tonumber(name:match("%d+$"))
    for turn = 1, TRANSFERS do
        -- Odd clerks pay from anna to bert, from bert to carl, from carl to anna; even clerks in the opposite direction.
        local from = turn % #ACCOUNTS + 1
        local to = (turn + (index % 2 == 1 and 1 or 2)) % #ACCOUNTS + 1
        local both = client:multi { locks[from], locks[to] }
        assert(both:with_lock(function()
            assert(transfer(both, client, path, ACCOUNTS[from], ACCOUNTS[to], turn, function() end))
        end, 60))
    end
    print(("%s has made %d transfers"):format(name, TRANSFERS))
end

if arg[2] == "slow" then
    return slow_clerk(arg[3])
elseif arg[2] then
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

    local slow = common.start { { "slow", path } }
    slow:expect("slow: has both locks, and stands still before it writes")
    local locks = locks_of(client, path)
    local both = client:multi { locks[1], locks[2] }
    assert(both:with_lock(function() -- granted when the slow clerk's session has ended
        assert(transfer(both, client, path, ACCOUNTS[1], ACCOUNTS[2], 5, function() end))
    end, 60))
    slow:signal(1, "CONT")
    slow:expect("slow: wakes up, writes, and is refused: lost")

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

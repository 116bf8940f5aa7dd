--- kinds: the kinds of locks that are measured, by the names that all contestants use.

local core = require "zklock.core"

local kinds = {}

--- In the order of the report. There are also "unawaited", "linger" and "thread", which other contestants do not have.
kinds.all = { "mutex", "read", "write", "downgrade", "permit", "permits", "multi" }

--- Names for the report.
kinds.text = {
    mutex = "mutex",
    read = "read",
    write = "write",
    downgrade = "write, downgraded to read",
    permit = "semaphore, 1 permit",
    permits = "semaphore, 3 permits",
    multi = "multi of 3 mutexes"
}

--- Acquires the write lock and returns with the read lock.
local Downgrade = {}
Downgrade.__index = Downgrade

function Downgrade:acquire()
    assert(self.rw.write:acquire())
    assert(self.rw.read:acquire())
    return self.rw.write:release()
end

function Downgrade:release()
    return self.rw.read:release()
end

--- Acquires three permits together.
local Permits = {}
Permits.__index = Permits

local THREE = { count = 3 }

function Permits:acquire()
    return self.semaphore:acquire(THREE)
end

function Permits:try_acquire()
    return self.semaphore:try_acquire(THREE)
end

function Permits:release()
    return self.semaphore:release()
end

local makers = {}

function makers.mutex(client, path)
    return client:mutex(path)
end

--- For the option `wait` of the client of the kind "thread": while the program blocks, too, the I/O thread polls the server's
-- socket.
kinds.left_to_thread = {
    name = "left to the I/O thread",
    alone = true,
    wait = function(client, _, seconds)
        core.poll(client:pollfd(), math.min(seconds, 0.5))
        return true
    end,
    wake = function() end
}
makers.thread = makers.mutex

--- A mutex whose release does not wait for the server.
function makers.unawaited(client, path)
    return client:mutex(path, { wait_release = false })
end

--- A mutex that stays with the client for a while.
function makers.linger(client, path)
    return client:mutex(path, { linger = 60 })
end

function makers.read(client, path)
    return client:rwlock(path).read
end

function makers.write(client, path)
    return client:rwlock(path).write
end

function makers.downgrade(client, path)
    return setmetatable({ rw = client:rwlock(path) }, Downgrade)
end

function makers.permit(client, path)
    return client:semaphore(path, 1)
end

function makers.permits(client, path)
    return setmetatable({ semaphore = client:semaphore(path, 3) }, Permits)
end

function makers.multi(client, path)
    return client:multi { client:mutex(path .. "/1"), client:mutex(path .. "/2"), client:mutex(path .. "/3") }
end

--- A lock of a kind: with acquire, release and, but for "downgrade", try_acquire.
function kinds.make(kind, client, path)
    return makers[kind](client, path)
end

--- A lock that excludes all others from a lock of that kind on that path while it is held.
function kinds.make_rival(kind, client, path)
    if kind == "read" then
        return makers.write(client, path)
    elseif kind == "write" or kind == "downgrade" then
        return makers.read(client, path)
    end
    return makers[kind](client, path)
end

return kinds

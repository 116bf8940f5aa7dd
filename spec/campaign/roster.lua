--- campaign.roster: the clients: processes of every kind of lock, loop, Lua and route to the servers.
--
-- A client: name, runtime (lua5.4, luajit, nginx, curator, command), loop, fibers, route (direct, proxied, named), only (the one
-- server that it knows), tls (it connects by TLS: not to the first server, not proxied, and with a right wall clock, for which
-- certificates are valid), timeout (of its session, seconds), locks, options (of its locks), clock (its wall clock can be made to
-- jump), idle, pause (between two turns it does nothing for `idle` seconds, and for up to `pause` seconds more), long,
-- long_per_mille (in this many turns of a thousand it holds for up to `long` seconds).

local roster = {}

local ROOT = "/campaign"

local function path(name)
    return ROOT .. "/" .. name
end

local function mutex(name, chance)
    return { kind = "mutex", path = path(name), chance = chance }
end

local function half(kind, name, chance)
    return { kind = kind, path = path(name), chance = chance }
end

local function semaphore(name, limit, chance)
    return { kind = "semaphore", path = path(name), limit = limit, chance = chance }
end

local function multi(...)
    return { kind = "multi", members = { ... } }
end

--- A client that is `zklock run`. Many of its turns are long, because to begin one takes it long.
local function command(name, client)
    client.name, client.runtime = name, "command"
    client.idle, client.pause, client.long, client.long_per_mille = 0.05, 0.3, 1.5, 300
    return client
end

--- All locks are below this path.
roster.root = ROOT

--- For the full campaign; the clients marked `short` also take part in the short one.
local EVERYBODY = {
    {
        name = "mutex-1", runtime = "lua5.4", timeout = 3, locks = { mutex("stock"), mutex("seldom"), mutex("own-1") },
        short = true, clock = true
    },
    { name = "mutex-2", runtime = "luajit", timeout = 2, route = "proxied", locks = { mutex("stock"), mutex("own-2") } },
    { name = "mutex-3", runtime = "lua5.4", timeout = 3, only = 1, locks = { mutex("stock"), mutex("seldom"), mutex("own-3") } },
    {
        name = "mutex-4", runtime = "luajit", timeout = 4, only = 2, tls = true, locks = { mutex("stock"), mutex("own-4") },
        options = { wait_release = false }, short = true
    },
    {
        name = "rwlock-1", runtime = "lua5.4", timeout = 3, route = "named", tls = true,
        locks = { half("read", "config", 3), half("write", "config"), mutex("own-5") }
    },
    {
        name = "rwlock-2", runtime = "luajit", timeout = 3, only = 3,
        locks = { half("read", "config", 2), half("write", "config") }, short = true
    },
    {
        name = "rwlock-3", runtime = "lua5.4", loop = "luv", fibers = 4, timeout = 3, route = "proxied",
        locks = { half("read", "config", 3), half("write", "config") }, options = { linger = 0.1 }
    },
    { name = "semaphore-1", runtime = "lua5.4", timeout = 3, tls = true, locks = { semaphore("printers", 3), mutex("own-6") } },
    {
        name = "semaphore-2", runtime = "luajit", loop = "cqueues", fibers = 3, timeout = 2, route = "proxied",
        locks = { semaphore("printers", 3), semaphore("own-printer", 2) }, short = true
    },
    {
        name = "multi-1", runtime = "lua5.4", timeout = 3, route = "proxied",
        locks = { multi(mutex("anna"), mutex("bert"), semaphore("printers", 3)), mutex("own-7") }, short = true
    },
    {
        name = "multi-2", runtime = "luajit", timeout = 3, clock = true,
        locks = { multi(half("write", "config"), mutex("bert")), mutex("anna"), mutex("own-8") }
    },
    {
        name = "sharing-1", runtime = "lua5.4", loop = "luv", fibers = 6, timeout = 3, only = 3, tls = true,
        locks = { mutex("jobs", 2), mutex("own-9") }, options = { linger = 0.5, handoff = 16 }, short = true
    },
    {
        name = "sharing-2", runtime = "luajit", loop = "cqueues", fibers = 6, timeout = 3, route = "named",
        locks = { mutex("jobs", 2), mutex("own-10") }, options = { linger = 0.2 }
    },
    {
        name = "nginx", runtime = "nginx", fibers = 3, timeout = 3, route = "proxied", workers = 2,
        locks = { mutex("jobs", 2), mutex("own-11"), half("read", "config"), semaphore("printers", 3) }, short = true
    },
    {
        name = "idle-1", runtime = "lua5.4", timeout = 2, only = 1, idle = 1, pause = 2, locks = { mutex("seldom") }, short = true
    },
    {
        name = "idle-2", runtime = "luajit", timeout = 2, only = 2, tls = true, idle = 1, pause = 2, locks = { mutex("seldom") },
        short = true
    },
    { name = "idle-3", runtime = "lua5.4", timeout = 2, only = 3, idle = 1, pause = 2, locks = { mutex("seldom") } },
    { name = "curator", runtime = "curator", timeout = 20, locks = { mutex("mixed") } },
    { name = "beside-curator", runtime = "lua5.4", timeout = 3, locks = { mutex("mixed"), mutex("own-12") } },
    command("command-1", { short = true, timeout = 4, locks = { mutex("stock", 2), semaphore("printers", 3) } }),
    command("command-2", { timeout = 4, only = 2, locks = { mutex("stock", 2), half("read", "config") } })
}

--- For the run that shows that the checks can fail: every client knows only one server, so a server that is cut off from its leader
-- keeps its clients; and no client has a lease.
local CONTROL = {
    { name = "mutex-1", runtime = "lua5.4", timeout = 2, only = 1, locks = { mutex("stock") } },
    { name = "mutex-2", runtime = "luajit", timeout = 2, only = 2, locks = { mutex("stock") } },
    { name = "mutex-3", runtime = "lua5.4", timeout = 2, only = 3, locks = { mutex("stock") } },
    { name = "rwlock-1", runtime = "lua5.4", timeout = 2, only = 1, locks = { half("read", "config"), half("write", "config") } },
    { name = "rwlock-2", runtime = "luajit", timeout = 2, only = 2, locks = { half("read", "config"), half("write", "config") } },
    {
        name = "semaphore-1", runtime = "lua5.4", loop = "luv", fibers = 3, timeout = 2, only = 3,
        locks = { semaphore("printers", 2) }
    },
    {
        name = "semaphore-2", runtime = "luajit", loop = "cqueues", fibers = 3, timeout = 2, only = 1,
        locks = { semaphore("printers", 2) }
    },
    { name = "mutex-4", runtime = "luajit", timeout = 2, only = 3, pause = 0.2, locks = { mutex("orders") } },
    command("command-1", { timeout = 2, only = 1, locks = { mutex("orders") } }),
    command("command-2", { timeout = 2, only = 2, locks = { mutex("orders") } })
}

--- How many idle clients each server has in the campaign of stalls. In a stall the session of an idle client may be nearly over
-- when the client acquires. Each has another lock. At each server one busy client acquires the locks of the idle clients at the
-- other servers again and again: at the same server it would keep them while the server is stalled.
local IDLE_AT_EACH = 10

local function stalled()
    local list, locks = {}, { {}, {}, {} }
    for server = 1, 3 do
        for number = 1, IDLE_AT_EACH do
            local name = ("idle-%d-%d"):format(server, number)
            table.insert(locks[server % 3 + 1], mutex(name))
            table.insert(locks[(server + 1) % 3 + 1], mutex(name))
            list[#list + 1] = {
                name = name, runtime = number % 2 == 0 and "luajit" or "lua5.4", timeout = 2, only = server, idle = 2, pause = 0.6,
                long = 0.5, long_per_mille = 1000, locks = { mutex(name) }
            }
        end
    end
    for server = 1, 3 do
        list[#list + 1] = {
            name = "busy-" .. server, runtime = "lua5.4", loop = "luv", fibers = 12, timeout = 3, only = server, pause = 0.1,
            long = 0.6, long_per_mille = 700, locks = locks[server]
        }
    end
    return list
end

--- The clients of a campaign: "full", "short", "control", "leased" (the clients of control, with leases), or "stalled".
function roster.of(size)
    local list, few = {}, size == "control" or size == "leased"
    for _, client in ipairs(few and CONTROL or size == "stalled" and stalled() or EVERYBODY) do
        if size ~= "short" or client.short then
            client.loop = client.loop or "blocking"
            client.fibers = client.fibers or 1
            client.workers = client.workers or 1
            client.route = client.route or "direct"
            client.options = client.options or {}
            client.lease = size ~= "control"
            if few then
                -- Long holds, so that a holder is cut off while it holds.
                client.long, client.long_per_mille = 6, client.long_per_mille or 40
            end
            list[#list + 1] = client
        end
    end
    return list
end

--- Every path that a client of a list locks -> the longest session timeout of the clients that lock it.
function roster.paths(list)
    local paths = {}
    for _, client in ipairs(list) do
        for _, lock in ipairs(client.locks) do
            for _, member in ipairs(lock.members or { lock }) do
                paths[member.path] = math.max(paths[member.path] or 0, client.timeout)
            end
        end
    end
    return paths
end

return roster

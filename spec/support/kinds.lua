--- support.kinds: the kinds of locks, for specs of what holds for each of them. A list of kinds:
--
--   * `name`
--   * `new(client, path, options)` makes one
--   * `rival(client, path, options)` makes one that cannot be held beside it
--   * `directories`: those below its path that it uses, the one with the nodes of its holders last
--   * `marker`: what stands before the number in the name of a node that it has to wait for

local fixture = require "spec.support.fixture"

local kinds = {}

local function mutex(client, path, options)
    return client:mutex(path, options)
end

local function reader(client, path, options)
    return client:rwlock(path, options).read
end

local function writer(client, path, options)
    return client:rwlock(path, options).write
end

local function semaphore(client, path, options)
    return client:semaphore(path, 1, options)
end

kinds[1] = { name = "mutex", new = mutex, rival = mutex, directories = { "" }, marker = "-lock-" }
kinds[2] = { name = "read lock", new = reader, rival = writer, directories = { "" }, marker = "-__WRIT__" }
kinds[3] = { name = "write lock", new = writer, rival = reader, directories = { "" }, marker = "-__READ__" }
kinds[4] = {
    name = "semaphore", new = semaphore, rival = semaphore, directories = { "/locks", "/leases" }, marker = "-lease-"
}

--- Where the nodes of a lock's holders are.
function kinds.holders(kind, path)
    return path .. kind.directories[#kind.directories]
end

--- Returns a lock of a client of its own that cannot be held beside one of this kind.
function kinds.new_rival(kind, path)
    return kind.rival(fixture.loop_client(), path)
end

return kinds

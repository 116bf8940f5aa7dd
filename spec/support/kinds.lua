--- support.kinds: the kinds of locks, for specs that apply to each of them. A list of kinds:
--
--   * `name`
--   * `new(client, path, options)` makes one
--   * `rival(client, path, options)` makes a lock that cannot be held at the same time
--   * `directories`: the directories below its path that it uses; the last one has the nodes of its holders
--   * `marker`: the text before the number in the name of a node for which it has to wait

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

--- Returns the directory with the nodes of a lock's holders.
function kinds.holders(kind, path)
    return path .. kind.directories[#kind.directories]
end

--- Returns a lock of a new client that cannot be held together with a lock of this kind.
function kinds.new_rival(kind, path)
    return kind.rival(fixture.loop_client(), path)
end

return kinds

-- A configuration of two parts that belong together, here in two nodes. One process changes them from time to time, many read
-- them: a read/write lock lets all readers in together, and no reader sees half of a change.
--
--   lua examples/config.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local zklock = require "zklock"

local READERS, CHANGES = 3, 20

local function write(client, path, version, between)
    assert(client:set(path .. "/host", "host-" .. version))
    if between then
        between()
    end
    assert(client:set(path .. "/port", tostring(9000 + version)))
end

-- Returns both parts, whether they belong together, and the version.
local function read(client, path)
    local host, port = assert(client:get(path .. "/host")), assert(client:get(path .. "/port"))
    local version = tonumber(host:match("%d+$"))
    return host .. ":" .. port, tonumber(port) == 9000 + version, version
end

local function reader(name, path)
    local client = assert(zklock.connect(common.servers))
    local lock = client:rwlock(path .. "/lock")
    local reads, versions, last = 0, 0, -1
    repeat
        local _, _, whole, version = assert(lock:with_read(function()
            return read(client, path)
        end, 60))
        assert(whole)
        reads, versions = reads + 1, versions + (version ~= last and 1 or 0)
        last = version
        if reads == 1 then
            print(name .. " reads")
        end
    until version == CHANGES
    print(("%s has read %d times, %d versions, each of them whole"):format(name, reads, versions))
end

if arg[2] then
    return reader(arg[2], arg[3])
end

common.main(function()
    local path = common.fresh_path("config")
    local client, other = assert(zklock.connect(common.servers)), assert(zklock.connect(common.servers))
    local lock, others_lock = client:rwlock(path .. "/lock"), other:rwlock(path .. "/lock")
    common.make_path(client, path)
    for _, part in ipairs { "host", "port" } do
        assert(client:create(path .. "/" .. part, ""))
    end
    write(client, path, 0)

    -- Why a lock is needed: in the middle of a change, a read without the lock returns half of it, and a read with the lock
    -- must wait.
    assert(lock:with_write(function()
        write(client, path, 1, function()
            local seen, whole = read(other, path)
            print("in the middle of a change, without the lock: " .. seen)
            assert(not whole)
            local _, _, code = others_lock.read:try_acquire()
            print("in the middle of a change, with the lock: " .. code)
            assert(code == "timeout")
        end)
    end, 10))

    local arguments = {}
    for index = 1, READERS do
        arguments[index] = { "reader-" .. index, path }
    end
    local readers = common.start(arguments)
    for _ = 1, READERS do
        assert(readers:line():find("reads$"))
    end
    for version = 2, CHANGES do
        assert(lock:with_write(function()
            write(client, path, version)
        end, 60))
    end
    for _ = 1, READERS do
        local line = assert(readers:line())
        print(line)
        assert(line:find("each of them whole$"))
    end
    for _, part in ipairs { "host", "port" } do
        assert(client:delete(path .. "/" .. part))
    end
    print(("%d readers, %d changes: nobody saw half of one"):format(READERS, CHANGES))
end)

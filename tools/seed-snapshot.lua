-- Writes a ZooKeeper 3.8 snapshot into the data directory of a server that has not been started yet, so that the sequence numbers
-- of some nodes, and the transaction numbers, begin where a test needs them, mainly near their ends.
--
--     lua tools/seed-snapshot.lua DATADIR [zxid=HEX] [/path=NUMBER ...]
--
-- HEX, up to 16 hexadecimal digits, is the number of the last transaction that the server regards as done (1). Each /path becomes
-- a persistent node, its parents too. NUMBER, from -2147483648 to 2147483647, is the number that the next sequential child of
-- /path gets. In an ensemble every server must get the same snapshot. Any Lua from 5.1 on.
--
-- The file, all numbers big-endian, strings and buffers with a 4-byte length before them:
--     "ZKSN", version 2 (4 bytes), database id -1 (8)
--     number of sessions (4), none here
--     number of access control lists (4), none here: -1 stands for "anyone may do anything"
--     for each node, parents first: path ("" is the root), data, ACL number (8),
--         czxid, mzxid, ctime, mtime (8 each), version, cversion, aversion (4 each), ephemeral owner, pzxid (8 each)
--     the path "/" as the end mark
--     the Adler-32 of everything before it as 8 bytes, then "/" again
--     an empty digest (zxid 8 bytes, version 4, digest 8) with a separate Adler-32 and "/", as servers write it
-- On disk a node's cversion counts only the children created, and the server uses it as the next number.

local byte, char, floor = string.byte, string.char, math.floor

-- The transaction that the snapshot claims to end with, in hexadecimal; it is in the file's name too.
local zxid = "1"

local function int(n)
    n = n % 4294967296
    return char(floor(n / 16777216), floor(n / 65536) % 256, floor(n / 256) % 256, n % 256)
end

-- For numbers that a double holds exactly.
local function long(n)
    return int(floor(n / 4294967296)) .. int(n)
end

-- For hexadecimal digits, 16 at most.
local function hex(digits)
    digits = ("0"):rep(16 - #digits) .. digits
    return int(tonumber(digits:sub(1, 8), 16)) .. int(tonumber(digits:sub(9), 16))
end

local function text(s)
    return int(#s) .. s
end

local function adler32(s)
    local a, b = 1, 0
    for i = 1, #s do
        a = (a + byte(s, i)) % 65521
        b = (b + a) % 65521
    end
    return b * 65536 + a
end

local function seal(s)
    return s .. long(adler32(s)) .. text("/")
end

local function node(path, cversion, now)
    return text(path) .. text("") .. long(-1) .. hex(zxid) .. hex(zxid) .. long(now) .. long(now)
        .. int(0) .. int(cversion) .. int(0) .. long(0) .. hex(zxid)
end

-- The paths to write, parents before children, and for each the number that its next child gets.
local function plan(seeds)
    local paths = {"", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}
    local numbers = {[""] = 0, ["/zookeeper"] = 0, ["/zookeeper/config"] = 0, ["/zookeeper/quota"] = 0}
    for _, seed in ipairs(seeds) do
        for _, name in ipairs(seed.names) do
            local parent = name:match("^(.*)/")
            if not numbers[name] then
                paths[#paths + 1] = name
                numbers[name] = 0
                numbers[parent] = numbers[parent] + 1
            end
        end
    end
    for _, seed in ipairs(seeds) do
        numbers[seed.path] = seed.number
    end
    return paths, numbers
end

local function fail(message)
    io.stderr:write("seed-snapshot: ", message, "\n")
    os.exit(1)
end

local function parse(argument)
    local path, number = argument:match("^(/.+)=(%-?%d+)$")
    number = tonumber(number)
    if not path or path:find("//", 1, true) or path:sub(-1) == "/" then
        fail("expected /path=NUMBER, got " .. argument)
    end
    if number < -2147483648 or number > 2147483647 then
        fail("not a 32-bit number: " .. argument)
    end
    local names, name = {}, ""
    for part in path:gmatch("[^/]+") do
        name = name .. "/" .. part
        names[#names + 1] = name
    end
    return {path = path, number = number, names = names}
end

local function main(directory, ...)
    if not directory or not ... then
        fail("usage: seed-snapshot.lua DATADIR [zxid=HEX] [/path=NUMBER ...]")
    end
    local seeds = {}
    for _, argument in ipairs({...}) do
        local digits = argument:match("^zxid=0*(%x+)$")
        if digits and #digits <= 16 then
            zxid = digits:lower()
        else
            seeds[#seeds + 1] = parse(argument)
        end
    end
    local paths, numbers = plan(seeds)
    local now = os.time() * 1000
    local parts = {"ZKSN", int(2), long(-1), int(0), int(0)}
    for _, path in ipairs(paths) do
        parts[#parts + 1] = node(path, numbers[path], now)
    end
    parts[#parts + 1] = text("/")
    -- The second checksum covers everything before it, the first one included.
    local contents = seal(seal(table.concat(parts)) .. long(0) .. int(2) .. long(0))

    -- The server keeps everything in this subdirectory; the quotes keep the shell from interpreting the name.
    directory = directory .. "/version-2"
    os.execute("mkdir -p '" .. directory:gsub("'", "'\\''") .. "'")
    local file, message = io.open(("%s/snapshot.%s"):format(directory, zxid), "wb")
    if not file then
        fail(message)
    end
    local written
    written, message = file:write(contents)
    if not written or not file:close() then
        fail(message or "could not write")
    end
end

main(...)

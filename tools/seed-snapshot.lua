-- Writes a ZooKeeper 3.8 snapshot into the data directory of a server that has not been started yet, so that the sequence numbers
-- of some nodes, and the transaction numbers, begin where a test needs them, mainly near their ends. For Lua 5.4.
--
--     lua5.4 tools/seed-snapshot.lua DATADIR [zxid=HEX] [/path=NUMBER ...]
--
-- HEX, up to 16 hexadecimal digits, is the number of the last transaction that the server regards as done (1). Each /path becomes
-- a persistent node, its parents too. NUMBER, from -2147483648 to 2147483647, is the number that the next sequential child of
-- /path gets. In an ensemble every server must get the same snapshot.
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

local pack = string.pack

local function seal(text)
    local a, b = 1, 0
    for i = 1, #text do
        a = (a + text:byte(i)) % 65521
        b = (b + a) % 65521
    end
    return text .. pack(">i8s4", b << 16 | a, "/")
end

local function check(ok, ...)
    if not ok then
        io.stderr:write("seed-snapshot: ", string.format(...), "\n")
        os.exit(1)
    end
end

check(#arg > 1, "usage: seed-snapshot.lua DATADIR [zxid=HEX] [/path=NUMBER ...]")

-- The paths to write, parents before children, and for each the number that its next child gets.
local paths = { "", "/zookeeper", "/zookeeper/config", "/zookeeper/quota" }
local numbers = { [""] = 0, ["/zookeeper"] = 0, ["/zookeeper/config"] = 0, ["/zookeeper/quota"] = 0 }
local zxid, wanted = "1", {}
for _, argument in ipairs({ table.unpack(arg, 2) }) do
    local digits = argument:match "^zxid=0*(%x+)$"
    local path, number = argument:match "^(/.+)=(%-?%d+)$"
    if digits and #digits <= 16 then
        zxid = digits:lower()
    else
        check(path and not path:find "//" and not path:find "/$", "expected /path=NUMBER, got %s", argument)
        wanted[path] = tonumber(number)
        check(wanted[path] >= -2147483648 and wanted[path] <= 2147483647, "not a 32-bit number: %s", argument)
        local parent = ""
        for part in path:gmatch "[^/]+" do
            local name = parent .. "/" .. part
            if not numbers[name] then
                paths[#paths + 1] = name
                numbers[name], numbers[parent] = 0, numbers[parent] + 1
            end
            parent = name
        end
    end
end

local last, now = tonumber(zxid, 16), os.time() * 1000
local parts = { pack(">c4i4i8i4i4", "ZKSN", 2, -1, 0, 0) }
for _, path in ipairs(paths) do
    parts[#parts + 1] = pack(">s4s4i8 i8i8i8i8 i4i4i4 i8i8", path, "", -1, last, last, now, now,
        0, wanted[path] or numbers[path], 0, 0, last)
end
parts[#parts + 1] = pack(">s4", "/")
-- The second checksum covers everything before it, the first one included.
local contents = seal(seal(table.concat(parts)) .. pack(">i8i4i8", 0, 2, 0))

-- The server keeps everything in this subdirectory; the quotes keep the shell from interpreting the name.
local directory = arg[1] .. "/version-2"
os.execute("mkdir -p '" .. directory:gsub("'", "'\\''") .. "'")
local file, message = io.open(("%s/snapshot.%s"):format(directory, zxid), "wb")
check(file, "%s", message)
check(file:write(contents) and file:close(), "could not write")

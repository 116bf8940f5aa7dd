--- zklock as a contender. README.md lists its commands and answers.
--
-- Usage: contender.lua SERVERS PATH KIND PERMITS NAME. Needs luv, for files that only one process can make.

local core = require "zklock.core"
local uv = require "luv"
local zklock = require "zklock"

local servers, path, kind, permits, name = arg[1], arg[2], arg[3], tonumber(arg[4]), arg[5]
local FILE_MODE = 420 -- rw-r--r--

io.stdout:setvbuf("line")

-- Checks which contenders are inside at the same time; README.md says how.
local Check = {}
Check.__index = Check

local function new_check(directory)
    return setmetatable({
        directory = directory,
        exclusive = directory .. "/exclusive",
        shared = directory .. "/shared." .. name,
        log = assert(uv.fs_open(directory .. "/log", "a", FILE_MODE))
    }, Check)
end

function Check:count_shared()
    local count = 0
    local entries = assert(uv.fs_scandir(self.directory))
    for entry in uv.fs_scandir_next, entries do
        if entry:find("^shared%.") then
            count = count + 1
        end
    end
    return count
end

--- Enters. Returns true if a conflicting contender is inside.
function Check:enter(mode)
    local file = (mode == "mutex" or mode == "write") and self.exclusive or self.shared
    local fd, problem, code = uv.fs_open(file, "wx", FILE_MODE)
    local overlap = not fd
    if fd then
        uv.fs_close(fd)
        self.made = file
    elseif code ~= "EEXIST" then
        error(problem)
    end
    assert(uv.fs_write(self.log, name .. " " .. mode .. "\n", -1))
    if mode == "write" then
        overlap = self:count_shared() > 0 or overlap
    elseif mode == "read" then
        overlap = uv.fs_stat(self.exclusive) ~= nil or overlap
    elseif mode == "semaphore" then
        overlap = self:count_shared() > permits or overlap
    end
    return overlap
end

function Check:leave()
    if self.made then
        assert(uv.fs_unlink(self.made))
        self.made = nil
    end
end

local asked = false

local client = assert(zklock.connect(servers, {
    session_timeout = 20, connect_timeout = 20, identity = name, wait = "blocking"
}))

--- Mode -> lock, on a path.
local function locks_of(where, options)
    if kind == "mutex" then
        return { mutex = client:mutex(where, options) }
    elseif kind == "semaphore" then
        return { semaphore = client:semaphore(where, permits, options) }
    end
    local both = client:rwlock(where, options)
    return { read = both.read, write = both.write }
end

local locks = locks_of(path)
-- The lock of single steps: of a read/write lock first the writing one.
local single = kind == "rw" and "write" or kind
local check

local commands = {}

function commands.turns(count, directory, unlocked)
    local each = new_check(directory)
    local overlaps = 0
    for turn = 1, tonumber(count) do
        local mode = kind
        if kind == "rw" then
            mode = turn % 4 == 1 and "write" or "read"
        end
        if not unlocked then
            assert(locks[mode]:acquire())
        end
        if each:enter(mode) then
            overlaps = overlaps + 1
        end
        each:leave()
        if not unlocked then
            assert(locks[mode]:release())
        end
    end
    return ("done %s %d"):format(count, overlaps)
end

function commands.acquire(seconds)
    local lock, message, code = locks[single]:acquire(tonumber(seconds))
    return lock and "ok" or code == "timeout" and "timeout" or "error: " .. message
end

function commands.release()
    local ok, message = locks[single]:release()
    return ok and "ok" or "error: " .. message
end

function commands.downgrade()
    assert(locks.read:acquire(10))
    assert(locks.write:release())
    single = "read"
    return "ok"
end

function commands.enter(directory)
    check = new_check(directory)
    return check:enter(kind) and "overlap" or "ok"
end

function commands.leave()
    check:leave()
    return "ok"
end

function commands.participants()
    local words = {}
    for index, contender in ipairs(assert(locks[single]:contenders(10))) do
        words[index] = contender.node
    end
    return table.concat(words, " ")
end

function commands.revoke()
    local count, message = locks[single]:revoke(10)
    return count and "ok" or "error: " .. message
end

function commands.revocable()
    locks = locks_of(path, {
        on_revoke = function()
            asked = true
        end
    })
    return "ok"
end

--- Callbacks are called when the program pumps.
function commands.revoked(seconds)
    local deadline = core.now() + tonumber(seconds)
    client:pump()
    while not asked and core.now() < deadline do
        core.poll(client:pollfd(), deadline - core.now())
        client:pump()
    end
    return asked and "revoked" or "timeout"
end

function commands.close()
    client:close()
    return "ok"
end

local warm = client:mutex(path .. "-warm-" .. name)
assert(warm:acquire(20))
assert(warm:release())
print("ready")
for line in io.lines() do
    local words = {}
    for word in line:gmatch("%S+") do
        words[#words + 1] = word
    end
    local ok, answer = pcall(commands[words[1]] or error, words[2], words[3], words[4])
    print(ok and answer or "error: " .. tostring(answer):gsub("\n", " "))
    if words[1] == "close" then
        break
    end
end

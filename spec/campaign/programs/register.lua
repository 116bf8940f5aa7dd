--- campaign.register: what the locks protect: a value in Redis that refuses older tokens; next to it the same value without that
-- check; and a counter that the holder of the lock reads, and writes one higher.
--
-- Works with LuaSocket's sockets and with nginx's.

local Register = {}
Register.__index = Register

--- KEYS[1]: the path. ARGV: token, counter. Returns whether the fenced value was written, the number of that write, and the token
-- of the last write of the unfenced value.
local WRITE = [[
    local before = redis.call("getset", KEYS[1] .. ":unfenced", ARGV[1]) or ""
    redis.call("set", KEYS[1] .. ":counter", ARGV[2])
    redis.call("incr", KEYS[1] .. ":writes")
    local newest = redis.call("get", KEYS[1] .. ":token")
    if newest and newest > ARGV[1] then return {0, 0, before} end
    redis.call("set", KEYS[1] .. ":token", ARGV[1])
    return {1, redis.call("incr", KEYS[1] .. ":sequence"), before} ]]

local function receive(socket)
    local line = assert(socket:receive("*l"))
    local kind, rest = line:sub(1, 1), line:sub(2)
    if kind == ":" then
        return tonumber(rest)
    elseif kind == "+" then
        return rest
    elseif kind == "$" then
        local length = tonumber(rest)
        if length < 0 then
            return nil
        end
        return assert(socket:receive(length + 2)):sub(1, length)
    elseif kind == "*" then
        local list = {}
        for index = 1, tonumber(rest) do
            list[index] = receive(socket)
        end
        return list
    end
    error("Redis says: " .. line)
end

local function call(self, ...)
    local words = { ... }
    local parts = { ("*%d\r\n"):format(#words) }
    for index, word in ipairs(words) do
        word = tostring(word)
        parts[index + 1] = ("$%d\r\n%s\r\n"):format(#word, word)
    end
    assert(self.socket:send(table.concat(parts)))
    return receive(self.socket)
end

--- `socket`: connected to Redis.
local function new(socket)
    return setmetatable({ socket = socket }, Register)
end

--- The counter of a path, to be given to write() one higher.
function Register:counter(path)
    return tonumber(call(self, "GET", path .. ":counter") or 0)
end

--- Writes under a token. Returns the number of the fenced write, or nil if it was refused; and the token of the write before, from
-- the register without a fence.
function Register:write(path, token, counter)
    local answer = call(self, "EVAL", WRITE, 1, path, token, counter)
    return answer[1] == 1 and answer[2] or nil, answer[3]
end

--- How many writes there were, and the value of the counter.
function Register:totals(path)
    return tonumber(call(self, "GET", path .. ":writes") or 0), self:counter(path)
end

function Register:close()
    self.socket:close()
end

return { new = new }

--- sha256: the SHA-256 hash (FIPS 180-4), for zklock.key, with the bit operations that this Lua has.

local load, pcall, require, rawget = load, pcall, require, rawget
local byte, char, format, rep = string.byte, string.char, string.format, string.rep
local floor = math.floor

local WORD = 4294967296 -- 2^32, an integer where Lua has integers

--- Returns band, bxor and rotate-right of numbers from 0 to 2^32 - 1, by arithmetic alone: for a plain Lua 5.1.
local function arithmetic()
    local both, either = {}, {} -- results for two half-bytes a and b, at a * 16 + b
    for a = 0, 15 do
        for b = 0, 15 do
            local x, y, bit, conjunction, difference = a, b, 1, 0, 0
            for _ = 1, 4 do
                local p, q = x % 2, y % 2
                conjunction, difference = conjunction + p * q * bit, difference + (p ~= q and bit or 0)
                x, y, bit = (x - p) / 2, (y - q) / 2, bit * 2
            end
            both[a * 16 + b], either[a * 16 + b] = conjunction, difference
        end
    end
    local function by_half_bytes(results)
        return function(a, b)
            local result, place = 0, 1
            for _ = 1, 8 do
                local p, q = a % 16, b % 16
                result = result + results[p * 16 + q] * place
                a, b, place = (a - p) / 16, (b - q) / 16, place * 16
            end
            return result
        end
    end
    return by_half_bytes(both), by_half_bytes(either), function(a, count)
        local low = a % 2 ^ count
        return (a - low) / 2 ^ count + low * 2 ^ (32 - count)
    end
end

--- The same three functions, by operators (5.3 and later), "bit" (LuaJIT), "bit32" (5.2), or arithmetic. LuaJIT's results may be
-- negative; all sums are taken modulo 2^32 afterwards.
local function operations()
    local operators = rawget(_G, "loadstring") == nil and load([[
        return function(a, b) return a & b end, function(a, b) return a ~ b end,
            function(a, count) return (a >> count | a << (32 - count)) & 0xffffffff end]])
    if operators then
        return operators()
    end
    for _, name in ipairs { "bit", "bit32" } do
        local found, bit = pcall(require, name)
        if found then
            return bit.band, bit.bxor, bit.ror or bit.rrotate
        end
    end
    return arithmetic()
end

local band, bxor, ror = operations()

--- The first 32 bits of the fractions of the cube roots of the first 64 primes, and of the square roots of the first 8.
local ROUNDS, START = {}, {}
do
    local candidate, primes = 2, {}
    while #primes < 64 do
        local is_prime = true
        for index = 1, #primes do
            is_prime = is_prime and candidate % primes[index] ~= 0
        end
        if is_prime then
            primes[#primes + 1] = candidate
            ROUNDS[#primes] = floor(candidate ^ (1 / 3) % 1 * WORD)
            START[#primes] = #primes <= 8 and floor(candidate ^ 0.5 % 1 * WORD) or nil
        end
        candidate = candidate + 1
    end
end

--- Mixes the 64 bytes from `first` on into the state. `w` is room for 64 words.
local function mix(state, text, first, w)
    for index = 1, 16 do
        local p, q, r, s = byte(text, first + index * 4 - 4, first + index * 4 - 1)
        w[index] = ((p * 256 + q) * 256 + r) * 256 + s
    end
    for index = 17, 64 do
        local x, y = w[index - 15], w[index - 2]
        -- A shift is a rotation of the value whose low bits were cleared.
        local s0 = bxor(bxor(ror(x, 7), ror(x, 18)), (x - x % 8) / 8)
        local s1 = bxor(bxor(ror(y, 17), ror(y, 19)), (y - y % 1024) / 1024)
        w[index] = floor((w[index - 16] + s0 + w[index - 7] + s1) % WORD)
    end
    local a, b, c, d, e, f, g, h =
        state[1], state[2], state[3], state[4], state[5], state[6], state[7], state[8]
    for index = 1, 64 do
        local s1 = bxor(bxor(ror(e, 6), ror(e, 11)), ror(e, 25))
        local choice = bxor(g, band(e, bxor(f, g)))
        local first_sum = h + s1 + choice + ROUNDS[index] + w[index]
        local s0 = bxor(bxor(ror(a, 2), ror(a, 13)), ror(a, 22))
        local majority = bxor(band(a, bxor(b, c)), band(b, c))
        h, g, f, e, d, c, b, a = g, f, e, (d + first_sum) % WORD, c, b, a, (first_sum + s0 + majority) % WORD
    end
    state[1], state[2], state[3], state[4] =
        (state[1] + a) % WORD, (state[2] + b) % WORD, (state[3] + c) % WORD, (state[4] + d) % WORD
    state[5], state[6], state[7], state[8] =
        (state[5] + e) % WORD, (state[6] + f) % WORD, (state[7] + g) % WORD, (state[8] + h) % WORD
end

--- The hash of a string, as 64 hexadecimal digits.
return function(text)
    local bits = #text * 8
    local length = {}
    for index = 8, 1, -1 do
        length[index] = char(bits % 256)
        bits = floor(bits / 256)
    end
    text = text .. "\128" .. rep("\0", (55 - #text) % 64) .. table.concat(length)
    local state, w = {}, {}
    for index = 1, 8 do
        state[index] = START[index]
    end
    for first = 1, #text, 64 do
        mix(state, text, first, w)
    end
    for index = 1, 8 do
        state[index] = format("%08x", state[index])
    end
    return table.concat(state)
end

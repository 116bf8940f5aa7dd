--- Tokens are compared by stores, as strings in any locale or as numbers.
--
-- The specs of locales are tagged #once, since they start all Luas.

local cluster = require "spec.support.cluster"
local documentation = require "spec.support.documentation"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local locale = require "spec.support.locale"
local redis_server = require "spec.support.redis_server"
local zk = require "spec.support.zk"

--- The last value of the second half of a token: beyond 0xab, which follows 0xaa.
local TURNS = 300

--- Returns the tokens of many grants, in the order of the grants.
local function real_tokens()
    local lock = fixture.client():mutex(fixture.path(), { linger = 60 })
    local tokens = {}
    repeat
        assert(lock:acquire(20))
        tokens[#tokens + 1] = lock:token()
        assert(lock:release())
        assert(#tokens < 100 * TURNS, "no node has served so many grants")
    until tonumber(tokens[#tokens]:match("%d+$")) == TURNS
    return tokens
end

--- Returns the same tokens in hexadecimal.
local function in_hexadecimal(tokens)
    local written = {}
    for index, token in ipairs(tokens) do
        local zxid, turn = token:match("^(%d+)-(%d+)$")
        written[index] = ("%016x-%08x"):format(tonumber(zxid), tonumber(turn))
    end
    return written
end

--- Returns the script of docs/fencing.md, which refuses smaller tokens.
local function readme_script()
    local page = files.read(cluster.root .. "/docs/fencing.md")
    return (assert(page:match("\nlocal guarded = %[%[\n(.-)%]%]\n"), "docs/fencing.md has no script for Redis"))
end

describe("A token #once #real", function()
    local danish, directory, tokens

    setup(function()
        danish = assert(locale.environment("da_DK"))
        directory = files.make_directory()
        tokens = real_tokens()
    end)

    teardown(function()
        cluster.run({ "rm", "-rf", directory })
        fixture.clean()
    end)

    it("is two numbers with a fixed number of decimal digits, with a hyphen between", function()
        for _, token in ipairs(tokens) do
            assert.truthy(token:find("^%d+%-%d+$"), token)
            assert.equal(19 + 1 + 10, #token)
            assert.equal(20, token:find("-", 1, true))
        end
    end)

    for _, lua in ipairs { "lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit" } do
        --- Returns whether "aa" comes after "z", and how many strings do not come after the string before.
        local function compare(list, environment)
            local input = directory .. "/list"
            files.write(input, table.concat(list, "\n") .. "\n")
            local output, status = cluster.run({ "env", "LC_ALL=" .. environment.LC_ALL,
                "LOCPATH=" .. (environment.LOCPATH or ""), "sh", "-c",
                lua .. " " .. cluster.root .. "/spec/programs/collator.lua <" .. input })
            assert.equal(0, status, output)
            local after, wrong = output:match("^(%l+)\n?(.*)$")
            return after, select(2, wrong:gsub("[^\n]+", ""))
        end

        it("is greater with each grant, as " .. lua .. " compares strings in the locale C and in da_DK", function()
            local after, wrong = compare(tokens, { LC_ALL = "C" })
            assert.same({ "false", 0 }, { after, wrong })
            after, wrong = compare(tokens, danish)
            -- LuaJIT compares bytes in every locale.
            assert.same({ lua == "luajit" and "false" or "true", 0 }, { after, wrong })
        end)

        it("would not be greater in hexadecimal, as " .. lua .. " compares strings", function()
            local _, wrong = compare(in_hexadecimal(tokens), { LC_ALL = "C" })
            assert.equal(0, wrong)
            _, wrong = compare(in_hexadecimal(tokens), danish)
            assert.equal(lua ~= "luajit", wrong > 0)
        end)
    end

    for _, name in ipairs { "C", "da_DK.UTF-8" } do
        describe("in Redis with the locale " .. name, function()
            local server

            --- Writes one value for each token, in their order. Returns how many are refused, and how many are accepted although
            -- the next token was written before.
            local function write(list)
                local script, refused, late = readme_script(), 0, 0
                local connection = server.connection
                connection:del("key", "key:token")
                for _, token in ipairs(list) do
                    refused = refused + 1 - connection:eval(script, 2, "key", "key:token", "value of " .. token, token)
                end
                for index = 1, #list - 1 do
                    connection:set("key:token", list[index + 1])
                    late = late + connection:eval(script, 2, "key", "key:token", "late", list[index])
                end
                return refused, late
            end

            setup(function()
                server = redis_server.start({ LC_ALL = name, LOCPATH = danish.LOCPATH })
            end)

            teardown(function()
                server:stop()
            end)

            it("is accepted in the order of the grants, and refused after a later one was accepted", function()
                assert.equal(name ~= "C" and 1 or nil, server.connection:eval([[return "aa" > "z"]], 0))
                assert.same({ 0, 0 }, { write(tokens) })
            end)

            it("would not always be accepted in hexadecimal", function()
                local refused, late = write(in_hexadecimal(tokens))
                assert.same({ name ~= "C", name ~= "C" }, { refused > 0, late > 0 })
            end)
        end)
    end
end)

describe("A token as numbers", function()
    after_each(fixture.clean)

    --- Returns the decimal digits of high * 2^32 + low, computed by hand: a double could not hold the number.
    local function digits_of(high, low)
        local digits = {}
        for index = 19, 1, -1 do
            local rest = high % 10 * 2 ^ 32 + low
            digits[index] = ("%d"):format(rest % 10)
            high, low = math.floor(high / 10), math.floor(rest / 10)
        end
        return table.concat(digits)
    end

    --- Checks that the numbers of a held lock are its token, and that any Lua prints each of them in full.
    local function check_numbers(lock)
        local numbers = { lock:token_numbers() }
        assert.equal(3, #numbers)
        for _, number in ipairs(numbers) do
            assert.is_true(number >= 0 and number < 2 ^ 32 and number % 1 == 0)
            assert.truthy(tostring(number):match("^%d+$"), tostring(number))
        end
        assert.equal(lock:token(), ("%s-%010d"):format(digits_of(numbers[1], numbers[2]), numbers[3]))
        return numbers
    end

    it("is three numbers below 2^32, and none if the lock is not held", function()
        local lock = fixture.client():mutex(fixture.path(), { linger = 60 })
        assert.is_nil(lock:token_numbers())
        for _ = 1, 3 do
            assert(lock:acquire(20))
            check_numbers(lock)
            assert(lock:release())
        end
        assert.is_nil(lock:token_numbers())
        assert.equal(1, select("#", lock:token_numbers()))
    end)

    for zxid, high in pairs { ["20000000000001"] = 0x200000, ["7ffffffffffff000"] = 0x7fffffff } do
        it("is exact where a double is not, with the zxid " .. zxid, function()
            local servers = cluster.start { zxid = zxid }
            local lock = fixture.client({}, servers.servers):mutex("/lock")
            local observer = zk.connect(servers.servers)
            local before = ""
            for _ = 1, 3 do
                assert(lock:acquire(20))
                local numbers = check_numbers(lock)
                assert.equal(high, numbers[1])
                assert.is_true(lock:token() > before)
                before = lock:token()
                assert.equal(tonumber(observer:exists(lock:node()).czxid:sub(9), 16), numbers[2])
                assert(lock:release())
            end
            observer:close()
            fixture.clean()
            servers:stop()
        end)
    end
end)

describe("docs/fencing.md", function()
    after_each(fixture.clean)

    local page = files.read(cluster.root .. "/docs/fencing.md")

    it("has Lua code that runs", function()
        local environment = setmetatable({ client = fixture.client() }, { __index = _G })
        local blocks = 0
        for _, block in ipairs(documentation.code_blocks(page)) do
            if block.language == "lua" then
                assert(documentation.load_block(block.text, "docs/fencing.md:" .. block.line, environment))()
                blocks = blocks + 1
            end
        end
        assert.equal(2, blocks)
    end)

    -- Python's SQLite understands all of it except the names of the collations. docs_fencing_spec.lua runs it on databases.
    it("has SQL that accepts tokens in their order, and equal ones again, and refuses smaller ones #once #real", function()
        local statements = {}
        for _, block in ipairs(documentation.code_blocks(page)) do
            if block.language == "sql" then
                local text = block.text:gsub("CHARACTER SET %a+ ", ""):gsub("COLLATE [%w_\"]+", "COLLATE BINARY")
                statements[#statements + 1] = text
            end
        end
        assert.equal(6, #statements)
        statements = { statements[1], statements[2], statements[3], statements[4] } -- without the reads
        local client = fixture.client()
        local lock = client:mutex(fixture.path(), { linger = 60 })
        local tokens = {}
        for index = 1, 3 do
            assert(lock:acquire(20))
            tokens[index] = table.concat({ lock:token(), lock:token_numbers() }, " ")
            assert(lock:release())
            if index == 2 then -- from here on, a second node
                assert(fixture.observer():delete(lock:path() .. "/" .. fixture.children(lock:path())[1]))
                eventually(function()
                    return client:stats().entries == 0 -- a heartbeat has noticed
                end)
            end
        end
        local program = fixture.temporary_directory() .. "/try.py"
        files.write(program, [=[
import sqlite3, sys
blocks, tokens = sys.argv[1:5], [word.split() for word in sys.argv[5:]]
for high, low, grants in ((2**31 - 1, 0, 9), (2**31 - 1, 2**32 - 1, 0)):
    tokens.append(["%019d-%010d" % (high << 32 | low, grants), high, low, grants])
for numbers, text in ((blocks[0], blocks[2]), (blocks[1], blocks[3])):
    base = sqlite3.connect(":memory:")
    create, update = numbers.split(";")[:2]
    add, update_text = text.split(";")[:2]
    base.execute(create)
    base.execute(add)
    base.execute("INSERT INTO stock (item, amount) VALUES (7, 0)")

    def run(statement, values, order):
        if "$1" in statement:
            return base.execute(statement, {str(i + 1): value for i, value in enumerate(values)}).rowcount
        return base.execute(statement, [values[i] for i in order]).rowcount

    def write(token):
        by_numbers = run(update, [7, 1] + [int(n) for n in token[1:]], [1, 2, 3, 4, 0, 2, 3, 4])
        by_text = run(update_text, [7, 1, token[0]], [1, 2, 0, 2])
        assert by_numbers == by_text, (token, by_numbers, by_text)
        return by_numbers

    for index, token in enumerate(tokens):
        assert write(token) == 1, token
        assert write(token) == 1, token
        if index > 0:
            assert write(tokens[index - 1]) == 0, tokens[index - 1]
print("good")
]=])
        local words = { "python3", program }
        for _, list in ipairs { statements, tokens } do
            for _, word in ipairs(list) do
                words[#words + 1] = word
            end
        end
        assert.equal("good", (cluster.run(words)))
    end)
end)

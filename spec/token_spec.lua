--- A token is compared by whatever the lock protects, in whatever locale that runs: "#once" since each Lua is started here.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local locale = require "spec.support.locale"
local redis_server = require "spec.support.redis_server"

--- How far the second half of a token is counted: beyond 0xab, which follows 0xaa.
local TURNS = 300

--- The tokens of many grants, in the order of these.
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

--- The same tokens as they would be in hexadecimal.
local function in_hexadecimal(tokens)
    local written = {}
    for index, token in ipairs(tokens) do
        local zxid, turn = token:match("^(%d+)-(%d+)$")
        written[index] = ("%016x-%08x"):format(tonumber(zxid), tonumber(turn))
    end
    return written
end

--- The script of the README, which refuses smaller tokens.
local function readme_script()
    local readme = files.read(cluster.root .. "/README.md")
    return (assert(readme:match("\nlocal guarded = %[%[\n(.-)%]%]\n"), "the README has no script for Redis"))
end

describe("A token #once", function()
    local danish, tokens

    setup(function()
        danish = locale.compile("da_DK")
        tokens = real_tokens()
    end)

    teardown(function()
        danish:remove()
        fixture.clean()
    end)

    it("is two numbers of a fixed number of decimal digits, with a hyphen between", function()
        for _, token in ipairs(tokens) do
            assert.truthy(token:find("^%d+%-%d+$"), token)
            assert.equal(19 + 1 + 10, #token)
            assert.equal(20, token:find("-", 1, true))
        end
    end)

    for _, lua in ipairs { "lua5.1", "lua5.2", "lua5.3", "lua5.4", "luajit" } do
        --- Whether "aa" comes after "z", and how many strings are not after the one before.
        local function compare(list, environment)
            local input = danish.directory .. "/list"
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
            after, wrong = compare(tokens, danish.environment)
            -- LuaJIT compares bytes in every locale.
            assert.same({ lua == "luajit" and "false" or "true", 0 }, { after, wrong })
        end)

        it("would not be in hexadecimal, as " .. lua .. " compares strings", function()
            local _, wrong = compare(in_hexadecimal(tokens), { LC_ALL = "C" })
            assert.equal(0, wrong)
            _, wrong = compare(in_hexadecimal(tokens), danish.environment)
            assert.equal(lua ~= "luajit", wrong > 0)
        end)
    end

    for _, name in ipairs { "C", "da_DK.UTF-8" } do
        describe("in Redis with the locale " .. name, function()
            local server

            --- Writes one value for each token, in their order. Returns how many are refused, and how many are taken although
            -- the next token was there before.
            local function write(list)
                local script, refused, late = readme_script(), 0, 0
                local connection = server.connection
                connection:del("key", "key:token")
                for _, token in ipairs(list) do
                    refused = refused + 1 - connection:eval(script, 1, "key", "value of " .. token, token)
                end
                for index = 1, #list - 1 do
                    connection:set("key:token", list[index + 1])
                    late = late + connection:eval(script, 1, "key", "late", list[index])
                end
                return refused, late
            end

            setup(function()
                server = redis_server.start({ LC_ALL = name, LOCPATH = danish.environment.LOCPATH })
            end)

            teardown(function()
                server:stop()
            end)

            it("is taken in the order of the grants, and refused once a later one was taken", function()
                assert.equal(name ~= "C" and 1 or nil, server.connection:eval([[return "aa" > "z"]], 0))
                assert.same({ 0, 0 }, { write(tokens) })
            end)

            it("would not always be in hexadecimal", function()
                local refused, late = write(in_hexadecimal(tokens))
                assert.same({ name ~= "C", name ~= "C" }, { refused > 0, late > 0 })
            end)
        end)
    end
end)

--- The statements of docs/security.md about credentials: they are in no output, and nowhere that other users may look.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local credentials = require "spec.support.credentials"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local memory = require "spec.support.memory"
local zklock = require "zklock"

local SECRET, closed_directory, digest = credentials.SECRET, credentials.closed_directory, credentials.digest

describe("credentials", function()
    after_each(fixture.clean)

    --- Returns all texts that a client and its locks produce, as a list.
    local function everything_said(client, said)
        local function say(value)
            if type(value) == "table" and not getmetatable(value) then
                for name, field in pairs(value) do
                    say(name)
                    say(field)
                end
            else
                said[#said + 1] = tostring(value)
            end
        end
        local function say_all(...)
            for index = 1, select("#", ...) do
                say((select(index, ...)))
            end
        end
        local path = fixture.path()
        for index, kind in ipairs(kinds) do
            local lock = kind.new(client, path .. "/" .. index)
            say(tostring(lock))
            say_all(lock:acquire(10))
            say(tostring(lock))
            say_all(lock:node(), lock:token(), lock:contenders(10))
            say_all(lock:release())
            say_all(lock:release())
        end
        say(tostring(client:multi({ client:mutex(path), client:mutex(path .. "2") })))
        say_all(client:create("/no/such/parent"))
        say_all(client:get("/no/such/node"))
        say(tostring(client))
        say_all(client:state())
        say(client:stats())
        return said
    end

    it("are in no message, no log line, no tostring and no statistics, whatever happens to the connection", function()
        local said = {}
        local options = { auth = digest("fleet:" .. SECRET), acl = "creator", connect_timeout = 20, log = function(...)
            said[#said + 1] = table.concat({ ... }, " ")
        end }
        local client, link = fixture.client_behind_proxy(options)
        client:on("state", function(...)
            said[#said + 1] = table.concat({ ... }, " ")
        end)
        everything_said(client, said)
        link:cut()
        everything_said(client, said)
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        fixture.kill_owner_behind(link, lock:node())
        fixture.pump_until(client, function()
            return not lock:held() and client:state() == "connected"
        end)
        everything_said(client, said)
        client:close()
        everything_said(client, said)
        local unknown = { auth = { { scheme = "nosuchscheme", credential = SECRET } }, log = options.log, connect_timeout = 20 }
        local refused, message, code = zklock.connect(fixture.servers(), unknown)
        assert.same({ nil, "auth_failed" }, { refused, code })
        said[#said + 1] = message
        unknown.connect_timeout = 0
        local hopeless = fixture.client(unknown)
        fixture.pump_until(hopeless, function()
            return hopeless:state() == "auth_failed"
        end)
        everything_said(hopeless, said)
        assert.is_nil(table.concat(said, "\n"):find(SECRET, 1, true))
        assert.is_true(#said > 100)
    end)

    it("are missed by servers that require them: auth_failed at once, and 122 #once", function()
        local servers = fixture.remember(cluster.start { java_options = {
            "-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=digest"
        } })
        local client, message, code = zklock.connect(servers.servers, { connect_timeout = 600 })
        assert.same({ nil, "auth_failed" }, { client, code })
        assert.truthy(message:find("see the option auth", 1, true), message)
        assert.equal(122, commands.run({ "ls", "/" }, { servers = servers.servers }).status)
        client = fixture.client({ auth = { { scheme = "digest", credential = "a:b" } } }, servers.servers)
        assert(client:mutex(fixture.path()):acquire(20))
    end)

    it("are in no message about a mistake, wherever they are in the options", function()
        local with = { { scheme = "digest", credential = SECRET } }
        for _, options in ipairs({
            { auth = SECRET }, { auth = { SECRET } }, { auth = { { SECRET } } }, { auth = { { scheme = SECRET } } },
            { auth = { { credential = SECRET } } }, { auth = { [SECRET] = with[1] } }, { auth = { { scheme = SECRET .. "\0",
                credential = SECRET } } }, { auth = with, acl = SECRET }, { auth = with, acl = { SECRET } },
            { auth = with, session_timeout = SECRET }, { auth = with, lease = SECRET }, { auth = with, log = SECRET }
        }) do
            for _, connect in ipairs({ zklock.connect, zklock.shared }) do
                local ok, message = pcall(connect, "127.0.0.1:1", options)
                assert.is_false(ok)
                assert.is_nil(message:find(SECRET, 1, true), message)
            end
        end
    end)

    for _, way in ipairs({ "open", "share" }) do
        it("are in nothing that other users may see of a program, and not kept in its Lua: by " .. way .. " #once", function()
            local keeper = fixture.program("keeper", fixture.servers(), closed_directory() .. "/lock")
            assert.equal("ready", keeper:line())
            keeper:ask("learn " .. ("fleet:" .. SECRET):reverse())
            keeper:ask(way)
            keeper:ask("cycle")
            for _, what in ipairs({ "environ", "cmdline", "comm", "status" }) do
                assert.is_nil(files.read(("/proc/%d/%s"):format(keeper.pid, what)):find(SECRET, 1, true))
            end
            assert.is_nil(keeper:ask("log"):find(SECRET, 1, true))
            assert.is_true(tonumber(keeper:ask("reachable open%-sesame%-%x")) > 0)
            keeper:ask("forget")
            assert.equal("0", keeper:ask("reachable open%-sesame%-%x"))
            keeper:ask("cycle")
            assert.is_true(memory.count(keeper.pid, SECRET) > 0) -- the engine keeps it for its next session
        end)
    end

    it("of a closed client are not left in memory by zklock #once", function()
        local keeper = fixture.program("keeper", fixture.servers(), fixture.path())
        assert.equal("ready", keeper:line())
        keeper:ask("learn " .. ("fleet:" .. SECRET):reverse())
        local learnt = memory.count(keeper.pid, SECRET)
        assert.is_true(learnt > 0)
        keeper:ask("open_nowhere") -- so that the C client, which wipes nothing, has no copy
        keeper:ask("close")
        assert.is_true(memory.count(keeper.pid, SECRET) <= learnt)
    end)
end)

--- What docs/security.md says about those who want to do harm: who has no rights, who has some, who shares the machine.

local cluster = require "spec.support.cluster"
local core = require "zklock.core"
local documentation = require "spec.support.documentation"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local memory = require "spec.support.memory"
local ports = require "spec.support.ports"
local program = require "spec.support.program"
local stunnel = require "spec.support.stunnel"
local zk = require "spec.support.zk"
local zklock = require "zklock"

local SECRET = "open-sesame-3f9c0d5b7a"

local function digest(credential)
    return { { scheme = "digest", credential = credential } }
end

--- A client that shows the right credential, and whose locks let nobody else in.
local function trusted(options, servers)
    local settings = { auth = digest("fleet:" .. SECRET), acl = "creator", wait = loop, session_timeout = 20 }
    for name, value in pairs(options or {}) do
        settings[name] = value
    end
    return fixture.client(settings, servers)
end

local STRANGERS = {
    { "without credentials", {} },
    { "with a wrong password", { auth = digest("fleet:open-sesame"), acl = "creator" } },
    { "with another name and the right password", { auth = digest("guest:" .. SECRET), acl = "creator" } }
}

local function assert_refused(ok, message, code)
    assert.same({ nil, "no_auth" }, { ok, code }, message)
    assert.is_nil(message:find(SECRET, 1, true), message)
end

--- A directory that only the trusted may use.
local function closed_directory()
    local path = fixture.path()
    assert(trusted():create(path, "", { acl = "creator" }))
    return path
end

for _, kind in ipairs(kinds) do
    describe("a " .. kind.name .. " under an acl of creator", function()
        after_each(fixture.clean)

        for _, stranger in ipairs(STRANGERS) do
            it("cannot be held, broken, listed or asked for by a client " .. stranger[1], function()
                local base = closed_directory()
                local path = base .. "/lock"
                local client = fixture.client(stranger[2])
                local owner = kind.new(trusted(), path)
                assert(owner:acquire(10))
                for _, other in ipairs({ kind.new(client, path), kind.rival(client, path), kind.new(client, base .. "/other") }) do
                    assert_refused(other:acquire(10))
                    assert_refused(other:try_acquire())
                end
                local lock = kind.new(client, path)
                assert_refused(lock:contenders(10))
                assert_refused(lock:revoke(10))
                for _, node in ipairs({ owner:node(), kinds.holders(kind, path), path }) do
                    assert_refused(client:get(node))
                    assert_refused(client:set(node, "0"))
                    assert_refused(client:children(node))
                    assert_refused(client:create(node .. "/x", "", { acl = "open" }))
                    assert_refused(client:delete(node))
                end
                assert_refused(client:transaction():delete(owner:node()):commit(10))
                assert.is_true(owner:held())
                fixture.assert_nothing_left(client)
                assert.is_true(owner:release())
                assert_refused(kind.new(client, path):acquire(10))
            end)
        end

        it("can be waited for, listed, asked for and taken over by who shows the same credential", function()
            local path = closed_directory() .. "/lock"
            local asked = 0
            local owner = kind.new(trusted(), path, { identity = "owner", on_revoke = function()
                asked = asked + 1
            end })
            assert(owner:acquire(10))
            local next_one = kind.rival(trusted(), path)
            assert.equal("timeout", select(3, next_one:try_acquire()))
            assert.equal("owner", next_one:contenders(10)[1].identity)
            assert.equal(1, next_one:revoke(10))
            loop.run(function()
                loop.until_true(function()
                    owner._client:pump()
                    return asked == 1
                end)
                assert(owner:release())
            end, function()
                assert(next_one:acquire(20))
            end)
            assert.is_true(next_one:release())
        end)
    end)
end

describe("an acl", function()
    after_each(fixture.clean)

    it("on a directory that others made first does not help: who may write above it decides", function()
        local path = fixture.path() -- its parent is open
        local squatter = fixture.client({ auth = digest("guest:x"), acl = "creator" })
        assert(squatter:create(path, "", { acl = "creator" }))
        assert_refused(trusted():mutex(path):acquire(10))
    end)

    it("hides names and data, but not that a node is there and how many children it has", function()
        local path = closed_directory() .. "/lock"
        local owner = trusted():mutex(path)
        assert(owner:acquire(10))
        local stat = assert(fixture.client():exists(path, { timeout = 10 }))
        assert.equal(1, stat.num_children)
        assert.equal("no_auth", select(2, fixture.observer():children(path)))
    end)
end)

describe("a session", function()
    after_each(fixture.clean)

    --- The number that comes so many after one of 16 hexadecimal digits, unless it carries beyond the last seven.
    local function number_after(number, steps)
        return number:sub(1, 9) .. ("%07x"):format(tonumber(number:sub(10), 16) + steps)
    end

    --- ZooKeeper makes a session's password of its number, and the numbers one after the other.
    it("can be ended by whoever may connect, rights or none: its holder is told, and its locks go on to the next", function()
        local path = closed_directory() .. "/lock"
        local stranger = assert(zk.connect(fixture.servers()))
        local told
        local holder = trusted({ session_timeout = 4 }):mutex(path, { on_lost = function(_, reason)
            told = reason
        end })
        assert(holder:acquire(10))
        local node, token = holder:node(), holder:token()
        eventually(function()
            for steps = 1, 4 do
                zk.kill_session(fixture.servers(), number_after(stranger.session_id, steps))
            end
            return not stranger:exists(node)
        end)
        stranger:close()
        local next_one = trusted():mutex(path)
        assert(next_one:acquire(20))
        assert.is_true(next_one:token() > token)
        fixture.pump_until(holder._client, function()
            return told
        end)
        assert.equal("lost", told)
        assert.is_false(holder:held())
    end)
end)

describe("credentials", function()
    after_each(fixture.clean)

    --- All that a client and its locks say of themselves, as one text.
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

    it("are in no message, no line of the log, no tostring, no statistics, whatever happens to the connection", function()
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
        local unknown = { auth = { { scheme = "nosuchscheme", credential = SECRET } }, log = options.log }
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

    it("are in no message about a mistake, wherever they stand in the options", function()
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
        it("are in nothing that others may see of a program, and not kept in its Lua: by " .. way .. " #once", function()
            local keeper = fixture.program("keeper", fixture.servers(), closed_directory() .. "/lock")
            assert.equal("ready", keeper:line())
            keeper:ask("learn " .. ("fleet:" .. SECRET):reverse())
            keeper:ask(way)
            keeper:ask("cycle")
            for _, what in ipairs({ "environ", "cmdline", "comm", "status" }) do
                assert.is_nil(files.read(("/proc/%d/%s"):format(keeper.pid, what)):find(SECRET, 1, true))
            end
            assert.equal("", keeper:ask("log"))
            assert.is_true(tonumber(keeper:ask("reachable open%-sesame%-%x")) > 0)
            keeper:ask("forget")
            assert.equal("0", keeper:ask("reachable open%-sesame%-%x"))
            keeper:ask("cycle")
            assert.is_true(memory.count(keeper.pid, SECRET) > 0) -- the engine has it for its next session
        end)
    end

    it("of a client that is closed are not left behind in memory by zklock #once", function()
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

describe("the unix socket for event loops like nginx", function()
    after_each(fixture.clean)

    local function listening()
        local client = fixture.client()
        local path = assert(client._core:listen())
        return client, path, assert(path:match("^(.*)/news$"))
    end

    --- What listen answers in a process of its own with this for TMPDIR, which then ends by this code.
    local function listen_elsewhere(parent, ending)
        local code = [[
            local client = require("zklock").connect("127.0.0.1:1", { connect_timeout = 0, wait = "blocking" })
            print(client._core:listen())
            io.stdout:flush()
            ]] .. ending
        return (cluster.run({ "env", "-u", "LUA_PATH_5_4", "-u", "LUA_CPATH_5_4", "LUA_PATH=" .. package.path,
            "LUA_CPATH=" .. package.cpath, "TMPDIR=" .. parent, program.interpreter(), "-e", code }))
    end

    it("is in a directory of its own, which only its user may enter, and both go with the first connection #once", function()
        local client, path, directory = listening()
        assert.equal("directory 700", (cluster.run({ "stat", "-c", "%F %a", directory })))
        assert.equal("socket", (cluster.run({ "stat", "-c", "%F", path })))
        local peer = assert(require "socket.unix"())
        assert(peer:connect(path))
        assert.is_true(client._core:accept())
        assert.is_false(files.exists(directory))
        peer:close()
    end)

    it("goes with its client, though nobody has connected, and is not made again #once", function()
        local client, _, directory = listening()
        assert.is_true(files.exists(directory))
        client:close()
        assert.is_false(files.exists(directory))
        assert.is_nil((client._core:listen()))
    end)

    it("goes with a process that ends without closing anything #once", function()
        local path = listen_elsewhere("/tmp", "os.exit(0)")
        assert.truthy(path:find("^/tmp/zklock%-%w+/news"))
        assert.is_false(files.exists(path:match("^(.*)/news")))
    end)

    it("is out of reach for other users #once", function()
        local as_nobody = { "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups" }
        if select(2, cluster.run({ as_nobody[1], as_nobody[2], as_nobody[3], as_nobody[4], "true" })) ~= 0 then
            return pending("needs root")
        end
        local _, path, directory = listening()
        for _, words in ipairs({ { "ls", directory }, { "stat", path }, { "rm", "-rf", directory },
            { "mv", directory, "/tmp/mine" }, { "ln", "-s", "/etc", directory .. "/x" } }) do
            local command = { as_nobody[1], as_nobody[2], as_nobody[3], as_nobody[4] }
            for _, word in ipairs(words) do
                command[#command + 1] = word
            end
            assert.is_true(select(2, cluster.run(command)) ~= 0, table.concat(words, " "))
        end
        assert.is_true(files.exists(path))
    end)

    it("is refused, with a reason, where no directory can be made, and never made in somebody else's #once", function()
        local trap = files.make_directory()
        local function listen_under(parent)
            return listen_elsewhere(parent, "client:close()")
        end
        assert.truthy(listen_under(trap .. "/none"):find("No such file or directory", 1, true))
        assert(cluster.run({ "ln", "-s", trap .. "/none", trap .. "/dangling" }))
        assert.truthy(listen_under(trap .. "/dangling"):find("No such file or directory", 1, true))
        assert.truthy(listen_under(trap):find("^" .. trap:gsub("%p", "%%%0") .. "/zklock%-%w+/news"))
        assert.truthy(listen_under("relative"):find("^/tmp/zklock%-%w+/news"))
        assert.truthy(listen_under("/" .. ("long/"):rep(20)):find("^/tmp/zklock%-%w+/news"))
        assert.equal("dangling", (cluster.run({ "ls", trap })))
        cluster.run({ "rm", "-r", trap })
    end)
end)

describe("a peer that may write where the lock is", function()
    after_each(fixture.clean)

    local MANY = 5000

    --- Fills a directory with the nodes of one session, in the names of contenders.
    local function flood(path, count, data)
        local peer = fixture.client({ session_timeout = 60 })
        for first = 1, count, 500 do
            local transaction = peer:transaction()
            for _ = first, math.min(first + 499, count) do
                transaction:create(path .. "/_c_" .. fixture.UUID .. "-lock-", data or "", { ephemeral = true,
                    sequential = true })
            end
            assert(transaction:commit(30))
        end
        return peer
    end

    it("can keep everybody waiting behind thousands of nodes, but nobody hangs, and no memory stays #asan", function()
        local path = fixture.directory()
        local client = trusted({ acl = "open" })
        local lock = client:mutex(path)
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        fixture.assert_nothing_left(client)
        collectgarbage()
        local before = core.memory()
        local peer = flood(path, MANY)
        assert.equal("timeout", select(3, lock:try_acquire()))
        assert.equal("timeout", select(3, lock:acquire(0.1)))
        assert.equal(MANY, #assert(lock:contenders(60)))
        loop.run(function()
            assert(lock:acquire(60))
        end, function()
            loop.until_true(function()
                return client:stats().watches > 0
            end)
            peer:close()
        end)
        assert.is_true(lock:release())
        fixture.assert_nothing_left(client)
        fixture.clean()
        assert.is_true(core.memory() <= before)
    end)

    it("can flood a waiter and a holder with data, which changes nothing and stays nowhere #asan", function()
        local path = fixture.directory()
        local observer = fixture.observer()
        local holding, waiting = trusted({ acl = "open" }), trusted({ acl = "open" })
        local asked = 0
        local holder = holding:mutex(path, { on_revoke = function()
            asked = asked + 1
        end })
        local waiter = waiting:mutex(path)
        assert(holder:acquire(10))
        local data = ("\255\0%n"):rep(225000)
        local writes = 0
        local before
        loop.run(function()
            assert(waiter:acquire(60))
        end, function()
            loop.until_true(function()
                return waiting:stats().watches > 0
            end)
            before = core.memory()
            for round = 1, 30 do
                assert(observer:set(holder:node(), round % 2 == 0 and data or "__REVOKE__"))
                writes = writes + 1
                loop.until_true(function()
                    holding:pump()
                    return true
                end)
            end
            loop.until_true(function()
                holding:pump()
                return asked > 0
            end)
            assert.is_true(holder:held())
            assert.is_true(asked <= writes)
            assert.is_true(core.memory() < before + #data)
            assert.is_true(holder:release())
        end)
        assert.is_true(waiter:release())
    end)

    it("can delete a waiter's nodes as often as they come: the wait ends with its timeout, and nothing is left #asan", function()
        local path = fixture.path()
        local foreign = fixture.join(path)
        local client = trusted({ acl = "open" })
        local lock = client:mutex(path)
        local deleted, over = 0
        loop.run(function()
            local ok, _, code = lock:acquire(3)
            over = true
            assert.same({ nil, "timeout" }, { ok, code })
        end, function()
            loop.until_true(function()
                for _, name in ipairs(fixture.children(path)) do
                    local node = path .. "/" .. name
                    if node ~= foreign and fixture.observer():delete(node) then
                        deleted = deleted + 1
                    end
                end
                return over
            end)
        end)
        assert.is_true(deleted > 0)
        fixture.assert_nothing_left(client)
        eventually(function()
            return fixture.has(path, 1)
        end)
        fixture.observer():delete(foreign)
    end)

    --- Both in one transaction: no heartbeat falls between the two.
    local function impersonate(node, peer)
        peer = peer or fixture.client()
        assert(peer:transaction():delete(node):create(node, "impostor", { ephemeral = true }):commit(10))
        return peer
    end

    for _, kind in ipairs(kinds) do
        it("can put an impostor in place of the node of a " .. kind.name .. ", which is lost with the next heartbeat", function()
            local path = fixture.path()
            local reason, message
            local owner = kind.new(trusted({ acl = "open", session_timeout = 10 }), path, { on_lost = function(_, why, what)
                reason, message = why, what
            end })
            assert(owner:acquire(10))
            local node, token = owner:node(), owner:token()
            local peer = impersonate(node)
            loop.run(function()
                loop.until_true(function()
                    owner._client:pump()
                    return reason ~= nil
                end)
            end)
            assert.equal("lost", reason)
            assert.truthy(message:find("somebody deleted, and made anew, its node '" .. node .. "'", 1, true), message)
            assert.is_false(owner:held())
            peer:close()
            local other = kind.rival(trusted({ acl = "open" }), path)
            assert(other:acquire(20))
            assert.is_true(other:token() > token)
            assert.is_true(other:release())
            fixture.assert_nothing_left(owner._client)
        end)
    end

    it("can put an impostor in place of a waiter's node, which is then granted for no longer than to the next heartbeat", function()
        local path = fixture.path()
        local first = trusted({ acl = "open" }):mutex(path)
        local waiting = trusted({ acl = "open", session_timeout = 10 })
        local reason
        local second = waiting:mutex(path, { on_lost = function(_, why)
            reason = why
        end })
        assert(first:acquire(10))
        loop.run(function()
            local got, message, code = second:acquire(60)
            assert(got or code == "lost", message) -- if that heartbeat was on its way already
            loop.until_true(function()
                waiting:pump()
                return reason ~= nil or not got
            end)
            assert.is_true(reason == "lost" or not got)
        end, function()
            loop.until_true(function()
                return waiting:stats().watches > 0
            end)
            for _, name in ipairs(fixture.children(path)) do
                local node = path .. "/" .. name
                if node ~= first:node() then
                    impersonate(node)
                end
            end
            assert.is_true(first:release())
        end)
    end)

    it("can let a guarded transaction through, by an impostor, until the next heartbeat and no longer", function()
        local path = fixture.path()
        local data = fixture.directory()
        local link = fixture.proxy()
        local client = trusted({ acl = "open", session_timeout = 60 }, link.address)
        local lock = client:mutex(path)
        local peer = fixture.client({ wait = loop })
        assert(lock:acquire(10))
        link:stall() -- no heartbeat is answered before the transaction is on its way
        local sent = fixture.sent(client)
        loop.run(function()
            impersonate(lock:node(), peer)
            assert(lock:transaction():set(data, "stale"):commit(50)) -- nothing in a transaction tells the two apart
        end, function()
            loop.until_true(function()
                return fixture.sent(client) > sent
            end)
            link:resume()
        end)
        loop.run(function()
            loop.until_true(function()
                return not lock:held()
            end, 60)
        end)
        local ok, _, code = lock:transaction():set(data, "too late"):commit(10)
        assert.same({ nil, "lost" }, { ok, code })
        assert.equal("stale", (fixture.observer():get(data)))
    end)

    it("can write anything for a semaphore's limit: nobody gets more than he says himself #asan", function()
        local path = fixture.path()
        local client = trusted({ acl = "open" })
        local holder = client:semaphore(path, 1)
        assert(holder:acquire(10))
        for _, data in ipairs({ "2", "1000000", "-1", "0", "1 ", "\255\254", ("9"):rep(1000000), "__REVOKE__" }) do
            assert(fixture.observer():set(path .. "/leases", data))
            local other = client:semaphore(path, 1)
            local ok, message, code = other:acquire(0.1)
            assert.is_nil(ok)
            assert.is_true(code == "timeout" or code == "mismatch", message)
            assert.is_true(#message < 500)
        end
        assert.is_true(holder:held())
        assert.is_true(holder:release())
        fixture.assert_nothing_left(client)
    end)

    it("cannot give a child a name that is no UTF-8, or one with characters that ZooKeeper forbids", function()
        local path = fixture.directory()
        for _, name in ipairs({ "\255-lock-0000000001", "\192\175-lock-0000000001", "\237\160\128-lock-0000000001",
            "\240\159\148\146-lock-0000000001", "a\0b-lock-0000000001", "\1-lock-0000000001", ".", "..", "" }) do
            assert.is_nil((fixture.observer():create(path .. "/" .. name)), name)
        end
        assert.same({}, fixture.children(path))
    end)
end)

describe("stunnel", function()
    local certificates, running = nil, {}

    setup(function()
        certificates = stunnel.is_there() and stunnel.make_certificates()
    end)

    teardown(function()
        if certificates then
            cluster.run({ "rm", "-r", certificates })
        end
    end)

    after_each(function()
        fixture.clean()
        while running[1] do
            table.remove(running):stop()
        end
    end)

    local function start(...)
        local tunnel = stunnel.start(...)
        running[#running + 1] = tunnel
        return tunnel
    end

    --- The lines of a service that shows a certificate of its own, if it has one, and asks for one of `trusts`.
    local function lines(mine, trusts, more)
        local list = { ("CAfile = %s/%s-ca.pem"):format(certificates, trusts), "verifyChain = yes" }
        if mine then
            list[#list + 1] = ("cert = %s/%s.pem"):format(certificates, mine)
            list[#list + 1] = ("key = %s/%s.key"):format(certificates, mine)
        end
        for _, line in ipairs(more or {}) do
            list[#list + 1] = line
        end
        return list
    end

    --- In front of the server.
    local function server_side()
        return start(fixture.servers(), lines("ours-server", "ours", { "sslVersionMin = TLSv1.2" }))
    end

    --- Beside the program.
    local function client_side(to, mine, trusts, host, port)
        return start(to.address, lines(mine, trusts, { "client = yes", "checkHost = " .. host }), port)
    end

    local function spec(title, fn)
        it(title .. " #once", function()
            if not certificates then
                return pending("needs stunnel4 and openssl")
            end
            fn()
        end)
    end

    spec("on both sides carries locks through TLS, and they outlive a tunnel that is restarted", function()
        local far = server_side()
        local near = client_side(far, "ours-client", "ours", "zookeeper.example")
        local client = fixture.client({ auth = digest("fleet:" .. SECRET), acl = "creator", session_timeout = 20 }, near.address)
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        assert.equal("timeout", select(3, trusted():mutex(lock:path()):try_acquire()))
        local token = lock:token()
        near:stop()
        fixture.pump_until(client, function()
            return client:state() == "suspended"
        end)
        client_side(far, "ours-client", "ours", "zookeeper.example", near.port)
        fixture.pump_until(client, function()
            return client:state() == "connected"
        end)
        assert.is_true(lock:held())
        assert.equal(token, lock:token())
        assert.is_true(lock:release())
        assert.truthy(far:log():find("TLS accepted: new session negotiated", 1, true), far:log())
    end)

    for _, case in ipairs({
        { "a client without a certificate", nil, "ours", "zookeeper.example" },
        { "a client with a certificate of somebody else's", "foreign-client", "ours", "zookeeper.example" },
        { "a server whose certificate is of somebody else's, for the client", "ours-client", "foreign", "zookeeper.example" },
        { "a server under another name, for the client", "ours-client", "ours", "other.example" }
    }) do
        spec("keeps out " .. case[1], function()
            local near = client_side(server_side(), case[2], case[3], case[4])
            local client, message, code = zklock.connect(near.address, { connect_timeout = 1 })
            assert.same({ nil, "disconnected" }, { client, code }, message)
        end)
    end

    spec("keeps out a client that speaks no TLS", function()
        local client, _, code = zklock.connect(server_side().address, { connect_timeout = 1 })
        assert.same({ nil, "disconnected" }, { client, code })
    end)

    spec("beside the program speaks to ZooKeeper's own TLS port, where the certificate is an identity", function()
        local keys = certificates .. "/server-with-key.pem"
        files.write(keys, files.read(certificates .. "/ours-server.key") .. files.read(certificates .. "/ours-server.pem"))
        local port = ports.free()
        local secure = cluster.start { options = {
            secureClientPort = port, serverCnxnFactory = "org.apache.zookeeper.server.NettyServerCnxnFactory",
            ["ssl.keyStore.location"] = keys, ["ssl.keyStore.type"] = "PEM",
            ["ssl.trustStore.location"] = certificates .. "/ours-ca.pem", ["ssl.trustStore.type"] = "PEM"
        } }
        running[#running + 1] = secure
        local far = { address = "127.0.0.1:" .. port }
        local near = client_side(far, "ours-client", "ours", "zookeeper.example")
        local client = fixture.client({ acl = { { scheme = "x509", id = "CN=client", perms = "crwda" } } }, near.address)
        local lock = client:mutex("/lock")
        assert(lock:acquire(10))
        local stranger = fixture.client({}, secure.servers) -- by the port without TLS, if that is left open
        assert_refused(stranger:mutex("/lock"):acquire(10))
        assert_refused(stranger:mutex("/lock"):contenders(10))
        assert.is_true(lock:release())
        local nobody = client_side(far, nil, "ours", "zookeeper.example")
        assert.equal("disconnected", select(3, zklock.connect(nobody.address, { connect_timeout = 1 })))
    end)
end)

describe("a build", function()
    it("by CMake has all hardening that is looked for #once #released", function()
        local module = assert(package.searchpath("zklock.core", package.cpath))
        local report, status = cluster.run({ "tools/hardening.sh", module })
        assert(status == 0, report)
        local count = select(2, report:gsub(" yes\n", "")) + 1
        assert.equal(7, count)
    end)
end)

describe("docs/security.md", function()
    after_each(fixture.clean)

    it("has Lua that runs", function()
        local password = files.make_directory() .. "/password"
        files.write(password, SECRET .. "\n")
        local environment = { os = setmetatable({ getenv = function(name)
            return ({ ZOOKEEPER = fixture.servers(), LOCK_PASSWORD_FILE = password })[name]
        end }, { __index = os }) }
        environment.expect = documentation.expect
        setmetatable(environment, { __index = _G })
        local blocks = 0
        for _, block in ipairs(documentation.code_blocks(files.read("docs/security.md"))) do
            if block.language == "lua" then
                assert(documentation.load_block(block.text, "docs/security.md:" .. block.line, environment))()
                blocks = blocks + 1
            end
        end
        assert.is_true(blocks >= 2)
        os.remove(password)
    end)
end)

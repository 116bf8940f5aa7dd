-- What the other specs stand on: the local servers, the seeded snapshots, the faults and the independent client.

local socket = require("socket")
local cluster = require("spec.support.cluster")
local eventually = require("spec.support.eventually")
local files = require("spec.support.files")
local proxy = require("spec.support.proxy")
local zk = require("spec.support.zk")

local TOOL = cluster.root .. "/tools/zookeeper"

-- True if a process has these words in its command line.
local function runs(words)
    local output = cluster.run({"sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"})
    return output:find(words, 1, true) ~= nil
end

-- The lines of text as a table of NAME=value.
local function variables(output)
    local found = {}
    for name, value in output:gmatch("([%w_]+)=(%S+)") do
        found[name] = value
    end
    return found
end

-- A packet for a server: its length, and bytes that are given in hexadecimal.
local function frame(hex)
    local body = hex:gsub("%s", ""):gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
    return ("\0"):rep(3) .. string.char(#body) .. body
end

-- Asks a server for a session of 10 s.
local GREETING = frame("00000000 0000000000000000 00002710 0000000000000000 00000010" .. ("00"):rep(16))

-- Runs a shell script that may refer to the tool as "$tool".
local function shell(script)
    return cluster.run({"sh", "-c", "tool=" .. cluster.quote(TOOL) .. "\n" .. script})
end

describe("tools/zookeeper #once", function()
    local server

    setup(function()
        server = cluster.start()
    end)

    teardown(function()
        server:stop()
    end)

    it("serves when start returns", function()
        assert.equal("standalone", server:mode())
        assert.equal(1, server:leader())
        assert.equal(0, server:watch_count())
        assert.equal(500, tonumber(server:ask("conf"):match("tickTime=(%d+)")))
    end)

    it("tells number, process, port, mode and state of each server", function()
        local output = cluster.run({TOOL, "status", "--dir", server.directory})
        assert.equal(server:address():match("%d+$"), output:match("^1 %d+ (%d+) standalone running$"))
    end)

    it("keeps its directory from others' eyes", function()
        local mode = cluster.run({"stat", "-c", "%a", server.directory})
        assert.equal("700", mode)
    end)

    it("gives servers of their own to two who start at the same moment", function()
        local output, status = shell("owner=" .. cluster.process_id() .. [[

            file=$(mktemp)
            "$tool" start --owner $owner >"$file" & "$tool" start --owner $owner; wait
            sed 's/^/OTHER_/' "$file"
            rm "$file"]])
        assert.equal(0, status, output)
        local found = variables(output)
        local mine, other = zk.connect(found.ZOOKEEPER), zk.connect(found.OTHER_ZOOKEEPER)
        assert(mine:create("/mine"))
        assert.same({nil, "no_node"}, {other:exists("/mine")})
        mine:close()
        other:close()
        for _, directory in ipairs({found.ZOOKEEPER_DIR, found.OTHER_ZOOKEEPER_DIR}) do
            assert.equal(0, select(2, cluster.run({TOOL, "stop", "--dir", directory})))
            assert.is_false(files.exists(directory))
        end
    end)

    it("ends servers and removes their directory when the owner is killed with -9", function()
        local output, status = shell([[
            sleep 60 >/dev/null 2>&1 & owner=$!
            "$tool" start --owner $owner && kill -9 $owner]])
        assert.equal(0, status, output)
        local directory = variables(output).ZOOKEEPER_DIR
        eventually(function() return not files.exists(directory) and not runs(directory) end, 60, "the end of all")
    end)

    it("belongs to the program that called it, if not told otherwise", function()
        local output = shell([[export tool; exec lua5.4 -e 'os.execute(os.getenv("tool") .. " start")']])
        local directory = assert(variables(output).ZOOKEEPER_DIR, output)
        eventually(function() return not files.exists(directory) and not runs(directory) end, 60, "the end of all")
    end)

    it("runs a command with a server around it and exits as the command did", function()
        local output, status = shell([["$tool" run -- sh -c 'echo "$ZOOKEEPER $ZOOKEEPER_DIR"; exit 7']])
        assert.equal(7, status)
        local address, directory = output:match("^(127%.0%.0%.1:%d+) (%S+)$")
        assert.truthy(address, output)
        assert.is_false(files.exists(directory))
        assert.is_false(runs(directory))
    end)

    for _, signal in ipairs({"TERM", "INT", "HUP", "KILL"}) do
        it("leaves nothing when run gets SIG" .. signal, function()
            local output = shell([[
                file=$(mktemp)
                setsid "$tool" run -- sh -c 'echo "$PPID $ZOOKEEPER_DIR"; exec sleep 60' >"$file" 2>&1 </dev/null &
                until read -r pid directory <"$file"; do sleep 0.02; done
                rm "$file"
                kill -]] .. signal .. [[ $pid
                echo "$directory"]])
            local directory = output:match("[^\n]+$")
            assert.truthy(directory:match("^/"), output)
            eventually(function() return not files.exists(directory) and not runs(directory) end, 60, "the end of all")
        end)
    end

    it("keeps port and data over kill and restart", function()
        local client = zk.connect(server.servers)
        assert(client:create("/kept", "data"))
        local address = server:address()
        server:kill()
        assert.is_nil(server:ask("ruok"))
        server:restart()
        assert.equal(address, server:address())
        assert.equal("data", client:get("/kept"))
        client:delete("/kept")
        client:close()
    end)

    it("holds a paused server's answers until it is resumed", function()
        local client = zk.connect(server.servers)
        server:pause()
        assert.truthy(cluster.run({TOOL, "status", "--dir", server.directory}):match("paused$"))
        local host, port = server:address():match("^(.*):(%d+)$")
        local connection = assert(socket.connect(host, tonumber(port)))
        connection:send("ruok")
        connection:settimeout(0.3)
        assert.same({nil, "timeout"}, {(connection:receive(4)), (select(2, connection:receive(4)))})
        server:resume()
        connection:settimeout(60)
        assert.equal("imok", connection:receive(4))
        connection:close()
        assert.truthy(client:exists("/"))
        client:close()
    end)

    it("says what is wrong in one line", function()
        local function message_of(...)
            local output, status = cluster.run({"env", ...})
            assert.not_equal(0, status)
            return output
        end
        assert.matches("no \"no%-such%-java\"", message_of("ZOOKEEPER_JAVA=no-such-java", TOOL, "start"))
        assert.matches("no such directory: /nowhere", message_of(TOOL, "status", "--dir", "/nowhere"))
        assert.matches("set ZOOKEEPER_DIR", message_of("-u", "ZOOKEEPER_DIR", TOOL, "stop"))
        assert.matches("no server \"2\"", message_of(TOOL, "kill", "2", "--dir", server.directory))
        assert.matches("unknown command", message_of(TOOL, "begin"))
        assert.matches("ClassNotFound", message_of("ZOOKEEPER_CLASSPATH=/nowhere", TOOL, "start"))
    end)
end)

describe("tools/zookeeper with three servers #once", function()
    local servers, client

    setup(function()
        servers = cluster.start({servers = 3, seed = {["/seeded/below"] = 41}})
        client = zk.connect(servers.servers)
    end)

    teardown(function()
        client:close()
        servers:stop()
    end)

    it("has one leader and two followers", function()
        local modes = {}
        for n = 1, 3 do
            modes[n] = servers:mode(n)
        end
        table.sort(modes)
        assert.same({"follower", "follower", "leader"}, modes)
        assert.equal("leader", servers:mode(servers:leader()))
    end)

    it("gives the seeded numbers", function()
        assert.equal("/seeded/below/x-0000000041", client:create("/seeded/below/x-", "", {sequential = true}))
    end)

    it("elects another leader when the leader is killed, and takes it back", function()
        local old = servers:leader()
        assert(client:create("/before"))
        servers:kill(old)
        servers:wait()
        assert.not_equal(old, servers:leader())
        assert.truthy(eventually(function() return client:exists("/before") end))
        servers:restart(old)
        assert.equal("follower", servers:mode(old))
        local returned = zk.connect(servers:address(old))
        assert.truthy(returned:exists("/before"))
        returned:close()
    end)

    it("ends a session through another server than its own", function()
        local leader = servers:leader()
        local victim = zk.connect(servers:address(leader))
        local path = assert(victim:create("/victim", "", {ephemeral = true}))
        local other = zk.connect(servers:address(leader % 3 + 1))
        other:sync()
        assert.is_true(other:kill_session(other:exists(path).ephemeralOwner))
        assert.same({nil, "no_node"}, {other:exists(path)})
        assert.same({nil, "session_expired"}, {victim:exists(path)})
        victim:close()
        other:close()
    end)

    it("lets a follower be cut off from its leader, but not from its clients", function()
        local leader = servers:leader()
        local follower = leader % 3 + 1
        local link = proxy.between(servers, follower, leader)
        assert.equal(leader, servers:leader())
        local cut_off = zk.connect(servers:address(follower))
        local outside = zk.connect(servers:address(leader))
        assert(cut_off:create("/cut-off"))
        link:stall()
        assert(outside:set("/cut-off", "new"))
        assert.equal("", (cut_off:get("/cut-off")))
        assert.is_true(cut_off:ping())
        link:resume()
        eventually(function() return cut_off:get("/cut-off") == "new" end)
        cut_off:close()
        outside:close()
        link:stop()
        assert.equal("follower", servers:mode(follower))
    end)

    it("does not serve without a majority", function()
        servers:kill(1)
        servers:kill(2)
        eventually(function() return not servers:mode(3) end)
        assert.is_nil(servers:leader())
        servers:restart("all")
        assert.truthy(servers:leader())
    end)
end)

describe("tools/seed-snapshot.lua #once", function()
    it("makes the next sequential child get the number given, up to the last one there is", function()
        local server = cluster.start({seed = {["/locks/near"] = 2147483646, ["/past"] = -2147483648, ["/zero"] = 0}})
        local client = zk.connect(server.servers)
        local sequential = {sequential = true}
        assert.equal("/locks/near/x-2147483646", client:create("/locks/near/x-", "", sequential))
        assert.equal("/locks/near/x-2147483647", client:create("/locks/near/x-", "", sequential))
        assert.same({nil, "node_exists"}, {client:create("/locks/near/x-", "", sequential)})
        assert.equal("/past/x--2147483648", client:create("/past/x-", "", sequential))
        assert.equal("/zero/x-0000000000", client:create("/zero/x-", "", sequential))
        assert.same({"locks", "past", "zero", "zookeeper"}, client:children("/"))
        server:restart()
        assert.equal("/past/x--2147483647", client:create("/past/x-", "", sequential))
        client:close()
        server:stop()
    end)

    it("makes the next transaction follow the number given", function()
        local server = cluster.start({zxid = "00200000fffffff0", seed = {["/locks"] = 7}})
        local client = zk.connect(server.servers)
        assert.equal("/locks/x-0000000007", client:create("/locks/x-", "", {sequential = true}))
        local stat = client:exists("/locks/x-0000000007")
        assert.equal("00200000", stat.czxid:sub(1, 8))
        assert.is_true(tonumber(stat.czxid:sub(9), 16) > 0xfffffff0)
        client:close()
        server:stop()
    end)

    it("refuses what is no path, no 32-bit number and no zxid", function()
        for _, seed in ipairs({"zxid=", "zxid=x", "zxid=11112222333344445"}) do
            assert.equal(1, select(2, cluster.run({"lua5.4", cluster.root .. "/tools/seed-snapshot.lua", "/nowhere", seed})), seed)
        end
        for _, seed in ipairs({"locks=1", "/locks", "/locks/=1", "/a//b=1", "/locks=2147483648", "/locks=1.5"}) do
            local _, status = cluster.run({"lua5.4", cluster.root .. "/tools/seed-snapshot.lua", "/nowhere", seed})
            assert.equal(1, status, seed)
        end
    end)
end)

describe("the client for specs #once", function()
    local servers, client

    setup(function()
        servers = cluster.shared().servers
    end)

    before_each(function()
        client = zk.connect(servers)
    end)

    after_each(function()
        client:delete_recursive("/spec")
        client:close()
    end)

    it("creates, reads, writes, lists and deletes nodes", function()
        assert.equal("/spec", client:create("/spec", "first"))
        local data, stat = client:get("/spec")
        assert.equal("first", data)
        assert.equal(0, stat.version)
        assert.equal(("0"):rep(16), stat.ephemeralOwner)
        assert.equal(16, #stat.czxid)
        assert.equal(1, client:set("/spec", "").version)
        assert.equal("", client:get("/spec"))
        assert(client:create("/spec/b"))
        assert(client:create("/spec/a"))
        assert.same({"a", "b"}, client:children("/spec"))
        stat = client:exists("/spec")
        assert.equal(2, stat.numChildren)
        assert.equal(2, stat.cversion)
        assert.is_true(client:delete("/spec/a"))
        assert.same({nil, "no_node"}, {client:delete("/spec/a")})
        assert.same({nil, "not_empty"}, {client:delete("/spec")})
        assert.same({nil, "node_exists"}, {client:create("/spec")})
        assert.same({nil, "no_node"}, {client:create("/nothing/here")})
    end)

    it("carries bytes of every value", function()
        local bytes = {}
        for i = 0, 255 do
            bytes[#bytes + 1] = string.char(i)
        end
        local data = table.concat(bytes)
        client:create("/spec", data)
        assert.equal(data, (client:get("/spec")))
    end)

    it("makes ephemeral and sequential nodes that go with its session", function()
        client:create("/spec")
        local other = zk.connect(servers)
        local path, stat = other:create("/spec/x-", "", {ephemeral = true, sequential = true})
        assert.equal("/spec/x-0000000000", path)
        assert.equal(other.session_id, stat.ephemeralOwner)
        assert.is_true(other:close())
        assert.same({}, client:children("/spec"))
    end)

    it("makes containers, which the server removes once they are empty again", function()
        local reaping = cluster.start({reap = 100})
        finally(function() reaping:stop() end)
        local maker = zk.connect(reaping.servers)
        assert.equal("/spec", maker:create("/spec", "", {container = true}))
        maker:create("/spec/child")
        maker:delete("/spec/child")
        eventually(function() return not maker:exists("/spec") end)
        maker:close()
    end)

    it("deletes whole trees and makes all parents", function()
        assert.equal("/spec/a/b/c", client:create_all("/spec/a/b/c"))
        client:create("/spec/a/d")
        assert.is_true(client:delete_recursive("/spec"))
        assert.same({nil, "no_node"}, {client:exists("/spec")})
        assert.is_true(client:delete_recursive("/spec"))
    end)

    it("goes on with its session after its connection was lost", function()
        client:create("/spec", "", {ephemeral = true})
        local id = client.session_id
        client:disconnect()
        assert.equal(id, client:exists("/spec").ephemeralOwner)
    end)

    it("knows the password that the server gives to a session", function()
        for _ = 1, 5 do
            local other = zk.connect(servers)
            local expected = other.password:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
            assert.equal(expected, zk.password_of(other.session_id))
            other:close()
        end
    end)

    it("ends anybody's session, known by its id", function()
        local victim = zk.connect(servers)
        victim:create("/spec", "", {ephemeral = true})
        assert.is_true(zk.kill_session(servers, client:exists("/spec").ephemeralOwner))
        assert.is_nil((client:exists("/spec")))
        assert.same({nil, "session_expired"}, {victim:exists("/spec")})
        assert.same({nil, "no_node"}, {victim:exists("/spec")})
        victim:close()
        assert.same({nil, "session_expired"}, {zk.kill_session(servers, "0x1234")})
    end)
end)

describe("tools/faultproxy.lua #once", function()
    local server, direct, link, client

    setup(function()
        server = cluster.shared()
        direct = zk.connect(server.servers)
        link = proxy.start(server:address())
    end)

    before_each(function()
        direct:create("/proxied")
        client = zk.connect(link.address)
    end)

    after_each(function()
        link:resume()
        link:accept()
        link:disarm()
        link:delay(0)
        client:close()
        direct:delete_recursive("/proxied")
    end)

    teardown(function()
        direct:close()
        link:stop()
    end)

    it("loses the reply of a create that was executed", function()
        link:arm("create", "after")
        assert.same({nil, "connection_loss"}, {client:create("/proxied/a")})
        assert.equal("create path=/proxied/a", link:wait_fired())
        assert.truthy(direct:exists("/proxied/a"))
        assert.truthy(client:exists("/proxied/a"))
    end)

    it("loses a create before it is executed", function()
        link:arm("create", "before", 0, "fin")
        assert.same({nil, "connection_loss"}, {client:create("/proxied/a")})
        link:wait_fired()
        assert.is_nil((direct:exists("/proxied/a")))
        assert.equal("/proxied/a", client:create("/proxied/a"))
    end)

    it("loses the reply of a delete that was executed", function()
        client:create("/proxied/a")
        link:arm("delete", "after")
        assert.same({nil, "connection_loss"}, {client:delete("/proxied/a")})
        assert.is_nil((direct:exists("/proxied/a")))
    end)

    it("lets as many requests pass as it is told to, and those of another kind", function()
        link:arm("create", "before", 2)
        assert(client:create("/proxied/a"))
        assert(client:exists("/proxied/a"))
        assert(client:create("/proxied/b"))
        assert.is_false(link:fired())
        assert.same({nil, "connection_loss"}, {client:create("/proxied/c")})
        assert.is_true(link:fired())
        assert.same({"a", "b"}, direct:children("/proxied"))
    end)

    it("holds a reply back until it is told to go on", function()
        link:arm("create", "stall-reply")
        -- The answer cannot come while we wait for it here, so the request goes out by hand.
        local plain = assert(socket.connect(link.address:match("^(.*):(%d+)$")))
        plain:send(GREETING)
        plain:settimeout(60)
        assert.equal(40, #assert(plain:receive(40)))
        -- create "/proxied/a", no data, world:anyone, no flags; then exists "/".
        plain:send(frame("00000001 00000001 0000000a 2f70726f786965642f61 00000000"
            .. "00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000000")
            .. frame("00000002 00000003 00000001 2f 00"))
        link:wait_fired()
        assert.truthy(direct:exists("/proxied/a"))
        plain:settimeout(0.2)
        assert.equal("timeout", (select(2, plain:receive(1))))
        link:resume()
        plain:settimeout(60)
        local header = assert(plain:receive(8))
        assert.equal("\0\0\0\1", header:sub(5))
        plain:close()
    end)

    it("holds a request back, and what is behind it, until it is told to go on", function()
        link:arm("exists", "stall-request")
        local other = zk.connect(link.address)
        local plain = assert(socket.connect(link.address:match("^(.*):(%d+)$")))
        plain:send(GREETING)
        plain:settimeout(60)
        assert.equal(40, #assert(plain:receive(40)))
        -- exists "/", then delete "/proxied".
        plain:send(frame("00000001 00000003 00000001 2f 00") .. frame("00000002 00000002 00000008 2f70726f78696564 ffffffff"))
        assert.equal("exists path=/", link:wait_fired())
        assert.truthy(other:exists("/proxied")) -- by another connection
        link:resume()
        assert.equal("\0\0\0\1", assert(plain:receive(8)):sub(5))
        eventually(function() return not other:exists("/proxied") end)
        plain:close()
        other:close()
    end)

    it("answers a waiting command at the moment the trap springs", function()
        link:arm("delete", "before")
        assert.has_error(function() link:wait_fired(0.2) end, "the trap has not sprung")
        client:delete("/proxied/none")
        assert.equal("delete path=/proxied/none", link:wait_fired())
    end)

    it("cuts all connections, both ways", function()
        for _, how in ipairs({"rst", "fin"}) do
            assert(client:exists("/proxied"))
            link:cut(how)
            eventually(function() return link:status().connections == 0 end)
            assert.truthy(client:exists("/proxied"))
        end
    end)

    it("refuses and accepts connections on the same port", function()
        link:refuse()
        link:cut()
        local host, port = link.address:match("^(.*):(%d+)$")
        assert.same({nil, "connection refused"}, {socket.connect(host, tonumber(port))})
        link:accept()
        assert.truthy(client:exists("/proxied"))
    end)

    it("stalls either way without closing anything", function()
        local host, port = link.address:match("^(.*):(%d+)$")
        for _, direction in ipairs({"up", "down", "both"}) do
            local plain = assert(socket.connect(host, tonumber(port)))
            link:stall(direction)
            plain:send("ruok")
            plain:settimeout(0.2)
            assert.same({nil, "timeout"}, {(plain:receive(4)), (select(2, plain:receive(4)))})
            link:resume()
            plain:settimeout(60)
            assert.equal("imok", plain:receive(4))
            plain:close()
        end
    end)

    it("holds back the end of a connection alone", function()
        local host, port = link.address:match("^(.*):(%d+)$")
        local plain = assert(socket.connect(host, tonumber(port)))
        link:stall("ends")
        plain:send("ruok")
        plain:settimeout(60)
        assert.equal("imok", plain:receive(4)) -- behind which the server hangs up
        plain:settimeout(0.2)
        assert.equal("timeout", (select(2, plain:receive(1))))
        link:resume()
        plain:settimeout(60)
        assert.equal("closed", (select(2, plain:receive(1))))
        plain:close()
    end)

    it("delays", function()
        link:delay(150)
        local before = socket.gettime()
        assert.truthy(client:exists("/proxied"))
        assert.is_true(socket.gettime() - before >= 0.3)
    end)

    it("closes half of a connection", function()
        local host, port = link.address:match("^(.*):(%d+)$")
        for _, side in ipairs({"client", "server"}) do
            local plain = assert(socket.connect(host, tonumber(port)))
            plain:settimeout(60)
            eventually(function() return link:status().connections == 2 end)
            link:half_close(side)
            assert.same({nil, "closed"}, {(plain:receive(1)), (select(2, plain:receive(1)))})
            plain:close()
            -- The other client lost its half, too.
            assert.truthy(client:exists("/proxied"))
        end
    end)

    it("counts requests by kind, replies and bytes", function()
        link:reset_counts()
        client:create("/proxied/a")
        client:create("/proxied/b", "", {container = true})
        client:exists("/proxied/a")
        client:children("/proxied")
        local counts = link:counts()
        assert.equal(1, counts.create2)
        assert.equal(1, counts.createContainer)
        assert.equal(1, counts.exists)
        assert.equal(1, counts.getChildren)
        assert.equal(0, counts.delete)
        assert.equal(4, counts.replies)
        assert.equal(0, counts.notifications)
        assert.is_true(counts.bytes_up > 100 and counts.bytes_down > 100)
    end)

    it("knows the session it carries, so that a spec can end exactly that one", function()
        local session = link:session()
        assert.equal(client.session_id, session.id)
        assert.equal(client.negotiated_ms, session.timeout)
        assert.is_true(zk.close_session(server.servers, session.id, session.passwd))
        assert.same({nil, "session_expired"}, {client:exists("/proxied")})
        assert.same({nil, "session_expired"}, {zk.close_session(server.servers, session.id, ("00"):rep(16))})
    end)

    it("answers requests that succeed with an error, when told to", function()
        link:deny("exists", -102)
        assert.same({nil, "no_auth"}, {client:exists("/proxied")})
        assert.same({nil, "no_node"}, {client:exists("/no-such-node")})
        assert.truthy(client:get("/proxied"))
        link:deny("exists")
        assert.truthy(client:exists("/proxied"))
    end)

    it("stamps watch events with a zxid, when told to", function()
        local plain = assert(socket.connect(link.address:match("^(.*):(%d+)$")))
        local function next_frame()
            return assert(plain:receive(assert(plain:receive(4)):byte(4)))
        end
        plain:settimeout(60)
        plain:send(GREETING)
        next_frame()
        plain:send(frame("00000001 00000003 00000008 2f7374616d706564 01")) -- exists "/stamped", with a watch
        next_frame()
        link:stamp("72623859790382856")
        assert(client:create("/stamped"))
        assert.equal(("\255"):rep(4) .. "\1\2\3\4\5\6\7\8" .. ("\0"):rep(4), next_frame():sub(1, 16))
        link:stamp("-1")
        plain:close()
        client:delete("/stamped")
    end)

    it("sends new connections elsewhere when told to", function()
        local other = cluster.start()
        link:target(other:address())
        local there = zk.connect(link.address)
        assert.is_nil((there:exists("/proxied")))
        there:close()
        link:target(server:address())
        other:stop()
    end)

    it("explains a command that it does not understand", function()
        assert.has_error(function() link:arm("everything", "after") end, "no such kind of request")
        assert.has_error(function() link:stall("sideways") end, "expected up, down, both or ends")
    end)

    -- What libuv starts has SIGPIPE's default, whatever its parent does; what LuaSocket's users start ignores it.
    it("outlives a server that closes a connection while two requests are on their way to it", function()
        local listener = assert(socket.bind("127.0.0.1", 0))
        local pipe = assert(io.popen(("echo $$; LD_PRELOAD= exec env --default-signal=PIPE lua5.4 %s --target 127.0.0.1:%d "
            .. "--owner %d </dev/null"):format(cluster.quote(cluster.root .. "/tools/faultproxy.lua"),
            select(2, listener:getsockname()), cluster.process_id())))
        local pid = pipe:read("*l")
        local clients, commands = pipe:read("*l"):match("%d+$"), pipe:read("*l"):match("%d+$")
        local requests = socket.connect("127.0.0.1", tonumber(clients))
        local accepted = listener:accept()
        -- Stopped, so that it sees requests and end in one turn, in this order.
        cluster.run({"kill", "-STOP", pid})
        requests:send(("\0\0\0\4ping"):rep(2))
        accepted:close()
        cluster.run({"kill", "-CONT", pid})
        assert.equal("closed", (select(2, requests:receive(1))))
        local control = assert(socket.connect("127.0.0.1", tonumber(commands)))
        control:send("status\nquit\n")
        assert.equal("ok connections=0 listening=yes stalled=no trap=none", control:receive("*l"))
        control:close()
        pipe:close()
        listener:close()
    end)

    it("ends with its owner", function()
        local output = shell([[
            sleep 60 >/dev/null 2>&1 & owner=$!
            proxy=${tool%/*}/faultproxy.lua
            said=$(mktemp)
            setsid lua5.4 "$proxy" --target ]] .. server:address() .. [[ --owner $owner </dev/null >"$said" &
            proxy=$!
            until grep -q PROXY= "$said"; do sleep 0.05; done
            kill -9 $owner
            wait $proxy
            echo "status=$?"
            rm "$said"]])
        assert.equal("0", variables(output).status, output)
    end)
end)

describe("eventually #once", function()
    it("returns what the condition returns once it holds", function()
        local calls = 0
        assert.equal("third", eventually(function()
            calls = calls + 1
            return calls == 3 and "third"
        end))
    end)

    it("says what it waited for in vain, and why", function()
        assert.has_error(function()
            eventually(function() return nil, "not here" end, 0.05, "a guest")
        end, "still waiting after 0.05 s for a guest: not here")
    end)
end)

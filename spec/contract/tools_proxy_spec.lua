-- The faults that specs rely on: what the proxy between a client and a server does.

local socket = require("socket")
local cluster = require("spec.support.cluster")
local eventually = require("spec.support.eventually")
local proxy = require("spec.support.proxy")
local tool = require("spec.support.tool")
local zk = require("spec.support.zk")

local shell, variables = tool.shell, tool.variables

-- Returns a packet for a server: its length, and bytes that are given in hexadecimal.
local function frame(hex)
    local body = hex:gsub("%s", ""):gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
    return ("\0"):rep(3) .. string.char(#body) .. body
end

-- Requests a session of 10 s from a server, and no read-only one: 3.9.1 answers that also to clients that do not mention it.
local GREETING = frame("00000000 0000000000000000 00002710 0000000000000000 00000010" .. ("00"):rep(16) .. "00")

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

    it("lets as many requests pass as requested, and all requests of another kind", function()
        link:arm("create", "before", 2)
        assert(client:create("/proxied/a"))
        assert(client:exists("/proxied/a"))
        assert(client:create("/proxied/b"))
        assert.is_false(link:fired())
        assert.same({nil, "connection_loss"}, {client:create("/proxied/c")})
        assert.is_true(link:fired())
        assert.same({"a", "b"}, direct:children("/proxied"))
    end)

    it("holds a reply back until it is resumed", function()
        link:arm("create", "stall-reply")
        -- The answer cannot come while the client waits for it here, so the request is sent by hand.
        local plain = assert(socket.connect(link.address:match("^(.*):(%d+)$")))
        plain:send(GREETING)
        plain:settimeout(60)
        assert.equal(41, #assert(plain:receive(41)))
        -- create "/proxied/a" without data, for world:anyone, without flags; then exists "/".
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

    it("holds a request back, with all that follow it, until it is resumed", function()
        link:arm("exists", "stall-request")
        local other = zk.connect(link.address)
        local plain = assert(socket.connect(link.address:match("^(.*):(%d+)$")))
        plain:send(GREETING)
        plain:settimeout(60)
        assert.equal(41, #assert(plain:receive(41)))
        -- exists "/", then delete "/proxied".
        plain:send(frame("00000001 00000003 00000001 2f 00") .. frame("00000002 00000002 00000008 2f70726f78696564 ffffffff"))
        assert.equal("exists path=/", link:wait_fired())
        assert.truthy(other:exists("/proxied")) -- through another connection
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

    it("stalls either direction without closing anything", function()
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

    it("holds back only the end of a connection", function()
        local host, port = link.address:match("^(.*):(%d+)$")
        local plain = assert(socket.connect(host, tonumber(port)))
        link:stall("ends")
        plain:send("ruok")
        plain:settimeout(60)
        assert.equal("imok", plain:receive(4)) -- after this the server closes the connection
        plain:settimeout(0.2)
        assert.equal("timeout", (select(2, plain:receive(1))))
        link:resume()
        plain:settimeout(60)
        assert.equal("closed", (select(2, plain:receive(1))))
        plain:close()
    end)

    it("delays either direction: later requests past the proxy overtake", function()
        local host, port = link.address:match("^(.*):(%d+)$")
        for _, direction in ipairs({"up", "down", "both"}) do
            local plain = assert(socket.connect(host, tonumber(port)))
            link:delay(3600 * 1000, direction)
            plain:send("ruok")
            assert.truthy(direct:exists("/proxied"))
            plain:settimeout(0.2)
            assert.same({nil, "timeout"}, {(plain:receive(4)), (select(2, plain:receive(4)))})
            link:cut()
            plain:close()
            link:delay(0)
        end
    end)

    it("delivers what it has delayed", function()
        link:delay(50)
        assert.truthy(client:exists("/proxied"))
    end)

    it("closes one direction of a connection", function()
        local host, port = link.address:match("^(.*):(%d+)$")
        for _, side in ipairs({"client", "server"}) do
            local plain = assert(socket.connect(host, tonumber(port)))
            plain:settimeout(60)
            eventually(function() return link:status().connections == 2 end)
            link:half_close(side)
            assert.same({nil, "closed"}, {(plain:receive(1)), (select(2, plain:receive(1)))})
            plain:close()
            -- The other client lost that direction, too.
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

    it("knows the session that it carries, so that a spec can end exactly that session", function()
        local session = link:session()
        assert.equal(client.session_id, session.id)
        assert.equal(client.negotiated_ms, session.timeout)
        assert.is_true(zk.close_session(server.servers, session.id, session.passwd))
        assert.same({nil, "session_expired"}, {client:exists("/proxied")})
        assert.same({nil, "session_expired"}, {zk.close_session(server.servers, session.id, ("00"):rep(16))})
    end)

    it("answers successful requests with an error, if told to", function()
        link:deny("exists", -102)
        assert.same({nil, "no_auth"}, {client:exists("/proxied")})
        assert.same({nil, "no_node"}, {client:exists("/no-such-node")})
        assert.truthy(client:get("/proxied"))
        link:deny("exists")
        assert.truthy(client:exists("/proxied"))
    end)

    it("stamps watch events with a zxid, if told to", function()
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

    it("sends new connections to another server, if told to", function()
        local other = cluster.start()
        link:target(other:address())
        local there = zk.connect(link.address)
        assert.is_nil((there:exists("/proxied")))
        there:close()
        link:target(server:address())
        other:stop()
    end)

    it("explains a command that it does not know", function()
        assert.has_error(function() link:arm("everything", "after") end, "no such kind of request")
        assert.has_error(function() link:stall("sideways") end, "expected up, down, both or ends")
    end)

    -- A program that libuv starts has SIGPIPE's default; a program that users of LuaSocket start may ignore SIGPIPE.
    it("survives a server that closes a connection while two requests are on their way to it", function()
        local listener = assert(socket.bind("127.0.0.1", 0))
        local pipe = assert(io.popen(("echo $$; LD_PRELOAD= exec env --default-signal=PIPE lua5.4 %s --target 127.0.0.1:%d "
            .. "--owner %d </dev/null"):format(cluster.quote(cluster.root .. "/tools/faultproxy.lua"),
            select(2, listener:getsockname()), cluster.process_id())))
        local pid = pipe:read("*l")
        local clients, commands = pipe:read("*l"):match("%d+$"), pipe:read("*l"):match("%d+$")
        local requests = socket.connect("127.0.0.1", tonumber(clients))
        local accepted = listener:accept()
        -- The proxy is stopped, so that it sees the requests and the end in one turn, in this order.
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

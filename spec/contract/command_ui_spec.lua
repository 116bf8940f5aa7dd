--- `zklock ui`: what it serves, whom it refuses, its limits, tokens, revoke, its end.

local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local events = require "spec.support.events"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local Model = require "zklock.ui.model"
local nginx = require "spec.support.nginx"
local prometheus = require "spec.support.prometheus"
local socket = require "socket"

--- Starts `zklock ui` on a free port. Returns the process, which has the field `port`, and `token` if one was printed.
local function start(path, words, options)
    local list = { "ui", "--listen", "127.0.0.1:0", path }
    for _, word in ipairs(words or {}) do
        list[#list + 1] = word
    end
    local process = commands.start(list, options)
    local line = process:line()
    process.port = assert(tonumber(line and line:match "^http://[^/:]+:(%d+)/"), line)
    process.token = line:match "#token=(%x+)$"
    return process
end

--- Sends a request as it is. Returns status, head and body.
local function send(port, text)
    local connection = assert(socket.connect("127.0.0.1", port))
    connection:settimeout(20)
    connection:send(text)
    local answer, _, part = connection:receive "*a"
    connection:close()
    answer = answer or part
    local head, body = answer:match "^(.-\r\n)\r\n(.*)$"
    return tonumber((head or ""):match "^HTTP/1.1 (%d+)"), head, body
end

local function get(port, target, headers)
    return send(port, ("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"):format(target, headers or ""))
end

local function post(port, target, body, headers)
    return send(port, ("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n%s\r\n%s"):format(target, #body, headers or "",
        body))
end

--- Starts `zklock ui` on a unix socket.
local function start_on_socket(path)
    return commands.start { "ui", "--listen", "unix:" .. path, fixture.directory() }
end

--- Returns what a command of the shell prints.
local function read_output(command)
    local pipe = io.popen(command)
    local output = pipe:read "*a"
    pipe:close()
    return output
end

--- Returns the page that is served on a unix socket.
local function page_of(path)
    return read_output("LD_PRELOAD= curl -s --unix-socket " .. path .. " http://localhost/")
end

--- Ends the process by a signal, and returns its exit code.
local function stop(process)
    process:signal "TERM"
    return process:finish().status
end

describe("zklock ui", function()
    after_each(fixture.clean)

    it("serves page, table and events on the local machine, and ends by a signal", function()
        local top = fixture.directory()
        fixture.join(top .. "/a", nil, "<script>alert(1)</script>")
        local process = start(top)
        local status, head, body = get(process.port, "/")
        assert.equal(200, status)
        local hash = "'sha256%-[%w+/]+='"
        assert.truthy(head:find(("default%%-src 'none'; script%%-src %s; style%%-src %s; connect%%-src 'self'"):format(hash, hash)))
        assert.truthy(body:find "</html>%s*$")
        assert.equal(304, (get(process.port, "/", "If-None-Match: " .. head:match "ETag: ([^\r]+)" .. "\r\n")))
        eventually(function()
            body = select(3, get(process.port, "/?table"))
            return body:find("&lt;script&gt;alert", 1, true)
        end)
        assert.is_nil(body:find("<script>", 1, true))
        local viewer = events.open(process.port, "/?events") -- everything was read before: the table has shown it
        local event = viewer:next()
        assert.same({ "snapshot", top .. "/a" }, { event.event, event.locks[1].path })
        fixture.join(top .. "/a", nil, "two")
        event = viewer:await(function(one)
            return one.locks[1] and one.locks[1].waiters == 1 and one
        end)
        assert.equal("change", event.event)
        assert.equal(143, stop(process))
        assert.equal("end", viewer:finish(10))
    end)

    it("has metrics, in which promtool finds no fault", function()
        local top = fixture.directory()
        fixture.join(top .. '/odd "name"', nil, "one")
        local process = start(top)
        local text = eventually(function()
            local status, head, body = get(process.port, "/metrics")
            assert.equal(200, status)
            assert.truthy(head:find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n", 1, true), head)
            return body:find("zklock_lock_holders", 1, true) and body, body
        end)
        assert.truthy(text:find(('zklock_lock_holders{path="%s/odd \\"name\\""} 1\n'):format(top), 1, true), text)
        local output, code = prometheus.tool({ "check", "metrics" }, text)
        assert.same({ "", 0 }, { output, code })
    end)

    it("refuses what is no request for it", function()
        local process = start(fixture.directory())
        local port = process.port
        assert.equal(421, (send(port, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")))
        assert.equal(421, (send(port, "GET / HTTP/1.1\r\n\r\n")))
        for _, name in ipairs {
            "127.0.0.1.evil.example", "localhost.evil.example", "evil@localhost", "localhost:80:80", "[::1]x"
        } do
            assert.equal(421, (send(port, ("GET / HTTP/1.1\r\nHost: %s\r\n\r\n"):format(name))))
        end
        assert.equal(200, (send(port, "GET / HTTP/1.1\r\nHost: [::1]:8420\r\n\r\n")))
        assert.equal(400, (send(port, "nonsense\r\n\r\n")))
        assert.equal(400, (send(port, "GET / HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n")))
        assert.equal(400, (send(port, "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")))
        assert.equal(400, (send(port, "GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n")))
        assert.equal(405, (send(port, "DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n")))
        assert.equal(405, (post(port, "/?revoke", "lock=/a&confirm=/a")))
        assert.equal(413, (send(port, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n")))
        assert.equal(431, (send(port, "GET / HTTP/1.1\r\nHost: localhost\r\nX: " .. ("x"):rep(9000) .. "\r\n\r\n")))
        assert.equal(505, (send(port, "GET / HTTP/3.0\r\nHost: localhost\r\n\r\n")))
        for _, field in ipairs { "Host: localhost\nX: y", "Host: localhost\r\nX: \0", "Host: localhost\r\nX: \27[2J" } do
            assert.equal(400, (send(port, "GET / HTTP/1.1\r\n" .. field .. "\r\n\r\n")))
        end
        for _, target in ipairs { "/etc/passwd", "/../etc/passwd", "/%2e%2e/", "//evil.example/", "http://localhost/", "*" } do
            assert.equal(404, (get(port, target)))
        end
        assert.equal(403, (get(port, "/?events", "Origin: http://evil.example\r\n")))
        assert.equal(403, (get(port, "/?events", "Sec-Fetch-Site: cross-site\r\n")))
        local status, _, body = send(port, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert.same({ 200, "" }, { status, body })
        assert.equal(200, (get(port, "/"))) -- it has survived all of that
    end)

    it("has room for so many connections, and takes new ones in place of those that wait for a request", function()
        local top = fixture.directory()
        local process = start(top)
        local viewer, all = events.open(process.port, "/?events"), {}
        viewer:next()
        for index = 1, 250 do
            all[index] = assert(socket.connect("127.0.0.1", process.port))
            all[index]:send "GET / HTTP/1.1\r\n"
        end
        assert.equal(200, (get(process.port, "/")))
        local closed = 0
        for _, connection in ipairs(all) do
            connection:settimeout(0)
            local _, problem = connection:receive(1)
            closed = closed + (problem == "closed" and 1 or 0)
        end
        assert.equal(52, closed) -- of 252 connections, 200 are kept; the viewer and the request are among them
        fixture.join(top .. "/a", nil, "one")
        viewer:await(function(event)
            return event.locks[1]
        end)
        for _, connection in ipairs(all) do
            connection:close()
        end
    end)

    it("sends a snapshot whatever id a browser has seen last", function()
        local top = fixture.directory()
        fixture.join(top .. "/a", nil, "one")
        local process = start(top)
        for _, id in ipairs { "0-0", ("9"):rep(4000), "1e999", "-1", "%s%n", "\255" } do
            local event = events.open(process.port, "/?events", "Last-Event-ID: " .. id .. "\r\n"):await(function(one)
                return one.locks[1] and one
            end)
            assert.equal(top .. "/a", event.locks[1].path)
        end
    end)

    it("has room for so many viewers, and refuses others", function()
        local top = fixture.directory()
        local process = start(top)
        local all = {}
        for index = 1, Model.VIEWERS do
            all[index] = events.open(process.port, index % 2 == 0 and "/?events" or "/?events&lock=/other")
        end
        assert.equal(503, events.open(process.port, "/?events").status)
        local status, head, body = send(process.port, "HEAD /?events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert.same({ 503, "" }, { status, body })
        assert.truthy(head:find("X-Zklock: full\r\n", 1, true))
        fixture.join(top .. "/a", nil, "one")
        all[2]:await(function(event)
            return event.locks[1]
        end)
        all[1]:close()
        eventually(function()
            all[1] = events.open(process.port, "/?events")
            return all[1].status == 200
        end)
        assert.truthy(all[1]:next())
    end)

    it("needs a token elsewhere than on the local machine, which works once", function()
        local process = start(fixture.directory(), { "--listen", "0.0.0.0:0" })
        assert.truthy(process.token)
        local name = io.popen("uname -n"):read "*l" -- is in the address, so it is a name of the server
        assert.equal(200, (send(process.port, ("GET / HTTP/1.1\r\nHost: %s\r\n\r\n"):format(name))))
        assert.equal(200, (get(process.port, "/"))) -- the page itself has no secret
        assert.equal(401, (get(process.port, "/?events")))
        assert.equal(401, (get(process.port, "/metrics")))
        assert.equal(403, (post(process.port, "/?login", ("0"):rep(32))))
        local status, head = post(process.port, "/?login", process.token)
        assert.equal(204, status)
        local cookie = assert(head:match "Set%-Cookie: (zklock_ui=%x+); HttpOnly; SameSite=Strict")
        assert.equal(200, (get(process.port, "/?table", "Cookie: " .. cookie .. "\r\n")))
        assert.equal(403, (post(process.port, "/?login", process.token)))
        assert.truthy(process:line():match "#token=%x+$" ~= process.token) -- for the next viewer
        assert.equal(401, (get(process.port, "/?table", "Cookie: zklock_ui=00\r\nX-Forwarded-For: 127.0.0.1\r\n")))
    end)

    it("asks holders to release with --allow-revoke, by the page's token and a confirmation", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/a b", nil, "one")
        local process = start(top, { "--allow-revoke", "--host", "locks.example" })
        local viewer = events.open(process.port, "/?events")
        local event = viewer:await(function(one)
            return one.locks[1] and one
        end)
        local token = "X-Zklock-Token: " .. event.frame.revoke .. "\r\n"
        local path = (top .. "/a b"):gsub("[/ ]", { ["/"] = "%2F", [" "] = "+" })
        local body = ("lock=%s&confirm=%s"):format(path, path)
        assert.equal(403, (post(process.port, "/?revoke", body)))
        assert.equal(403, (post(process.port, "/?revoke", body, "X-Zklock-Token: 00\r\n")))
        assert.equal(403, (post(process.port, "/?revoke", body, token .. "Sec-Fetch-Site: same-site\r\n")))
        for _, origin in ipairs { "http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil.example", "" } do
            assert.equal(403, (post(process.port, "/?revoke", body, token .. "Origin: " .. origin .. "\r\n")))
        end
        assert.equal(400, (post(process.port, "/?revoke", "lock=" .. path, token)))
        assert.equal(400, (post(process.port, "/?revoke", "lock=/other&confirm=/other", token)))
        assert.equal("one", (fixture.observer():get(node)))
        for _, origin in ipairs { "", "Origin: http://127.0.0.1\r\n", "Origin: https://locks.example\r\n" } do
            local status, _, answer = post(process.port, "/?revoke", body, token .. origin)
            assert.equal(200, status)
            assert.truthy(answer:find '"asked":1')
        end
        assert.equal("__REVOKE__", (fixture.observer():get(node)))
    end)

    it("listens on a unix socket that only its user may open, and removes it", function()
        local path = commands.directory() .. "/ui.sock"
        local process = start_on_socket(path)
        assert.equal("listening on the unix socket " .. path, process:line())
        assert.equal("600\n", read_output("stat -c %a " .. path))
        assert.truthy(page_of(path):find "</html>%s*$")
        assert.equal(143, stop(process))
        assert.equal("", read_output("ls -A " .. path:match "^(.*)/"))
    end)

    it("takes over a unix socket that a killed one has left behind, and none on which a program listens", function()
        local path = commands.directory() .. "/ui.sock"
        local first = start_on_socket(path)
        assert.truthy(first:line())
        local refused = start_on_socket(path):finish()
        assert.equal(125, refused.status)
        assert.truthy(refused.errors:find(("a program listens on %s already"):format(path), 1, true), refused.errors)
        assert.truthy(page_of(path):find "</html>%s*$")
        first:signal "KILL"
        first:finish()
        local all, listening = { start_on_socket(path), start_on_socket(path), start_on_socket(path) }, nil
        for _, process in ipairs(all) do -- at the same time
            local line = process:line()
            assert.is_nil(line and listening)
            listening = line and process or listening
        end
        assert.truthy(page_of(path):find "</html>%s*$")
        assert.equal(143, stop(listening))
        assert.equal("", read_output("ls -A " .. path:match "^(.*)/"))
    end)

    it("leaves a file alone that is no socket, and refuses a path that is too long", function()
        local path = commands.directory() .. "/precious"
        files.write(path, "data")
        local result = start_on_socket(path):finish()
        assert.equal(125, result.status)
        assert.truthy(result.errors:find(path .. " is no socket", 1, true), result.errors)
        assert.equal("data", files.read(path))
        result = start_on_socket(path .. ("x"):rep(100)):finish()
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("the path is too long", 1, true), result.errors)
        assert.equal("precious\n", read_output("ls -A " .. path:match "^(.*)/"))
    end)

    it("ends by each signal while viewers are connected, also one that reads nothing", function()
        for name, status in pairs { INT = 130, TERM = 143, HUP = 129 } do
            local top = fixture.directory()
            local process = start(top)
            local viewer, idle = events.open(process.port, "/?events"), events.open(process.port, "/?events")
            viewer:next()
            process:signal(name)
            assert.equal(status, process:finish().status)
            assert.equal("end", viewer:finish(20))
            idle:close()
            fixture.await_unwatched(top)
        end
    end)

    it("says what is missing while ZooKeeper cannot be reached", function()
        local process = start("/locks", nil, { servers = "127.0.0.1:1" })
        local viewer = events.open(process.port, "/?events")
        assert.equal("connecting", viewer:next().frame.state)
        viewer:close()
        assert.truthy(select(3, get(process.port, "/?table")):find("ZooKeeper: connecting", 1, true))
        assert.equal(143, stop(process))
    end)

    it("explains mistakes in its usage", function()
        for _, case in ipairs {
            { { "ui", "no/path" }, "bad path" }, { { "ui", "--listen", "nowhere" }, "must be an address" },
            { { "ui", "--listen", "192.0.2.1:1" }, "cannot listen at 192.0.2.1:1: address not available" },
            { { "ui", "--listen", "127.0.0.1:" .. fixture.servers():match ":(%d+)" },
                "address already in use" }
        } do
            local result = commands.run(case[1])
            assert.equal(125, result.status)
            assert.truthy(result.errors:find(case[2], 1, true), result.errors)
        end
    end)

    it("forgets a viewer that has gone, and leaves no watch behind", function()
        local top = fixture.directory()
        local process = start(top)
        local viewer = events.open(process.port, "/?events")
        viewer:next()
        assert.truthy(nginx.get({ port = process.port }, "/"))
        viewer:close()
        local again = events.open(process.port, "/?events")
        eventually(function()
            return again:next().frame.viewers == 1 -- beats come while nothing changes
        end)
        assert.equal(143, stop(process))
        fixture.await_unwatched(top)
    end)
end)

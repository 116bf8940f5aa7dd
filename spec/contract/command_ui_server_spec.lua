--- The HTTP server of `zklock ui` (zklock.ui.server) with clients that stall. Server and clients run in one loop, the server with a
-- model of the spec and with short limits.

local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local Server = require "zklock.ui.server"
local uv = require "luv"

--- What a viewer is sent that is to be slow: more than the kernel takes.
local LONG = "data: " .. ("x"):rep(16777216) .. "\n\n"

local to_close = {}

--- Starts a server. Its model has a `revision`; the viewers of "long" get LONG for each, others a short message. It counts the
-- messages of each path.
local function start(limits)
    local model = { viewers = {}, revision = 1, stopped = false, messages = {} }
    function model.add_viewer(_, path, wake)
        local viewer = { path = path or "", seen = 0, wake = wake }
        model.viewers[viewer] = true
        return viewer
    end
    function model.remove_viewer(_, viewer)
        model.viewers[viewer] = nil
    end
    function model.message(_, viewer)
        if viewer.seen == model.revision then
            return nil
        end
        viewer.seen = model.revision
        model.messages[viewer.path] = (model.messages[viewer.path] or 0) + 1
        return viewer.path == "long" and LONG or ("data: %d\n\n"):format(viewer.seen)
    end
    local app = { model = model, respond = function(_, request)
        if request.query == "slow" then
            coroutine.yield() -- as for a request that waits for ZooKeeper
        end
        return { status = 200, headers = {}, body = "answer", events = request.query:match "^events=?(.*)$" }
    end }
    local problems = {}
    local server = assert(Server.start(app, { host = "127.0.0.1", port = 0 }, function(text)
        problems[#problems + 1] = text
    end, limits))
    to_close[#to_close + 1] = function()
        server:stop()
        assert.same({}, problems)
    end
    return server, model
end

--- Runs the loop until a condition holds.
local function await(condition, what)
    eventually(function()
        uv.run "nowait"
        return condition()
    end, nil, what)
end

--- Connects a client that has sent a text. Its field `text` is what it has received; `ended` whether the server has ended the
-- connection. It reads nothing if `reads` is false.
local function connect(server, text, reads)
    local client = { handle = uv.new_tcp(), text = "", ended = false }
    to_close[#to_close + 1] = function()
        client.handle:close()
    end
    client.handle:connect("127.0.0.1", server.port, function(problem)
        assert(not problem, problem)
        client.handle:write(text)
        if reads ~= false then
            client.handle:read_start(function(wrong, chunk)
                client.ended = client.ended or wrong ~= nil or not chunk
                client.text = client.text .. (chunk or "")
            end)
        end
    end)
    return client
end

local function get(query)
    return ("GET /?%s HTTP/1.1\r\nHost: localhost\r\n\r\n"):format(query)
end

--- Gives all viewers something new.
local function publish(model)
    model.revision = model.revision + 1
    for viewer in pairs(model.viewers) do
        viewer.wake()
    end
end

local function count(set)
    local number = 0
    for _ in pairs(set) do
        number = number + 1
    end
    return number
end

describe("the server of zklock ui", function()
    after_each(function()
        while to_close[1] do
            table.remove(to_close)()
        end
        uv.run "nowait"
    end)

    it("answers 408 to a request that stays unfinished, also if it goes on slowly", function()
        local server = start { read = 0.5 }
        local silent = connect(server, "GET / HTTP/1.1\r\n")
        local body = connect(server, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nlogin")
        local slow, drops = connect(server, "GET / HTTP/1.1\r\nX: "), uv.new_timer()
        drops:start(20, 20, function()
            slow.handle:try_write "x"
        end)
        for _, client in ipairs { silent, body, slow } do
            await(function()
                return client.ended
            end, "the end of a request that is unfinished")
        end
        drops:close()
        assert.truthy(silent.text:find "^HTTP/1.1 408 Request Timeout\r\n")
        assert.truthy(body.text:find "^HTTP/1.1 408 ")
        assert.same({}, server.connections)
    end)

    it("answers a request whose rest came while the program stood still", function()
        local server, now = start(), core.now
        local client = connect(server, "GET / HTTP/1.1\r\n")
        await(function()
            local connection = next(server.connections)
            return connection and connection.received[1]
        end, "the first line")
        client.handle:try_write "Host: localhost\r\n\r\n"
        uv.sleep(1100) -- the next look at all connections is due
        core.now = function()
            return now() + 100
        end
        uv.run "nowait"
        core.now = now
        await(function()
            return client.ended
        end, "the answer")
        assert.truthy(client.text:find("^HTTP/1.1 200 OK\r\n"), client.text)
    end)

    it("keeps one message for a viewer that does not read, while others get theirs", function()
        local server, model = start()
        local idle, quick = connect(server, get "events=long", false), connect(server, get "events=short")
        await(function()
            return model.messages.long and quick.text:find "data: 1\n"
        end)
        for revision = 2, 20 do
            publish(model)
            await(function()
                return quick.text:find(("data: %d\n"):format(revision), 1, true)
            end)
        end
        assert.same({ long = 1, short = 20 }, model.messages)
        idle.handle:read_start(function(_, chunk)
            idle.size = (idle.size or 0) + #(chunk or "")
        end)
        await(function()
            return (idle.size or 0) > 2 * #LONG
        end)
        assert.equal(2, model.messages.long) -- the second has all that it has missed
    end)

    it("ends a viewer that does not take its message", function()
        local server, model = start { write = 0.5 }
        connect(server, get "events=long", false)
        await(function()
            return model.messages.long
        end)
        await(function()
            return next(model.viewers) == nil and next(server.connections) == nil
        end, "the end of a viewer that does not read")
    end)

    it("ends an answer, but no viewer, to make room", function()
        local server, model = start { connections = 3 }
        local viewers = { connect(server, get "events=short"), connect(server, get "events=short") }
        await(function()
            return count(model.viewers) == 2
        end)
        local waiting = connect(server, "GET")
        await(function()
            return count(server.connections) == 3
        end)
        local request = connect(server, get "")
        await(function()
            return request.ended and waiting.ended
        end)
        assert.truthy(request.text:find "\r\n\r\nanswer$")
        assert.equal("", waiting.text)
        assert.is_false(viewers[1].ended or viewers[2].ended)
        assert.equal(2, count(model.viewers))
    end)

    it("makes room beside idle viewers and requests that wait for ZooKeeper", function()
        local server, model = start { connections = 8 }
        for _ = 1, 4 do
            connect(server, get "events=short")
        end
        await(function()
            local idle = 0
            for connection in pairs(server.connections) do
                idle = idle + (connection.viewer and not connection.due and 1 or 0)
            end
            return idle == 4
        end)
        local slow = {}
        for index = 1, 4 do
            slow[index] = connect(server, get "slow")
        end
        await(function()
            local answered = 0
            for connection in pairs(server.connections) do
                answered = answered + (connection.answered and 1 or 0)
            end
            return answered == 8
        end)
        for _ = 1, 4 do
            local request = connect(server, get "")
            await(function()
                return request.ended
            end)
            assert.truthy(request.text:find "\r\n\r\nanswer$")
        end
        assert.is_true(slow[1].ended)
        assert.equal(4, count(model.viewers))
    end)

    it("closes a new connection if there are only viewers", function()
        local server, model = start { connections = 1 }
        local viewer = connect(server, get "events=short")
        await(function()
            return next(model.viewers)
        end)
        local other = connect(server, get "")
        await(function()
            return other.ended
        end)
        assert.is_false(viewer.ended)
        assert.equal(1, count(server.connections))
    end)
end)

--- Requests that an event loop lets the client hold back, so that they go out together (csrc/client/client.h, zkl_client_hold).

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local socket = require "socket"

after_each(fixture.clean)

local PATIENCE = 60

--- The kernel sends after 200 ms what is held back, and the I/O thread at its next turn. One of so many tries must see neither.
local TRIES = 50

--- Returns the bytes that a connection has now.
local function arrived(connection)
    connection:settimeout(0)
    local data, _, part = connection:receive(65536)
    return data or part
end

--- Starts a connection between a client and a server that goes through this test: `forward(times)` lets bytes pass both ways.
local function go_between()
    local listener = assert(socket.bind("127.0.0.1", 0))
    local _, port = listener:getsockname()
    local host, server_port = fixture.servers():match("^([^:,]+):(%d+)")
    local own = { address = "127.0.0.1:" .. port }
    fixture.remember({ stop = function()
        for _, one in pairs({ listener, own.client or nil, own.server or nil }) do
            one:close()
        end
    end })

    function own.accept()
        listener:settimeout(PATIENCE)
        own.client = assert(listener:accept())
        own.server = assert(socket.connect(host, tonumber(server_port)))
    end

    function own.forward()
        socket.select({ own.client, own.server }, nil, 0.05)
        for _, way in ipairs({ { own.client, own.server }, { own.server, own.client } }) do
            local data = arrived(way[1])
            way[2]:settimeout(PATIENCE)
            assert(data == "" or way[2]:send(data))
        end
    end

    return own
end

describe("requests that are held back", function()
    local client, between

    --- Asks for a lock of its own, and does not wait.
    local function ask(name)
        assert(client:mutex(fixture.path() .. name):acquire({ timeout = PATIENCE, callback = function() end }))
    end

    before_each(function()
        between = go_between()
        client = fixture.client({ connect_timeout = 0, session_timeout = 60 }, between.address)
        between.accept()
        local deadline = socket.gettime() + PATIENCE
        while client:state() ~= "connected" do
            assert(socket.gettime() < deadline)
            between.forward()
        end
    end)

    it("leave together when they are pushed, and not before", function()
        local held = false
        for try = 1, TRIES do
            for index = 1, 4 do
                ask(("/%d-%d"):format(try, index)) -- their replies are due as long as nothing is forwarded
            end
            eventually(function()
                return client:desk().core:hold()
            end, PATIENCE)
            client:desk().core:push()
            arrived(between.client)
            eventually(function() -- the push above had nothing to send, so some holds are left out
                return client:desk().core:hold()
            end, PATIENCE)
            ask(("/%d-5"):format(try))
            ask(("/%d-6"):format(try))
            local before = arrived(between.client)
            client:desk().core:push()
            if before == "" then
                socket.select({ between.client }, nil, PATIENCE)
                if arrived(between.client) ~= "" then
                    held = true
                    break
                end
            end
        end
        assert.is_true(held)
    end)

    it("are not worth it as long as few replies are due", function()
        assert.is_false(client:desk().core:hold())
        ask("/alone")
        assert.equal(1, #socket.select({ between.client }, nil, PATIENCE))
    end)
end)

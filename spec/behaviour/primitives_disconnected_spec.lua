--- A client's own reads and writes when the connection is lost, or the credentials are refused.

local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local primitives = require "spec.support.primitives"
local zklock = require "zklock"

local assert_code = primitives.assert_code

describe("without a connection, a client", function()
    after_each(fixture.clean)

    local function behind_proxy(session_timeout)
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = session_timeout or 30 })
        local path = fixture.path()
        assert(client:create(path, "data"))
        return client, link, path
    end

    local function suspend(client, link)
        fixture.cut_off(client, link)
    end

    it("waits for a connection within the timeout, and names the problem #asan", function()
        local client, link, path = behind_proxy()
        suspend(client, link)
        assert_code("disconnected", { "reading " .. path, "0.2 s", link.address }, client:get(path, { timeout = 0.2 }))
        assert_code("disconnected", { "writing " .. path, "may or may not" },
            client:set(path, "x", { timeout = 0.2 }))
        link:accept()
        assert.equal("data", (client:get(path, { timeout = 30 })))
        assert(client:flush(20))
        assert.equal("data", (fixture.observer():get(path))) -- an operation that was abandoned before it was sent is never sent
    end)

    it("executes after the reconnect, in order, what was requested meanwhile", function()
        local client, link, path = behind_proxy()
        suspend(client, link)
        local stats, functions = {}, {}
        for index = 1, 5 do
            functions[index] = function()
                stats[index] = assert(client:set(path, tostring(index), { timeout = 30 }))
            end
        end
        functions[6] = function()
            link:accept()
        end
        loop.run_all(functions)
        for index = 1, 5 do
            assert.equal(index, stats[index].version)
        end
        assert.equal("5", (fixture.observer():get(path)))
    end)

    it("answers disconnected if the server does not answer in time", function()
        local client, link, path = behind_proxy()
        link:arm("set", "stall-reply")
        assert_code("disconnected", { "writing " .. path, "may or may not" }, client:set(path, "x", { timeout = 0.3 }))
        link:wait_fired()
        link:resume()
        assert.equal("x", (client:get(path, { timeout = 20 })))
    end)

    for _, moment in ipairs({ "before", "after" }) do
        it(("repeats a read that was cut %s the server had it #asan"):format(moment), function()
            local client, link, path = behind_proxy()
            link:arm("get", moment)
            assert.equal("data", (client:get(path, { timeout = 30 })))
            link:wait_fired()
            link:arm("children", moment)
            assert.same({}, (client:children(path, { timeout = 30 })))
            link:wait_fired()
            link:arm("sync", moment)
            assert.is_true(client:sync(path, { timeout = 30 }))
            link:wait_fired()
        end)

        it(("does not repeat a write that was cut %s the server had it, but answers disconnected #asan"):format(moment), function()
            local client, link, path = behind_proxy()
            link:arm("set", moment)
            assert_code("disconnected", { "writing '" .. path .. "'", "not known" },
                client:set(path, "x", { timeout = 30 }))
            link:wait_fired()
            assert.equal(moment == "after" and 1 or 0, client:exists(path, { timeout = 30 }).version)
            link:arm("create", moment)
            assert_code("disconnected", { "creating", "not known" }, client:create(path .. "/x", "", { timeout = 30 }))
            link:wait_fired()
            assert.equal(moment == "after" and 1 or 0, #client:children(path, { timeout = 30 }))
            link:arm("delete", moment)
            assert_code("disconnected", { "deleting", "not known" }, client:delete(path .. "/x", { timeout = 30 }))
            link:wait_fired()
            assert.same({}, (client:children(path, { timeout = 30 })))
        end)
    end

    it("answers auth_failed if its credentials are refused", function()
        local client = zklock.connect(fixture.servers(),
            { connect_timeout = 0, auth = { { scheme = "nonsense", credential = "x" } } })
        assert_code("auth_failed", {}, client:get("/", { timeout = 20 }))
        assert_code("auth_failed", {}, client:set("/a", "", { timeout = 20 }))
        client:close()
    end)
end)

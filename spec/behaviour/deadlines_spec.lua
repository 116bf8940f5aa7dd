--- Deadlines: a call that cannot succeed takes exactly the time that it was given.

local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local takes = require "spec.support.takes"
local zklock = require "zklock"

describe("connect gives up exactly when its time is up", function()
    after_each(fixture.clean)

    local function fails_within(seconds, servers)
        takes(seconds, function()
            local client, _, code = zklock.connect(servers, { connect_timeout = seconds })
            assert.is_nil(client)
            assert.equal("disconnected", code)
        end)
    end

    it("where connections are refused", function()
        local _, link = fixture.client_behind_proxy()
        link:refuse()
        link:cut()
        fails_within(0.5, link.address)
        fails_within(3, link.address)
    end)

    it("where no server answers", function()
        local _, link = fixture.client_behind_proxy()
        link:stall()
        fails_within(0.5, link.address)
        fails_within(3, link.address)
    end)
end)

describe("a wait for a lock ends exactly when its time is up", function()
    after_each(fixture.clean)

    it("with a message that has three digits of a time that was computed", function()
        local path = fixture.path()
        fixture.join(path)
        local lock = fixture.loop_client({}, 30):mutex(path)
        loop.run(function()
            for seconds, text in pairs { [0.0123456] = "within 0.0123 s:", [1.0] = "within 1 s:", [1.98765] = "within 1.99 s:" } do
                local _, message = lock:acquire(seconds)
                assert.truthy(message:find(text, 1, true), message)
            end
        end)
    end)

    for _, seconds in ipairs { 0.2, 1, 7.5 } do
        it(("with the code timeout, after %g seconds"):format(seconds), function()
            local client = fixture.loop_client({}, 30)
            local path = fixture.path()
            fixture.join(path)
            for _, lock in ipairs { client:mutex(path), client:rwlock(path).read, client:multi { client:mutex(path) } } do
                loop.run(function()
                    takes(seconds, function()
                        assert.equal("timeout", select(3, lock:acquire(seconds)))
                    end)
                end)
            end
        end)

        it(("with the code disconnected where a server hangs, after %g seconds"):format(seconds), function()
            local client, link = fixture.client_behind_proxy { wait = loop, session_timeout = 30 }
            local path, latch = fixture.path(), client:latch(fixture.path(), 1)
            local _, watch = client:exists(path, { watch = true, timeout = 10 })
            link:stall()
            loop.run(function()
                for _, kind in ipairs(kinds) do
                    local lock = kind.new(client, path)
                    for _, each in ipairs { lock, client:multi { kind.new(client, path .. "-multi") } } do
                        takes(seconds, function()
                            assert.equal("disconnected", select(3, each:acquire(seconds)))
                        end)
                    end
                end
                assert.equal("disconnected", select(3, latch:wait(seconds)))
                assert.equal("disconnected", select(3, client:get(path, { timeout = seconds })))
                local _, message, code = watch:wait(seconds)
                assert.equal("timeout", code)
                assert.truthy(message:find("no change of " .. path, 1, true), message)
                assert.truthy(message:find(": .*ZooKeeper at "), message)
            end)
            link:resume()
        end)
    end
end)

describe("a max_hold ends a hold exactly when its time is up", function()
    after_each(fixture.clean)

    for _, seconds in ipairs { 0.3, 2, 9 } do
        it(("of %g seconds"):format(seconds), function()
            local lock = fixture.loop_client({}, 30):mutex(fixture.path(), { max_hold = seconds })
            loop.run(function()
                takes(seconds, function()
                    assert(lock:acquire(10))
                    loop.until_true(function()
                        return not lock:held()
                    end)
                end)
            end)
        end)
    end
end)

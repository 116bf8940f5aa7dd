--- What `log` is told when a client is opened in a way that is not safe.

local credentials = require "spec.support.credentials"
local fixture = require "spec.support.fixture"
local zklock = require "zklock"

describe("connect", function()
    after_each(fixture.clean)

    --- Opens a client without waiting. Returns the lines that warn of credentials.
    local function warnings(servers, options)
        local lines = {}
        options.connect_timeout = 0
        options.log = function(level, text)
            if text:find("credentials", 1, true) then
                lines[#lines + 1] = level .. ": " .. text
            end
        end
        local client = assert(zklock.connect(servers, options))
        fixture.on_clean(function()
            client:close()
        end)
        client:pump()
        return lines
    end

    local auth = credentials.digest("fleet:" .. credentials.SECRET)

    it("warns once of credentials that are sent to another machine without TLS", function()
        assert.same({ "warn: the credentials go to '192.0.2.7' unencrypted: " ..
            "everyone on the way can read them; use the option tls" },
            warnings("127.0.0.1,192.0.2.7:2181,192.0.2.8:2181/chroot", { auth = auth }))
        assert.equal(1, #warnings("[2001:db8::1]:2181", { auth = auth }))
        assert.equal(1, #warnings("127.example:2181", { auth = auth }))
    end)

    it("does not warn where nobody can listen, or there is nothing to hear", function()
        assert.same({}, warnings("127.0.0.1:2181,localhost,[::1]:2181,127.8.8.8:1/chroot", { auth = auth }))
        assert.same({}, warnings("192.0.2.7:2181", {}))
        assert.same({}, warnings("192.0.2.7:2181", { auth = {} }))
    end)

    it("survives a log that raises, and does not pass the credentials to it", function()
        local seen = ""
        assert(zklock.connect("192.0.2.7:2181", { connect_timeout = 0, auth = auth, log = function(_, text)
            seen = seen .. text
            error("log")
        end })):close()
        assert.truthy(seen:find("unencrypted", 1, true))
        assert.is_nil(seen:find(credentials.SECRET, 1, true))
    end)
end)

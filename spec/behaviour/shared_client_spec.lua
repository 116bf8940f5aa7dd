--- Which client zklock.shared returns.

local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local zklock = require "zklock"

after_each(fixture.clean)

--- Returns what zklock.shared returns, and closes it after the spec.
local function shared(settings)
    local client = assert(zklock.shared(fixture.servers(), settings))
    fixture.on_clean(function()
        client:close()
    end)
    return client
end

describe("a shared client", function()
    it("is the same for the same options, in whatever order, and however often", function()
        local client = shared({ wait = loop, session_timeout = 21, identity = "me" })
        for _ = 1, 3 do
            assert.equal(client, shared({ identity = "me", session_timeout = 21, wait = loop }))
        end
        local settings = {}
        settings.session_timeout, settings.identity, settings.connect_timeout, settings.wait = 21, "me", 3, loop
        assert.equal(client, shared(settings))
    end)

    it("is another one if an option has another value, is missing, or is added", function()
        local client = shared({ wait = loop, session_timeout = 22, identity = "me" })
        for _, settings in ipairs({
            { session_timeout = 23, identity = "me" },
            { session_timeout = 22, identity = "you" },
            { session_timeout = 22 },
            { session_timeout = 22, identity = "me", lease = false },
            { session_timeout = 22, identity = "me", auth = { { scheme = "digest", credential = "a:b" } } }
        }) do
            settings.wait = loop
            local other = shared(settings)
            assert.not_equal(client, other)
            assert.equal(other, shared(settings))
            assert.equal(client, shared({ wait = loop, session_timeout = 22, identity = "me" }))
        end
    end)

    it("is another one for other credentials", function()
        local function of(credential)
            return shared({ wait = loop, session_timeout = 24, auth = { { scheme = "digest", credential = credential } } })
        end
        local client = of("a:b")
        assert.equal(client, of("a:b"))
        assert.not_equal(client, of("a:c"))
        assert.equal(client, of("a:b"))
    end)

    it("is opened again after it was closed", function()
        local settings = { wait = loop, session_timeout = 25 }
        local client = shared(settings)
        assert.equal(client, shared(settings))
        client:close()
        local other = shared(settings)
        assert.not_equal(client, other)
        assert.equal(other, shared(settings))
    end)

    it("is refused a bad option, also after a good call", function()
        shared({ wait = loop, session_timeout = 26 })
        for _, settings in ipairs({ { session_timeout = 26, typo = 1 }, { session_timeout = "26" } }) do
            settings.wait = loop
            assert.has_error(function()
                zklock.shared(fixture.servers(), settings)
            end)
        end
    end)
end)

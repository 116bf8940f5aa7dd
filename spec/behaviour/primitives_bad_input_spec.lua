--- A client's own reads, writes and watches refuse invalid arguments.

local fixture = require "spec.support.fixture"
local mistake = require "spec.support.mistake"

describe("a primitive refuses", function()
    local client

    setup(function()
        client = fixture.client({ connect_timeout = 0 }, "127.0.0.1:1")
    end)

    teardown(fixture.clean)

    local paths = { 5, {}, "", "a", "/a/", "/a//b", "/a/../b", "/a\0", "/\255" }
    local methods = { "get", "set", "create", "delete", "exists", "children", "sync" }
    for _, method in ipairs(methods) do
        it("invalid paths: " .. method .. " #asan", function()
            for _, path in ipairs(paths) do
                mistake(function()
                    client[method](client, path)
                end, "client:" .. method, "path")
            end
            mistake(function()
                client[method](client)
            end, "client:" .. method, "path", "nil")
        end)

        it("invalid settings: " .. method, function()
            local data = (method == "set" or method == "create") and "" or nil
            local function call(settings)
                local object = client
                if data then
                    object[method](object, "/a", data, settings)
                else
                    object[method](object, "/a", settings)
                end
            end
            mistake(function()
                call({ timeout = -1 })
            end, "client:" .. method, "'timeout'")
            mistake(function()
                call({ versoin = 1 })
            end, "client:" .. method, "unknown option 'versoin'", "timeout")
            mistake(function()
                call(5)
            end, "client:" .. method, "table")
        end)

        it("a call with a dot instead of a colon: " .. method, function()
            mistake(function()
                client[method]("/a")
            end, "client:" .. method, "colon")
        end)
    end

    it("to write where writing is not allowed", function()
        for _, path in ipairs({ "/zookeeper", "/zookeeper/quota" }) do
            mistake(function()
                client:set(path, "")
            end, "client:set", "/zookeeper")
            mistake(function()
                client:create(path)
            end, "client:create", "/zookeeper")
            mistake(function()
                client:delete(path)
            end, "client:delete", "/zookeeper")
        end
        mistake(function()
            client:create("/")
        end, "client:create", "'/'")
        mistake(function()
            client:delete("/")
        end, "client:delete", "'/'")
    end)

    it("data that are not a string", function()
        mistake(function()
            client:set("/a", 5)
        end, "client:set", "data", "got 5")
        mistake(function()
            client:create("/a", {})
        end, "client:create", "data", "a table")
    end)

    it("invalid versions", function()
        for _, version in ipairs({ -2, 0.5, 2147483648, "1", 0 / 0, {} }) do
            mistake(function()
                client:set("/a", "", { version = version })
            end, "client:set", "'version'")
            mistake(function()
                client:delete("/a", { version = version })
            end, "client:delete", "'version'")
        end
    end)

    it("settings of a wrong type, and settings that exclude each other", function()
        for name, value in pairs({ ephemeral = 1, sequential = "yes", container = 0, acl = "nobody" }) do
            mistake(function()
                client:create("/a", "", { [name] = value })
            end, "client:create", "'" .. name .. "'")
        end
        mistake(function()
            client:create("/a", "", { container = true, ephemeral = true })
        end, "client:create", "container")
        mistake(function()
            client:create("/a", "", { acl = "creator" })
        end, "client:create", "auth")
        mistake(function()
            client:get("/a", { watch = 1 })
        end, "client:get", "'watch'")
    end)

    it("invalid timeouts of a watch, and calls with a dot", function()
        local connected = fixture.client()
        local _, watch = connected:exists("/", { watch = true })
        mistake(function()
            watch:wait(-1)
        end, "watch:wait", "timeout")
        for _, method in ipairs({ "wait", "fired", "cancel", "path" }) do
            mistake(function()
                watch[method](5)
            end, "watch:" .. method, "colon")
        end
        fixture.clean()
    end)
end)

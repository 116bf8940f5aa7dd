--- The statements of docs/security.md about the notify socket: other users cannot reach it, and it is always removed.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

describe("the notify socket, a unix socket for event loops like nginx", function()
    after_each(fixture.clean)

    local function listening()
        local client = fixture.client()
        local path = assert(client:desk().core:listen())
        return client, path, assert(path:match("^(.*)/notify$"))
    end

    --- Returns what listen answers in another process with this TMPDIR, which then ends with the code `ending`.
    local function listen_elsewhere(parent, ending)
        local code = [[
            local client = require("zklock").connect("127.0.0.1:1", { connect_timeout = 0, wait = "blocking" })
            print(client:desk().core:listen())
            io.stdout:flush()
            ]] .. ending
        return (cluster.run(cluster.words(program.environment(), { "TMPDIR=" .. parent, program.interpreter(), "-e", code })))
    end

    it("is in a separate directory that only its user may enter, and both are removed at the first connection #once", function()
        local client, path, directory = listening()
        assert.equal("directory 700", (cluster.run({ "stat", "-c", "%F %a", directory })))
        assert.equal("socket", (cluster.run({ "stat", "-c", "%F", path })))
        local peer = assert(require "socket.unix"())
        assert(peer:connect(path))
        assert.is_true(client:desk().core:accept())
        assert.is_false(files.exists(directory))
        peer:close()
    end)

    it("is removed with its client even if there was no connection, and is not created again #once", function()
        local client, _, directory = listening()
        assert.is_true(files.exists(directory))
        client:close()
        assert.is_false(files.exists(directory))
        assert.is_nil((client:desk().core:listen()))
    end)

    it("is removed with a process that ends without closing anything #once", function()
        local path = listen_elsewhere("/tmp", "os.exit(0)")
        assert.truthy(path:find("^/tmp/zklock%-%w+/notify"))
        assert.is_false(files.exists(path:match("^(.*)/notify")))
    end)

    it("cannot be reached by other users #once", function()
        local as_nobody = { "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups" }
        if select(2, cluster.run({ as_nobody[1], as_nobody[2], as_nobody[3], as_nobody[4], "true" })) ~= 0 then
            return pending("needs root")
        end
        local _, path, directory = listening()
        for _, words in ipairs({ { "ls", directory }, { "stat", path }, { "rm", "-rf", directory },
            { "mv", directory, "/tmp/mine" }, { "ln", "-s", "/etc", directory .. "/x" } }) do
            local command = { as_nobody[1], as_nobody[2], as_nobody[3], as_nobody[4] }
            for _, word in ipairs(words) do
                command[#command + 1] = word
            end
            assert.is_true(select(2, cluster.run(command)) ~= 0, table.concat(words, " "))
        end
        assert.is_true(files.exists(path))
    end)

    it("has an abstract name if no directory can be made, and is never made in another user's directory #once", function()
        local trap = files.make_directory()
        local function listen_under(parent)
            return listen_elsewhere(parent, "client:close()")
        end
        assert.equal("", listen_under(trap .. "/none"))
        assert(cluster.run({ "ln", "-s", trap .. "/none", trap .. "/dangling" }))
        assert.equal("", listen_under(trap .. "/dangling"))
        assert.truthy(listen_under(trap):find("^" .. trap:gsub("%p", "%%%0") .. "/zklock%-%w+/notify"))
        assert.truthy(listen_under("relative"):find("^/tmp/zklock%-%w+/notify"))
        assert.truthy(listen_under("/" .. ("long/"):rep(20)):find("^/tmp/zklock%-%w+/notify"))
        assert.equal("dangling", (cluster.run({ "ls", trap })))
        cluster.run({ "rm", "-r", trap })
    end)
end)

--- Where `zklock` takes its settings from, and what it writes.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

--- Writes a file that only its owner may read. Returns its name.
local function write(name, text, mode)
    local path = commands.directory() .. "/" .. name
    local file = assert(io.open(path, "w"))
    assert(file:write(text))
    file:close()
    assert(os.execute(("chmod %s %s"):format(mode or "600", path)))
    return path
end

--- Starts a command under a lock with these variables and further words, and returns the process.
local function start(variables, words)
    local list = { "run" }
    for _, word in ipairs(words or {}) do
        list[#list + 1] = word
    end
    for _, word in ipairs { fixture.path(), "-c", 'echo "$ZKLOCK_IDENTITY"' } do
        list[#list + 1] = word
    end
    return commands.start(list, { variables = variables })
end

--- Runs a command as `start` does, and returns the result.
local function run(variables, words)
    return start(variables, words):finish()
end

describe("zklock says what an error is", function()
    it("without the place in a source where it was raised", function()
        local describe_error = require("zklock.cli.context").describe
        for _, case in ipairs {
            { "no lock", "no lock" }, { "/opt/x y/zklock/lock.lua:12: attempt to call a nil value", "attempt to call a nil value" },
            { "lua/zklock/cli/acquire.lua:80: client:mutex: bad path: too long", "bad path: too long" },
            { "...k/cli/acquire.lua:80: zklock.connect: h.example:21: no\nstack traceback:\n\t[C]: in ?", "h.example:21: no" },
            { "/x.lua:3: module 'zklock.ui' not found:\n\tno file 'x'", "module 'zklock.ui' not found" }
        } do
            assert.equal(case[2], describe_error(case[1]))
        end
    end)
end)

describe("zklock says what to install", function()
    after_each(fixture.clean)

    --- Runs zklock where only its own modules can be loaded, and those that are named.
    local function run_with(modules, ...)
        local words = commands.words({ ... }, { servers = "127.0.0.1:1" })
        local last = table.remove(words, #words - select("#", ...)) -- main.lua
        assert.equal("lua/zklock/cli/main.lua", last)
        local chunk = { "local ours = package.cpath:match '[^;]*build/[^;]*'" }
        for _, module in ipairs(modules) do
            chunk[#chunk + 1] = ("require '%s'"):format(module)
        end
        chunk[#chunk + 1] = "package.path, package.cpath = 'lua/?.lua;lua/?/init.lua', ours"
        local position = #words - select("#", ...) + 1
        table.insert(words, position, "-e")
        table.insert(words, position + 1, table.concat(chunk, " "))
        table.insert(words, position + 2, last)
        return fixture.remember(program.run("zklock", words)):finish()
    end

    it("if a module is missing that it cannot do without", function()
        for _, case in ipairs {
            { {}, "argparse", "apt-get install lua-argparse, or luarocks install argparse" },
            { { "argparse" }, "dkjson", "apt-get install lua-dkjson, or luarocks install dkjson" }
        } do
            local result = run_with(case[1], "ls", "/")
            assert.equal(125, result.status, result.errors)
            assert.equal(("zklock: the Lua module %s is missing: %s\n"):format(case[2], case[3]), result.errors)
        end
    end)
end)

describe("zklock takes its settings", function()
    after_each(fixture.clean)

    it("from options, then from the environment, then from a file", function()
        local file = "ZKLOCK_CONFIG=" .. write("zklock.lua", 'return { identity = "file", session_timeout = 20 }')
        assert.equal("file\n", run({ file }).output)
        assert.equal("variable\n", run({ file, "ZKLOCK_IDENTITY=variable" }).output)
        assert.equal("option\n", run({ file, "ZKLOCK_IDENTITY=variable" }, { "--identity", "option" }).output)
    end)

    it("and follows the servers, as other commands that it starts do", function()
        local shown = { "run", "--follow", fixture.path(), "-c", 'echo "$ZKLOCK_FOLLOW"' }
        assert.equal("yes\n", commands.run(shown).output)
        local result = run({ "ZKLOCK_FOLLOW=yes" }, { "--servers", "a:1,b:2", "--tls" })
        assert.same({ 125, true }, { result.status, result.errors:find("needs the same port for all servers", 1, true) ~= nil })
    end)

    it("from the user's file before that of the system", function()
        local home = commands.directory()
        assert(os.execute("mkdir -p " .. home .. "/.config"))
        local file = assert(io.open(home .. "/.config/zklock.lua", "w"))
        file:write('return { servers = "' .. fixture.servers() .. '", identity = "home" }')
        file:close()
        local words = commands.words({ "run", fixture.path(), "-c", 'echo "$ZKLOCK_IDENTITY"' })
        local line = cluster.command_line(words)
        line = line:gsub("'ZKLOCK_CONFIG=[^']*'", "-u ZKLOCK_CONFIG"):gsub("'ZKLOCK_SERVERS=[^']*'", "")
        local output = cluster.run({ "sh", "-c", ("env HOME=%s LUA_PATH=%s LUA_CPATH=%s %s"):format(home,
            cluster.quote(package.path), cluster.quote(package.cpath), line) })
        assert.equal("home", output)
    end)

    it("and refuses a file that it is told to read, or that exists, and that it cannot read", function()
        local named = run({ "ZKLOCK_CONFIG=/nonexistent" })
        assert.equal(125, named.status)
        assert.truthy(named.errors:find("cannot read the settings: /nonexistent: ", 1, true), named.errors)
        local home = commands.directory()
        assert(os.execute("mkdir -p " .. home .. "/.config && ln -s zklock.lua " .. home .. "/.config/zklock.lua"))
        local words = commands.words({ "ls", "/" })
        local line = cluster.command_line(words):gsub("'ZKLOCK_CONFIG='", "-u ZKLOCK_CONFIG HOME=" .. home)
        local output = cluster.run({ "sh", "-c", line .. " 2>&1; echo $?" })
        assert.truthy(output:find("cannot read the settings: " .. home, 1, true), output)
        assert.truthy(output:find("set ZKLOCK_CONFIG= to read no file", 1, true), output)
        assert.equal("125", output:match "%d+$")
        assert(os.execute("rm " .. home .. "/.config/zklock.lua"))
        assert.equal("0", cluster.run({ "sh", "-c", line .. " >/dev/null 2>&1; echo $?" }))
    end)

    it("and refuses what is no setting, no table, no Lua, or reaches for anything outside", function()
        for text, problem in pairs {
            ['return { server = "x" }'] = "there is no setting 'server'",
            ['return "x"'] = "must return a table",
            ["return {"] = "cannot read the settings",
            ['os.execute("true") return {}'] = "cannot read the settings",
            ["return { session_timeout = -1 }"] = "must be a duration above 0",
            ['return { session_timeout = "1 week" }'] = "must be a duration above 0",
            ['return { acl = "none" }'] = "must be",
            ["\27Lua"] = "must be text",
        } do
            local result = run({ "ZKLOCK_CONFIG=" .. write("zklock.lua", text) })
            assert.equal(125, result.status, text)
            assert.truthy(result.errors:find(problem, 1, true), result.errors)
        end
        local result = run({ "ZKLOCK_CONFIG=" .. commands.directory() })
        assert.equal(125, result.status)
        assert.truthy(result.errors:find "^zklock: cannot read the settings: /.*: Is a directory\n$", result.errors)
    end)

    it("and credentials from files that only their owner may read", function()
        local secret, open = write("secret", "digest:me:hunter2\n"), write("open", "digest:me:hunter2\n", "644")
        assert.equal(0, run({}, { "--auth-file", secret, "--acl", "creator" }).status)
        for _, empty in ipairs { write("empty", ""), commands.directory() } do
            assert.equal(125, run({}, { "--auth-file", empty }).status)
        end
        local result = run({}, { "--auth-file", open })
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("chmod 600", 1, true), result.errors)
        assert.is_nil(result.errors:find("hunter2", 1, true))
        local configuration = write("zklock.lua", 'return { auth = "digest:me:hunter2" }', "644")
        assert.equal(125, run({ "ZKLOCK_CONFIG=" .. configuration }).status)
        local malformed = run({ "ZKLOCK_AUTH=hunter2" })
        assert.equal(125, malformed.status)
        assert.is_nil(malformed.errors:find("hunter2", 1, true))
    end)
end)

describe("zklock connects by TLS", function()
    after_each(fixture.clean)

    local function assert_refused(status, problem, variables, words)
        local result = run(variables, words)
        assert.equal(status, result.status)
        assert.truthy(result.errors:find(problem, 1, true), result.errors)
        assert.is_nil(result.errors:find("hunter2", 1, true))
    end

    it("with settings from options, the environment and files, and not without TLS if they cannot be used", function()
        assert_refused(121, "cannot read '/none/ca' of the option tls.ca_file", {}, { "--tls-ca-file", "/none/ca" })
        assert_refused(121, "cannot read '/none/ca' of the option tls.ca_file", { "ZKLOCK_TLS_CA_FILE=/none/ca" })
        assert_refused(121, "cannot read '/none/cert' of the option tls.cert_file",
            { "ZKLOCK_CONFIG=" .. write("zklock.lua", 'return { tls_cert_file = "/none/cert", tls_key_password = "hunter2" }') })
        -- The time is for a busy machine, on which the server may take seconds to answer the first attempt.
        local by_option = start({}, { "--tls", "--connect-timeout", "10" })
        local by_variable = start({ "ZKLOCK_TLS=yes" }, { "--connect-timeout", "10" })
        for _, each in ipairs { by_option, by_variable } do
            local result = each:finish()
            assert.equal(121, result.status)
            assert.truthy(result.errors:find("closed the connection during the TLS handshake", 1, true), result.errors)
        end
    end)

    it("and warns if credentials are sent to another machine without TLS", function()
        local result = run({ "ZKLOCK_AUTH=digest:me:hunter2" }, { "--servers", "zookeeper.invalid:1", "--connect-timeout", "0.1" })
        assert.truthy(result.errors:find("the credentials go to 'zookeeper.invalid' unencrypted", 1, true), result.errors)
        assert.is_nil(result.errors:find("hunter2", 1, true))
        assert.same({ 0, "" }, { run({ "ZKLOCK_AUTH=digest:me:hunter2" }).status, run({ "ZKLOCK_AUTH=digest:me:hunter2" }).errors })
    end)

    it("unless the settings contradict each other, or other users may read the password of the key", function()
        assert_refused(125, "tls is off, and other settings of TLS are set", { "ZKLOCK_TLS=no" }, { "--tls-ca-file", "/none/ca" })
        assert_refused(125, 'must be "yes" or "no"', { "ZKLOCK_TLS=perhaps" })
        assert_refused(125, "min_version is", {}, { "--tls-min-version", "1.1" })
        assert_refused(125, "ZKLOCK_TLS_CA_FILE must be a text that is not empty", { "ZKLOCK_TLS_CA_FILE=" })
        assert_refused(125, 'ZKLOCK_TLS must be "yes" or "no"', { "ZKLOCK_TLS=" })
        local open = write("zklock.lua", 'return { tls_key_password = "hunter2" }', "644")
        assert_refused(125, "chmod 600", { "ZKLOCK_CONFIG=" .. open })
        assert.equal(0, run({ "ZKLOCK_TLS=no" }).status)
    end)
end)

describe("zklock", function()
    after_each(fixture.clean)

    it("shows its help, its version and its completion, and needs no server for these", function()
        local nowhere = { servers = "" }
        local help = commands.run({ "--help" }, nowhere)
        assert.equal(0, help.status)
        for _, name in ipairs { "run", "hold", "completion" } do
            assert.truthy(help.output:find("\n   " .. name .. " ", 1, true), help.output)
            local result = commands.run({ name, "--help" }, nowhere)
            assert.equal(0, result.status)
            assert.truthy(result.output:find("Usage: zklock " .. name, 1, true), result.output)
        end
        assert.truthy(commands.run({ "--version" }, nowhere).output:find "^zklock %d+%.%d+%.%d+\n$")
        for _, shell in ipairs { "bash", "zsh", "fish" } do
            local result = commands.run({ "completion", shell }, nowhere)
            assert.equal(0, result.status)
            assert.truthy(result.output:find("status-fd", 1, true))
        end
    end)

    it("completes its command line in bash", function()
        local script = write("completion", commands.run({ "completion", "bash" }).output)
        local output = cluster.run({ "bash", "-c", "source " .. script ..
            '; COMP_WORDS=(zklock run --max); COMP_CWORD=2; _zklock zklock --max run; echo "${COMPREPLY[@]}"' })
        assert.equal("--max-hold", (output:gsub("%s+$", "")))
    end)

    it("says what is missing", function()
        local result = commands.run({ "run", "/x", "--", "true" }, { servers = "" })
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("ZKLOCK_SERVERS", 1, true), result.errors)
        assert.equal(125, commands.run({}).status)
    end)

    it("has all options that docs/command.md names, and the subcommands with their options that pages show", function()
        local help, all = {}, { commands.run({ "--help" }).output }
        for name in all[1]:match("Commands:\n(.*)$"):gmatch "\n?   (%l+) " do
            help[name] = commands.run({ name, "--help" }).output
            all[#all + 1] = help[name]
        end
        assert.is_true(#all > 10)
        all = table.concat(all)
        for option in files.read("docs/command.md"):gmatch "`(%-%-?[%w-]+)" do
            assert.truthy(all:find(option, 1, true), option)
        end
        local problems, shown = {}, 0
        for _, path in ipairs(documentation.pages()) do
            for line in ("\n" .. documentation.code_of(files.read(path))):gmatch "\n%s*(zklock %l[^\n]*)" do
                local name, words = line:match "^zklock (%l+)(.*)$"
                words = " " .. words:gsub(" %-%- .*", ""):gsub("#.*", "") .. " "
                shown = shown + 1
                -- The name of a library in the list of contenders; a message of the build.
                if line:find "^zklock or " or line:find "^zklock needs the " then
                    shown = shown - 1
                elseif not help[name] then
                    problems[#problems + 1] = path .. ": there is no zklock " .. name
                else
                    for option in words:gmatch "%f[%S](%-%-?%w[%w-]*)" do
                        if not help[name]:find("%f[%S]" .. option:gsub("%-", "%%-") .. "%f[^%w-]") then
                            problems[#problems + 1] = ("%s: zklock %s has no %s"):format(path, name, option)
                        end
                    end
                end
            end
        end
        documentation.none(problems)
        assert.is_true(shown > 50, shown)
    end)
end)

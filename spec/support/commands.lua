--- support.commands: runs `zklock` with the interpreter that runs the spec.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

local commands = {}

--- Seconds for a connection, unless a spec says otherwise: much more than the command's own limit, for a machine that is busy.
local CONNECT_TIMEOUT = 60

--- Returns the words of a command line of zklock. `options`: servers (the shared ones), variables (list of "NAME=value").
function commands.words(words, options)
    options = options or {}
    local list = { "env", "ZKLOCK_CONFIG=", "ZKLOCK_CONNECT_TIMEOUT=" .. CONNECT_TIMEOUT,
        "ZKLOCK_SERVERS=" .. (options.servers or fixture.servers()) }
    for _, variable in ipairs(options.variables or {}) do
        list[#list + 1] = variable
    end
    list[#list + 1] = program.interpreter()
    list[#list + 1] = "lua/zklock/cli/main.lua"
    for _, word in ipairs(words) do
        list[#list + 1] = word
    end
    return list
end

--- Starts zklock; fixture.clean ends it. Its process id is that of zklock itself.
function commands.start(words, options)
    return fixture.remember(program.run("zklock", commands.words(words, options)))
end

--- Runs zklock to its end. Returns a table: status, output, errors.
function commands.run(words, options)
    return commands.start(words, options):finish()
end

--- Runs zklock, which must exit with 0. Returns what it has written to standard output, and to standard error.
function commands.output(words, options)
    local result = commands.run(words, options)
    assert(result.status == 0, result.errors)
    return result.output, result.errors
end

local here = cluster.run { "pwd" }

--- Returns a search path with absolute names, for programs that run in other directories.
local function absolute(path)
    return (path:gsub("[^;]+", function(template)
        return template:sub(1, 1) == "/" and template or here .. "/" .. template
    end))
end

--- Writes a script that runs a Lua program, or the interpreter, with this project's modules.
local function write_script(name, words)
    files.write(name, ("#!/bin/sh\nexport ZKLOCK_CONFIG= LUA_PATH=%s LUA_CPATH=%s\nexec %s \"$@\"\n"):format(
        cluster.quote(absolute(package.path)), cluster.quote(absolute(package.cpath)), cluster.command_line(words)))
    assert(os.execute("chmod +x " .. cluster.quote(name)))
end

--- Makes a directory for PATH, with `zklock`, and with `lua5.4`, which is the interpreter that runs the spec. Both work in any
-- directory. fixture.clean removes it.
function commands.install()
    local directory = commands.directory()
    local interpreter = cluster.run { "sh", "-c", 'command -v "$0"', program.interpreter() } -- not the script of that name
    write_script(directory .. "/zklock", { interpreter, (cluster.run { "realpath", "lua/zklock/cli/main.lua" }) })
    write_script(directory .. "/lua5.4", { interpreter })
    return directory
end

--- Calls `try(seconds)`, which runs zklock with `-w seconds` and returns its exit code. The caller wants the time to end while
-- zklock waits for a lock. If it ends while zklock connects (121), the machine is busy, and a longer time is tried. Returns the
-- last code.
function commands.while_time_runs_out(try)
    local seconds, code = 0.1
    repeat
        seconds = 3 * seconds
        code = try(("%.1f"):format(seconds))
    until code ~= 121 or seconds > 60
    return code
end

--- Waits until zklock has started its guardian, or has ended. Returns the guardian's process id; nil: zklock has ended.
function commands.await_guardian(wrapper)
    return eventually(function()
        local guardian = cluster.run({ "pgrep", "-x", "-P", tostring(wrapper.pid), "zklock-guardian" })
        return guardian:match "^%d+$" or wrapper:has_ended() and "none"
    end, 60, "the guardian"):match "^%d+$"
end

--- Returns the command lines of all processes that contain the text.
function commands.processes(text)
    local found = {}
    local listing = cluster.run({ "ps", "-eo", "args" })
    for line in listing:gmatch "[^\n]+" do
        if line:find(text, 1, true) then
            found[#found + 1] = line
        end
    end
    return found
end

--- Makes a new directory that fixture.clean removes.
function commands.directory()
    local directory = files.make_directory()
    fixture.on_clean(function()
        os.execute("rm -rf " .. cluster.quote(directory))
    end)
    return directory
end

return commands

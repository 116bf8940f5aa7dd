--- support.program: small Lua programs in spec/programs/, which run in separate processes with the interpreter that runs the spec;
-- and other programs with the same protocol.
--
-- A program reads commands from its standard input and answers with lines on its standard output. So a spec waits for lines and
-- not for time. This needs only sh, mkfifo and timeout. Every program is killed after twenty minutes at the latest.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local quote = cluster.quote

local SECONDS_TO_LIVE = 1200

local program = {}
program.__index = program

--- Returns the command that runs this Lua: $ZKLOCK_LUA if it is set, otherwise the first word of the running script's command line.
function program.interpreter()
    if os.getenv("ZKLOCK_LUA") then
        return os.getenv("ZKLOCK_LUA")
    end
    local arguments = rawget(_G, "arg")
    local lowest
    local index = -1
    while arguments and arguments[index] do
        lowest = arguments[index]
        index = index - 1
    end
    return lowest or (rawget(_G, "jit") and "luajit") or "lua" .. _VERSION:match("[%d.]+$")
end

--- Returns the words of a command that runs another one with these paths for modules of Lua. `path`: package.path unless given.
function program.environment(path)
    return { "env", "-u", "LUA_PATH_5_4", "-u", "LUA_CPATH_5_4", "LUA_PATH=" .. (path or package.path),
        "LUA_CPATH=" .. package.cpath }
end

--- Returns those words for a program that is run as it is printed. It can load what this Lua can, and modules below the
-- directories of `more` (";/usr/share/lua/5.3/?.lua"). Its zklock is that of support.patience.
function program.patient_environment(more)
    return program.environment(cluster.root .. "/spec/support/patient/?.lua;" .. package.path .. (more or ""))
end

--- Runs a script with this Lua and waits for its end. `environment`: words from program.environment or
-- program.patient_environment, and variables; `...`: the script and its arguments. Returns the output with its errors, without the
-- last newline, and the exit status. The script is killed after SECONDS_TO_LIVE: on a busy machine examples/herd.lua takes minutes.
function program.output_of(environment, ...)
    return cluster.run(cluster.words({ "timeout", "-s", "KILL", tostring(SECONDS_TO_LIVE) }, environment,
        { program.interpreter(), ... }))
end

--- Starts spec/programs/<name>.lua with arguments.
function program.start(name, ...)
    return program.run(name, { program.interpreter(), "spec/programs/" .. name .. ".lua", ... })
end

--- Starts a command, given as words; `name` is what errors call it.
function program.run(name, command_words)
    local directory = files.make_directory()
    assert(os.execute("mkfifo " .. directory .. "/in"))
    local inner = ("echo $$; exec %s %s"):format(cluster.command_line(program.environment()), cluster.command_line(command_words))
    local format = "exec 2>/dev/null; timeout -s KILL %d sh -c %s <%s/in 2>%s/err; echo $? >%s/status"
    local command = format:format(SECONDS_TO_LIVE, quote(inner), directory, directory, directory)
    local self = setmetatable({ directory = directory, name = name }, program)
    self.output = assert(io.popen(command, "r"))
    -- Opened for reading too: an open for writing alone would block for ever if the program did not start.
    self.input = assert(io.open(directory .. "/in", "r+"))
    self.pid = assert(tonumber(self.output:read("*l")), "the program did not start")
    return self
end

--- Returns the next line of output; nil at the end.
function program:line()
    return self.output:read("*l")
end

--- Sends a command.
function program:tell(line)
    assert(self.input:write(line, "\n"))
    self.input:flush()
end

--- Sends a command and returns the line that answers it; raises if the program has ended.
function program:ask(line)
    self:tell(line)
    local answer = self:line()
    if not answer then
        error(("%s ended at the command %q: %s"):format(self.name, line, files.read(self.directory .. "/err")), 2)
    end
    return answer
end

--- Sends a signal by name: "KILL", "STOP", "CONT", "INT".
function program:signal(name)
    return os.execute(("kill -%s %d"):format(name, self.pid))
end

--- Whether the program has ended, with status and errors written.
function program:has_ended()
    return self.result ~= nil or files.read(self.directory .. "/status"):find "\n$" ~= nil
end

--- Waits for the end. Returns a table: status (128 + n after a signal), output (what was not read yet), errors (the whole
-- stderr).
function program:finish()
    if not self.result then
        local rest = self.output:read("*a")
        self.output:close()
        self.input:close()
        self.result = {
            status = tonumber(files.read(self.directory .. "/status")),
            output = rest,
            errors = files.read(self.directory .. "/err")
        }
        os.execute("rm -rf " .. quote(self.directory))
    end
    return self.result
end

--- Kills the program if it still runs. For after_each.
function program:stop()
    if not self.result then
        if not self:has_ended() then -- or the process id may be another's
            os.execute(("kill -KILL %d 2>/dev/null"):format(self.pid))
        end
        self:finish()
    end
end

return program

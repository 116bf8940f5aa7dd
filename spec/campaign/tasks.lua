--- campaign.tasks: the campaign's concurrency: coroutines over libuv that sleep, run commands and use sockets, and processes that
-- are watched.
--
-- The first error in a task ends the loop; `tasks.loop` raises it.

local uv = require "luv"
local core = require "zklock.core"

local tasks = {}

local failure

--- Seconds on the clock of all records, which is the clock that zklock uses.
tasks.now = core.now

local function resume(thread, ...)
    local ok, problem = coroutine.resume(thread, ...)
    if not ok then
        failure = failure or debug.traceback(thread, tostring(problem))
        uv.stop()
    end
end

--- Runs fn(…) in a new task, at once, until it first waits.
function tasks.start(fn, ...)
    resume(coroutine.create(fn), ...)
end

--- Suspends the running task. `begin(wake)` is called with the function that resumes it, once: `wake(results…)`.
function tasks.suspend(begin)
    local thread = coroutine.running()
    local early, suspended
    begin(function(...)
        if suspended then
            resume(thread, ...)
        else
            early = table.pack(...)
        end
    end)
    if early then
        return table.unpack(early, 1, early.n)
    end
    suspended = true
    return coroutine.yield()
end

function tasks.sleep(seconds)
    tasks.suspend(function(wake)
        local timer = uv.new_timer()
        timer:start(math.max(0, math.ceil(seconds * 1000)), 0, function()
            timer:close()
            wake()
        end)
    end)
end

--- Waits until `condition()` is true; false if it is not within `seconds`.
function tasks.await(condition, seconds, interval)
    local deadline = tasks.now() + seconds
    repeat
        local result = condition()
        if result then
            return result
        end
        tasks.sleep(interval or 0.05)
    until tasks.now() > deadline
    return false
end

-- Becomes a command, in a new process group, but in our session: see tools/background. (libuv's `detached` makes a session.)
local BECOME = "setpgrp(0, 0); exec {$ARGV[0]} @ARGV or die qq(cannot start $ARGV[0]: $!)"

--- Starts a process in a new process group. `options`: log (a file for its output), input (true: a pipe, returned), environment (a
-- list of NAME=VALUE that are added), ended = function(status, signal).
function tasks.spawn(words, options)
    options = options or {}
    local log = assert(uv.fs_open(options.log or "/dev/null", "a", 420))
    local environment
    if options.environment then
        environment = {}
        for name, value in pairs(uv.os_environ()) do
            environment[#environment + 1] = name .. "=" .. value
        end
        for _, line in ipairs(options.environment) do
            environment[#environment + 1] = line
        end
    end
    local process = { running = true }
    process.handle, process.pid = uv.spawn("perl", {
        args = { "-e", BECOME, table.unpack(words) }, stdio = { nil, log, log }, env = environment
    }, function(status, signal)
        process.running = false
        process.handle:close()
        if options.ended then
            options.ended(status, signal)
        end
    end)
    uv.fs_close(log)
    if not process.handle then
        error(("cannot start %s: %s"):format(table.concat(words, " "), tostring(process.pid)))
    end
    return process
end

--- Sends a signal to a process and all of its group.
function tasks.signal(process, name)
    if process.running then
        uv.kill(-process.pid, name)
    end
end

--- Runs a command to its end. Raises an error with its output if it fails.
function tasks.run(words, input)
    local said = {}
    local outputs, stdin = { uv.new_pipe(), uv.new_pipe() }, input and uv.new_pipe() or nil
    local status = tasks.suspend(function(wake)
        local left, result, handle, problem = 3
        local function done()
            left = left - 1
            if left == 0 then
                wake(result)
            end
        end
        handle, problem = uv.spawn(words[1], { args = { table.unpack(words, 2) }, stdio = { stdin, outputs[1], outputs[2] } },
            function(code, signal)
                handle:close()
                result = signal ~= 0 and 128 + signal or code
                done()
            end)
        if not handle then
            error(("cannot run %s: %s"):format(words[1], problem))
        end
        for _, output in ipairs(outputs) do
            output:read_start(function(_, chunk)
                if chunk then
                    said[#said + 1] = chunk
                else
                    output:close()
                    done()
                end
            end)
        end
        if stdin then
            stdin:write(input, function()
                stdin:close()
            end)
        end
    end)
    if status ~= 0 then
        error(("%s: %d: %s"):format(table.concat(words, " "), status, table.concat(said)), 2)
    end
    return table.concat(said)
end

--- Sends a line to an address and returns the answer, read until `ends(answer)` or its end; nil if there is no answer within
-- `seconds`.
function tasks.ask(address, port, line, seconds, ends)
    local socket, timer = uv.new_tcp(), uv.new_timer()
    local answer = {}
    local result = tasks.suspend(function(wake)
        local over
        local function finish(ok)
            if not over then
                over = true
                timer:close()
                socket:close()
                wake(ok and #answer > 0 and table.concat(answer) or nil)
            end
        end
        timer:start(math.ceil(seconds * 1000), 0, function()
            finish(false)
        end)
        socket:connect(address, port, function(problem)
            if problem then
                return finish(false)
            end
            socket:write(line)
            socket:read_start(function(trouble, chunk)
                answer[#answer + 1] = chunk
                if trouble or not chunk or ends and ends(chunk) then
                    finish(not trouble)
                end
            end)
        end)
    end)
    return result
end

--- Runs everything until `tasks.stop`; raises the first error of any task.
function tasks.loop()
    uv.run()
    if failure then
        error(failure, 0)
    end
end

function tasks.stop()
    uv.stop()
end

return tasks

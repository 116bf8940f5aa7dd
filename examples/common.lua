--- common: functions that the examples share: arguments, a path that no earlier run has used, child processes, and an exit
-- status that shows whether the example succeeded.

local common = {}

io.stdout:setvbuf("line")

--- The server list: the first argument of every example.
common.servers = arg[1]
if not common.servers then
    io.stderr:write(("usage: %s HOST:PORT[,HOST:PORT…]\n"):format(arg[0]))
    os.exit(2)
end

--- Returns the numbers that follow the server list on the command line, or else the given ones.
function common.numbers(otherwise)
    local numbers = {}
    for index = 2, #arg do
        numbers[index - 1] = assert(tonumber(arg[index]), "not a number: " .. arg[index])
    end
    return numbers[1] and numbers or otherwise
end

local function quote(word)
    return "'" .. tostring(word):gsub("'", [['\'']]) .. "'"
end

--- The interpreter that runs this program: the first word of its command line.
local function interpreter()
    local index = -1
    while arg[index - 1] do
        index = index - 1
    end
    return arg[index]
end

--- Processes that were started together. Their output comes out of one pipe, in the order of writing.
local Processes = {}
Processes.__index = Processes

local running = {}

--- Starts commands of the shell, each in a separate process.
function common.spawn(commands)
    local parts = { "exec 3>&2 2>/dev/null" } -- hides the shell's messages about killed children
    for index, command in ipairs(commands) do
        parts[#parts + 1] = ("sh -c 'echo pid %d $$; exec \"$@\"' sh %s 2>&3 3>&- &"):format(index, command)
    end
    parts[#parts + 1] = "wait"
    local self = setmetatable({ pids = {}, early = {} }, Processes)
    self.pipe = assert(io.popen(table.concat(parts, "\n")))
    running[#running + 1] = self
    local missing = #commands
    while missing > 0 do
        local line = assert(self.pipe:read("*l"), "a process did not start")
        local index, pid = line:match("^pid (%d+) (%d+)$")
        if index then
            self.pids[tonumber(index)] = tonumber(pid)
            missing = missing - 1
        else
            self.early[#self.early + 1] = line
        end
    end
    return self
end

--- Starts this program again, once for each list of arguments. They follow the server list on the command line.
function common.start(lists)
    local commands = {}
    for index, arguments in ipairs(lists) do
        local words = { quote(interpreter()), quote(arg[0]), quote(common.servers) }
        for _, argument in ipairs(arguments) do
            words[#words + 1] = quote(argument)
        end
        commands[index] = table.concat(words, " ")
    end
    return common.spawn(commands)
end

--- Waits for the next line that any of the processes writes; nil when all have ended.
function Processes:line()
    local line = table.remove(self.early, 1) or self.pipe:read("*l")
    self.ended = line == nil
    return line
end

--- Waits for a line, shows it, and fails if it is not the expected one.
function Processes:expect(expected)
    local line = self:line()
    print(line or "(all have ended)")
    if line ~= expected then
        error(("expected the line '%s'"):format(expected), 2)
    end
end

--- Sends one of the processes a signal: "KILL", "STOP", "CONT".
function Processes:signal(index, name)
    os.execute(("kill -%s %d"):format(name, self.pids[index]))
end

--- Ends all processes that still run.
function Processes:stop()
    for _, pid in ipairs(self.ended and {} or self.pids) do
        os.execute(("kill -KILL %d 2>/dev/null"):format(pid))
    end
    self.pipe:close()
end

--- Stands for work that takes a while.
function common.work(seconds)
    os.execute(("sleep %g"):format(seconds))
end

--- Returns a path for this run, different from those of earlier runs.
function common.fresh_path(name)
    return ("/zklock-examples/%s-%d-%s"):format(name, os.time(), tostring({}):match("%x%x%x%x+$"))
end

--- Makes a directory and its parents. ZooKeeper removes each when it has become empty (a container).
function common.make_path(client, path)
    local node = ""
    for name in path:gmatch("[^/]+") do
        node = node .. "/" .. name
        local made, message, code = client:create(node, "", { container = true })
        if code == "no_node" then -- the parent was empty and has just been removed: try again
            return common.make_path(client, path)
        end
        assert(made or code == "node_exists", message)
    end
end

--- Waits until a directory has `count` children, by a watch instead of repeated requests. Returns their names.
function common.await_children(client, path, count)
    while true do
        local names, message, watch = client:children(path, { watch = true })
        if names and #names == count then
            watch:cancel()
            return names
        elseif names then
            assert(watch:wait(30))
        else
            assert(watch == "no_node", message) -- on failure the third result is the code
            local there
            there, watch = client:exists(path, { watch = true })
            assert(there or watch:wait(30))
        end
    end
end

--- Runs the example: exits with 0 only if nothing in it failed, and leaves no process behind.
function common.main(example)
    local ok, problem = xpcall(example, debug.traceback)
    for _, processes in ipairs(running) do
        processes:stop()
    end
    if not ok then
        io.stderr:write(tostring(problem), "\n")
    end
    os.exit(ok and 0 or 1, true)
end

return common

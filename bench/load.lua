--- load: requests to an nginx by wrk, for the cases that measure inside nginx.

local load = {}

local function exists(path)
    local file = io.open(path)
    return file and file:close() or false
end

--- Whether a program is installed.
function load.has_program(name)
    return os.execute("command -v " .. name .. " >/dev/null") == true
end

--- The reason why this machine cannot run zklock in nginx under load, or nil.
---@param root string the project's directory
function load.missing(root)
    if not exists(root .. "/build/luajit/zklock/core.so") then
        return "the module for LuaJIT: tools/build.sh luajit"
    end
    for _, program in ipairs { "nginx", "wrk" } do
        if not load.has_program(program) then
            return "there is no " .. program
        end
    end
end

--- Requests a location as fast as it answers. Raises if an answer is not a success.
---@param server table of spec.support.nginx
---@param location string
---@param connections number
---@param seconds number whole seconds
---@param prefix? string what goes before the command, as in "perf stat …"
---@return table # `rate`: requests per second; `count`: requests
function load.run(server, location, connections, seconds, prefix)
    local pipe = assert(io.popen(string.format("%s wrk -t1 -c%d -d%ds http://127.0.0.1:%d%s 2>&1", prefix or "", connections,
        seconds, server.port, location)))
    local output = pipe:read("a")
    pipe:close()
    assert(not output:find("Non%-2xx") and not output:find("Socket errors"), output)
    return {
        rate = assert(tonumber(output:match("Requests/sec:%s+([%d.]+)")), output),
        count = assert(tonumber(output:match("(%d+) requests in")), output)
    }
end

return load

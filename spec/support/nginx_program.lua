--- support.nginx_program: the nginx that specs run, and the lines for its configuration that load Lua.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local program = {}

--- The modules that Lua needs, for an nginx into which it is not built.
local MODULES = {
    http = { "ndk_http_module.so", "ngx_http_lua_module.so" },
    stream = { "ngx_stream_module.so", "ngx_stream_lua_module.so" }
}

local NAME = os.getenv("NGINX") or "nginx"

--- Returns a command, as words, that runs the program with a directory's nginx.conf. `environment`: list of NAME=VALUE.
function program.command(directory, environment)
    local words = { "env", "-u", "NGINX" } -- nginx would take it for a list of sockets
    for _, variable in ipairs(environment or {}) do
        words[#words + 1] = variable
    end
    for _, word in ipairs { NAME, "-p", directory, "-c", directory .. "/nginx.conf" } do
        words[#words + 1] = word
    end
    return words
end

--- What the program says about itself.
local configured

--- Returns whether Lua is built into a subsystem, "http" or "stream"; and otherwise the files of the modules that are there.
local function built_in(subsystem)
    configured = configured or (cluster.run { NAME, "-V" })
    for source in configured:gmatch("%-%-add%-module=(%S+)") do
        local module = source:match("[^/]+$")
        local in_stream = module:find("%f[%a]stream%f[%A]") ~= nil -- not ngx_lua_upstream
        if module:find("lua", 1, true) and in_stream == (subsystem == "stream") then
            return true, {}
        end
    end
    local directory, found = configured:match("%-%-modules%-path=(%S+)") or "/usr/lib/nginx/modules", {}
    for _, name in ipairs(MODULES[subsystem]) do
        local module = directory .. "/" .. name
        found[#found + 1] = files.exists(module) and module or nil
    end
    return false, found
end

--- Returns whether the program can run Lua in stream {}.
function program.has_stream()
    local ready, found = built_in("stream")
    return ready or found[#found] ~= nil and found[#found]:find("lua", 1, true) ~= nil
end

local load_modules

--- Returns the lines: "" for an OpenResty. The modules for stream {} only if Lua can run there.
function program.load_modules()
    if load_modules then
        return load_modules
    end
    local lines = {}
    for _, subsystem in ipairs { "http", program.has_stream() and "stream" or nil } do
        for _, module in ipairs(select(2, built_in(subsystem))) do
            lines[#lines + 1] = ("load_module %s;\n"):format(module)
        end
    end
    load_modules = table.concat(lines)
    return load_modules
end

--- Returns words that run OpenResty's `resty` with the program: $RESTY, else that of PATH. nil if there is none, or if the program
-- has Lua in modules, which resty does not load.
function program.resty()
    local path, missing = cluster.run { "sh", "-c", "command -v " .. cluster.quote(os.getenv("RESTY") or "resty") }
    if missing ~= 0 or not built_in("http") then
        return nil
    end
    return { "env", "-u", "NGINX", path, "--nginx", (cluster.run { "sh", "-c", "command -v " .. cluster.quote(NAME) }) }
end

return program

--- support.nginx_program: the nginx that specs run, and the lines for its configuration that load Lua.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local program = {}

--- Debian's modules, for an nginx into which Lua is not built.
local MODULES = { "/usr/lib/nginx/modules/ndk_http_module.so", "/usr/lib/nginx/modules/ngx_http_lua_module.so" }

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

--- Returns the lines: "" for an OpenResty.
function program.load_modules()
    local lines = {}
    local configured = cluster.run { NAME, "-V" }
    if not configured:find("%-%-add%-module=%S*lua") then
        for _, module in ipairs(MODULES) do
            lines[#lines + 1] = files.exists(module) and ("load_module %s;\n"):format(module) or nil
        end
    end
    return table.concat(lines)
end

return program

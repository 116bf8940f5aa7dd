--- The nginx that specs run.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

describe("the nginx of the specs #nginx", function()
    local directory

    before_each(function()
        directory = files.make_directory()
    end)

    after_each(function()
        cluster.run { "rm", "-rf", directory }
    end)

    --- Returns which modules the configuration loads, and whether Lua runs in stream {}, in a process with this $NGINX.
    local function asked(arguments)
        local program = directory .. "/an nginx"
        files.write(program, ("#!/bin/sh\nprintf 'configure arguments: %s\\n'\n"):format(arguments))
        cluster.run { "chmod", "+x", program }
        local text, status = cluster.run { "env", "NGINX=" .. program, "luajit", "-e", [[
            local it = require "spec.support.nginx_program"
            print(it.command("/tmp")[4], it.has_stream(), (it.load_modules():gsub("load_module %S*/(%S+).so;%s+", "%1 ")))
        ]] }
        assert.equal(0, status, text)
        local name, stream, modules = text:match("^(.*)\t(%l+)\t(.*)$")
        assert.equal(program, name)
        return modules:gsub("%s+$", ""), stream == "true"
    end

    --- Makes files of modules. Returns their directory as an argument.
    local function modules(names)
        for name in names:gmatch("%S+") do
            files.write(("%s/%s.so"):format(directory, name), "")
        end
        return "--with-threads --modules-path=" .. directory
    end

    it("is the one that $NGINX names, and loads Lua only if that is not built in", function()
        assert.same({ "", false }, { asked("--add-module=../ngx_lua-0.10.28 --add-module=../ngx_lua_upstream-0.07") })
        assert.same({ "", false }, { asked("--add-module=/src/lua-nginx-module") })
        local http = "ndk_http_module ngx_http_lua_module"
        local dynamic = modules(http)
        assert.same({ http, false }, { asked(dynamic) })
        assert.same({ http, false }, { asked(dynamic .. " --add-dynamic-module=/src/lua-nginx-module") })
    end)

    it("runs Lua in stream {} if that is built in, or if its module is there", function()
        assert.same({ "", true }, { asked("--add-module=../ngx_lua-0.10.28 --add-module=../ngx_stream_lua-0.0.16") })
        assert.same({ "", true }, { asked("--add-module=/s/stream-lua-nginx-module --add-module=/s/lua-nginx-module") })
        local http = "ndk_http_module ngx_http_lua_module"
        assert.same({ http, false }, { asked(modules(http .. " ngx_stream_module")) })
        assert.same({ http .. " ngx_stream_module ngx_stream_lua_module", true }, { asked(modules("ngx_stream_lua_module")) })
    end)
end)

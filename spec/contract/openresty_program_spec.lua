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

    --- Returns the program's name and how many modules its configuration loads, in a process with this $NGINX.
    local function asked(arguments)
        local program = directory .. "/an nginx"
        files.write(program, ("#!/bin/sh\nprintf 'configure arguments: %s\\n'\n"):format(arguments))
        cluster.run { "chmod", "+x", program }
        local text, status = cluster.run { "env", "NGINX=" .. program, "luajit", "-e", [[
            local it = require "spec.support.nginx_program"
            print(it.command("/tmp")[4], select(2, it.load_modules():gsub("load_module", "")))
        ]] }
        assert.equal(0, status, text)
        local name, count = text:match("^(.*)\t(%d+)$")
        assert.equal(program, name)
        return tonumber(count)
    end

    it("is the one that $NGINX names, and loads Lua only if that is not built in", function()
        assert.equal(0, asked("--with-threads --add-module=../ngx_devel_kit-0.3.3 --add-module=../ngx_lua-0.10.28"))
        assert.equal(0, asked("--add-module=/src/lua-nginx-module"))
        assert.equal(2, asked("--with-threads --modules-path=/usr/lib/nginx/modules"))
        assert.equal(2, asked("--add-dynamic-module=/src/lua-nginx-module"))
    end)
end)

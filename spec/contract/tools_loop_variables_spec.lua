--- tools/loop_variables.lua: luacheck names what Lua 5.5 would not compile.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

describe("luacheck with tools/loop_variables.lua #once", function()
    --- Returns what luacheck prints of this text with only that warning, from the line number on, and the exit status.
    local function check(text)
        local path = os.tmpname()
        files.write(path, text)
        local output, status = cluster.run({ "env", "LUA_INIT=@tools/loop_variables.lua", "luacheck", "--no-config", "--no-color",
            "--codes", "--only", "591", "--formatter", "plain", path })
        os.remove(path)
        return output:gsub("^" .. path:gsub("%p", "%%%0"), ""), status
    end

    it("warns of an assignment to the first variable of a loop, also in a function inside", function()
        local warning = "(W591) assigning to loop variable '%s', which is constant in Lua 5.5"
        assert.same({ ":1:17: " .. warning:format("i"), 1 }, { check("for i = 1, 2 do i = 2 end") })
        assert.same({ ":2:44: " .. warning:format("k"), 1 },
            { check("for k in pairs({}) do\nprint(function() while true do local a; a, k = 1, 2 end end)\nend") })
    end)

    it("does not warn of the other variables, nor of a local variable with the same name", function()
        assert.same({ "", 0 }, { check("for _, v in pairs({}) do v = 1; local _ = 2; _ = v end") })
    end)
end)

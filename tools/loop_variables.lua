--- A warning more for luacheck: an assignment to the first variable of a loop. Lua 5.5 does not compile that, all others do.
--
--   LUA_INIT=@tools/loop_variables.lua luacheck …

local core_utils = require "luacheck.core_utils"
local stages = require "luacheck.stages"

local CODE = "591" -- luacheck has no warnings from 59 on

local function note(_, loop, constant)
    local first = loop.tag == "Fornum" and loop[1] or loop[1][1]
    constant[first.var] = true
end

local function check(state, set, constant)
    for _, target in ipairs(set[1]) do
        if target.var and constant[target.var] then
            state:warn_range(CODE, target, { name = target[1] })
        end
    end
end

stages.warnings[CODE] = {
    message_format = "assigning to loop variable {name!}, which is constant in Lua 5.5",
    fields = { "code", "line", "column", "end_column", "name" },
    fields_set = { code = true, line = true, column = true, end_column = true, name = true },
}
table.insert(stages.modules, {
    run = function(state)
        local constant = {}
        core_utils.each_statement(state, { "Fornum", "Forin" }, note, constant)
        core_utils.each_statement(state, { "Set" }, check, constant)
    end,
})

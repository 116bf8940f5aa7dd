--- annotations: reads docs/types/library/zklock.lua, the annotations for language servers.
--
-- tools/reference.lua takes the options of functions from them, and spec/contract/docs_api_spec.lua compares them with the sources.

local annotations = {}

--- Reads annotations for language servers.
---@return table # `functions`: "Client:get" -> { arguments, params = { { name, type, optional } } }; `classes`: name ->
--   { base, fields = { name -> { type, optional } }, order = names of fields }; `aliases`: name -> { literals as a set, text }
function annotations.read(text)
    local meta = { functions = {}, classes = {}, aliases = {} }
    local class, alias, params, variables = nil, nil, {}, {}
    for line in (text .. "\n"):gmatch("(.-)\n") do
        local name, base = line:match("^%-%-%-@class ([%w_.]+)%s*:?%s*([%w_.]*)")
        if name then
            class = { name = name, base = base ~= "" and base or nil, fields = {}, order = {} }
            meta.classes[name] = class
        end
        local field, optional, kind = line:match("^%-%-%-@field ([%w_]+)(%??) (.*)$")
        if field and class then
            class.fields[field] = { type = kind, optional = optional == "?" }
            class.order[#class.order + 1] = field
        end
        local alias_name, alias_text = line:match("^%-%-%-@alias ([%w_.]+)%s*(.*)$")
        if alias_name then
            alias = { text = alias_text, literals = {} }
            meta.aliases[alias_name] = alias
        end
        if alias and (alias_name or line:find("^%-%-%-|")) then
            for literal in line:gsub("#.*$", ""):gmatch('"([^"]*)"') do
                alias.literals[literal] = true
            end
        else
            alias = nil
        end
        local param, question, param_type = line:match("^%-%-%-@param ([%w_.]+)(%??) (.*)$")
        if param then
            params[#params + 1] = { name = param, optional = question == "?", type = param_type }
        end
        local variable = line:match("^local (%w+) = {}$")
        if variable and class then
            variables[variable] = class.name:gsub("^zklock%.", "")
        end
        local owner, separator, fn, arguments = line:match("^function (%w+)([.:])([%w_]+)(%b()) end$")
        if owner then
            local names = {}
            for argument in arguments:sub(2, -2):gmatch("[^,%s]+") do
                names[#names + 1] = argument
            end
            meta.functions[(variables[owner] or owner) .. separator .. fn] = { arguments = names, params = params }
        end
        if not line:find("^%-%-") then
            params = {}
        end
    end
    return meta
end

return annotations

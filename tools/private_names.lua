--- A lint for names that begin with "_": they are private to a module, which is a file, or a folder together with the file of its
-- name. lua/zklock/lock.lua and lua/zklock/lock/*.lua are one module. Only a module that sets a field, or defines a method, may use
-- it.
--
-- Usage: private_names.lua FILE…     prints each other use, and fails if there is one

--- Calls visit(name, number of the line, whether it is set there) for each private name in a file.
local function each_name(path, visit)
    local number = 0
    for line in io.lines(path) do
        number = number + 1
        local code = " " .. line:gsub("\\.", ""):gsub('"[^"]*"', '""'):gsub("'[^']*'", "''"):gsub("%-%-.*", "") .. " "
        local targets = code:match("^%s*([%w_.%[%],: ]-)%s*=[^=]") or ""
        for before, name, after in code:gmatch("(.)%f[%w_](_[a-z][%w_]*)()") do
            local is_key = before:find("[%s{]") and code:find("^%s*=[^=]", after)
            local is_method = code:find("^%s*function [%w_.]+[.:]" .. name .. "%(")
            local is_target = before == "." and targets:find("%." .. name .. "%s*%f[,%z]")
            if is_key or before:find("[.:]") then
                visit(name, number, is_key or is_method or is_target)
            end
        end
    end
end

--- "lua/zklock/lock" of lua/zklock/lock.lua and lua/zklock/lock/hold.lua.
local function module_of(path)
    return path:match("^lua/[^/]+/[^/.]+") or path
end

local set_in, failed = {}, false
for _, path in ipairs(arg) do
    local names = set_in[module_of(path)] or {}
    set_in[module_of(path)] = names
    each_name(path, function(name, _, is_set)
        names[name] = names[name] or is_set
    end)
end
for _, path in ipairs(arg) do
    each_name(path, function(name, number)
        if not set_in[module_of(path)][name] then
            print(("%s:%d: %s belongs to another module"):format(path, number, name))
            failed = true
        end
    end)
end
os.exit(not failed)

--- support.compat: differences between the Luas that run the specs.

local compat = {}

--- Whether coroutines can yield across pcall. PUC Lua 5.1 does not allow it.
compat.PCALL_YIELDS = _VERSION ~= "Lua 5.1" or rawget(_G, "jit") ~= nil

--- Whether there are to-be-closed variables: from Lua 5.4 on.
compat.CLOSES = rawget(coroutine, "close") ~= nil

--- Compiles a text with syntax that not every Lua has, such as Lua 5.4's to-be-closed variables.
compat.load_text = rawget(_G, "loadstring") or load

--- table.unpack of every Lua.
compat.unpack = rawget(_G, "unpack") or table.unpack

--- Returns a list of its arguments, with their number as `n`.
function compat.pack(...)
    return { n = select("#", ...), ... }
end

--- Returns `it` if a condition holds, otherwise a function in its place, by which a test is pending. `make test` shows the reason.
-- For what a system may lack; what this Lua can never do is pending without a reason.
---@param busted any a file's own `{ it =, pending = }`
function compat.it_with(busted, there, what)
    return there and busted.it or function(title)
        busted.it(title, function()
            busted.pending("needs " .. what)
        end)
    end
end

return compat

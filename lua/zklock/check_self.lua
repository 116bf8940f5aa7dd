--- check_self: the check with which every public method begins: it was called with a colon, on an object of its class.
--
-- For every class of zklock. Each makes a function check_self(self, method) here.

local error, getmetatable = error, getmetatable
local format = string.format

--- Makes the check of a class.
---@param class string the name of the class in messages: "lock"
---@param noun string the same with an article: "a lock"
---@param metatables table set of the metatables that the objects of the class have
---@return fun(self: any, method: string) # raises at the caller of the public method if `self` is no such object.
--   Must not be called in a tail call (return)
return function(class, noun, metatables)
    return function(self, method)
        if not metatables[getmetatable(self)] then
            error(format("%s:%s: call it with a colon on %s", class, method, noun), 3)
        end
    end
end

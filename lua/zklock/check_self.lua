--- check_self: the checks with which public methods begin: of the object that they are called on, and of their arguments.
--
-- For every class of zklock. Each makes its functions check_self(self, method) and checked(method, …) here.

local error, getmetatable = error, getmetatable
local format = string.format

--- Makes the checks of a class. Both raise at the caller of the public method, and must not be called in a tail call (return).
---@param class string the name of the class in messages: "lock"
---@param noun string the same with an article: "a lock"
---@param metatables table set of the metatables that the objects of the class have
---@return fun(self: any, method: string) # raises if `self` is no such object
---@return fun(method: string, value: any, ...: any): ... # returns all but the method; raises if the value is nil or false: what
--   follows it says what is wrong with an argument
return function(class, noun, metatables)
    return function(self, method)
        if not metatables[getmetatable(self)] then
            error(format("%s:%s: call it with a colon on %s", class, method, noun), 3)
        end
    end, function(method, value, ...)
        if not value then
            error(format("%s:%s: %s", class, method, (...)), 3)
        end
        return value, ...
    end
end

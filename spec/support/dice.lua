--- support.dice: a random number generator in plain Lua, so that a seed gives the same numbers on every Lua.
--
--     local new_dice = require "spec.support.dice"
--     local roll = new_dice(4711)
--     roll(6) -- a whole number from 1 to 6

return function(seed)
    local state = seed % 2147483647
    return function(largest)
        state = state * 16807 % 2147483647
        return state % largest + 1
    end
end

--- support.mistake: checks the error that a caller's mistake raises.
--
--     local mistake = require "spec.support.mistake"
--     local message = mistake(function() client:mutex(5) end, "client:mutex: ", "path")
--
-- Calls the function and returns the message of its error. Fails if there is no error, or if one of the given words is not in the
-- message. Also fails if the message does not begin with a position in the function's file, since the function is the caller.

return function(fn, ...)
    local ok, message = pcall(fn)
    assert(not ok, "no error")
    local here = debug.getinfo(fn, "S").short_src .. ":"
    assert(type(message) == "string" and message:sub(1, #here) == here, tostring(message))
    for index = 1, select("#", ...) do
        local word = select(index, ...)
        assert(message:find(word, 1, true), ("%q is not in: %s"):format(word, message))
    end
    return message
end

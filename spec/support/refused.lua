--- support.refused: checks the results of a transaction that was not executed.
--
--     local assert_refused = require "spec.support.refused"
--     local message = assert_refused("bad_version", 2, transaction:commit(10))
--
-- Fails unless the results are nil, a message, the code and the number of the refused part (nil if none was refused). Returns the
-- message.

local assert = require "luassert"

return function(code, index, ...)
    local results, message, got, part = ...
    assert.is_nil(results)
    assert.equal(code, got, message)
    assert.equal(index, part)
    return message
end

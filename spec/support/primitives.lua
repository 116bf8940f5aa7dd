--- support.primitives: what the specs of a client's own reads, writes and watches share.

local assert = require "luassert"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"

local primitives = {}

--- Fails unless the results are nil, a message that contains all of `words`, and the code.
function primitives.assert_code(code, words, ...)
    local result, message, got = ...
    assert.is_nil(result)
    assert.is_string(message)
    assert.equal(code, got, message)
    for _, word in ipairs(words) do
        assert.truthy(message:find(word, 1, true), message)
    end
end

--- Returns a client that waits in support.loop, and the path of a new node with some data.
function primitives.client_and_node(data)
    local client = fixture.client({ wait = loop })
    local path = fixture.path()
    assert(client:create(path, data or "data"))
    return client, path
end

return primitives

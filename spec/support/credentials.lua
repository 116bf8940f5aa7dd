--- support.credentials: clients with credentials, and locks and directories that are closed to all other clients.

local assert = require "luassert"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"

local credentials = {}

--- The password of trusted clients. It must not appear in any output.
credentials.SECRET = "open-sesame-3f9c0d5b7a"

--- Returns the option `auth` for a credential "name:password".
function credentials.digest(credential)
    return { { scheme = "digest", credential = credential } }
end

--- Returns a client that shows the right credential, and whose locks are closed to all other clients.
function credentials.trusted(options, servers)
    local settings = {
        auth = credentials.digest("fleet:" .. credentials.SECRET), acl = "creator", wait = loop, session_timeout = 20
    }
    for name, value in pairs(options or {}) do
        settings[name] = value
    end
    return fixture.client(settings, servers)
end

--- Fails unless the results are those of a call that was refused for want of rights, without the password in the message.
function credentials.assert_refused(ok, message, code)
    assert.same({ nil, "no_auth" }, { ok, code }, message)
    assert.is_nil(message:find(credentials.SECRET, 1, true), message)
end

--- Returns a directory that only trusted clients may use.
function credentials.closed_directory()
    local path = fixture.path()
    assert(credentials.trusted():create(path, "", { acl = "creator" }))
    return path
end

return credentials

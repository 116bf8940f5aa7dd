--- desk: what the modules of zklock share of a client. Client:desk returns it; programs have no use for it.

local protect = require "zklock.protect"

local setmetatable = setmetatable

local WEAK_KEYS = { __mode = "k" }
local WEAK_VALUES = { __mode = "v" }
local WEAK_BOTH = { __mode = "kv" }

--- Makes the desk of a client. `core` is the C client; `settings` are those of zklock.connect.
--
-- References to waiters and holds are weak: a coroutine that is never resumed again is collected together with the locks to which
-- only this coroutine refers.
return function(core, servers, adapter, settings)
    return {
        core = core,
        adapter = adapter,
        protect = protect.by(adapter), -- calls what may wait

        servers = servers,
        identity = settings.identity,
        acl = settings.acl,
        has_auth = settings.auth ~= nil or (settings.tls or {}).cert_file ~= nil,
        has_tls = settings.tls and true or false,

        closing = false,                           -- zklock.shared does not return the client any more
        listeners = {},                            -- of Client:on("state")
        leaders = {},                              -- set of the candidates that campaign
        left = {},                                 -- path -> the hold that a cluster_mutex has left to its max_hold
        contended = false,                         -- see zklock.multi.contended

        attempts = setmetatable({}, WEAK_KEYS),    -- set of the holds that are waited for, and of the runs of multis
        by_handle = setmetatable({}, WEAK_VALUES), -- id of a handle -> the waiter for it
        everybody = setmetatable({}, WEAK_KEYS),   -- all waiters -> what they wait for
        without_handle = setmetatable({}, WEAK_KEYS), -- set of those that wait for the client's state, or for watches
        observers = setmetatable({}, WEAK_VALUES), -- id of a handle -> the hold that is notified of its changes
        calls = {},                                -- the calls (zklock.call) that have no answer yet: the only strong references
        due = {},                                  -- second -> set of the waiters for acquisitions whose deadlines are in it
        overdue = {},                              -- second that a sweep has found with waiters behind it -> when it first did
        threads = setmetatable({}, WEAK_BOTH),     -- on PUC Lua 5.1: waiters and acquisitions -> their coroutines
        sweep_due = 0,                             -- when the next sweep is due
        missed = false                             -- whether notifications were taken from C and not passed on
    }
end

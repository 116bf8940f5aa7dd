--- cli.codes: the exit codes of `zklock`, and which code of zklock's API, of a command that cannot be started, or which signal
-- gives which.

local process = require "zklock.process"

local codes = {
    LOST = 120,           -- the lock was lost while the command ran
    DISCONNECTED = 121,   -- no ZooKeeper within the time, or no TLS with it
    DENIED = 122,         -- ACL or credentials refused
    REFUSED = 123,        -- -n: another contender has the lock
    TIMEOUT = 124,        -- -w: the time is up
    FAILED = 125,         -- zklock itself, or its usage
    NOT_EXECUTABLE = 126, -- the command cannot be executed
    NOT_FOUND = 127,      -- there is no such command
    SIGNAL = 128          -- and the number of a signal
}

--- The signals that ask a program to end.
codes.ENDING = { INT = true, TERM = true, HUP = true, QUIT = true }

local OF_CODE = {
    lost = codes.LOST,
    disconnected = codes.DISCONNECTED,
    tls_failed = codes.DISCONNECTED,
    no_auth = codes.DENIED,
    auth_failed = codes.DENIED,
    timeout = codes.TIMEOUT,
    not_executable = codes.NOT_EXECUTABLE,
    not_found = codes.NOT_FOUND
}

--- Returns the exit code for a code of zklock's API or of zklock.process.
function codes.of(code)
    return OF_CODE[code] or codes.FAILED
end

--- Returns the exit code for a signal, by its name.
function codes.of_signal(name)
    return codes.SIGNAL + process.signal_number(name)
end

return codes

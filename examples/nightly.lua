-- A job that must be finished once a night in the whole fleet, although every machine's clock starts it. A lock alone is not
-- enough: a machine that comes a bit late finds it free. So the machine that has run the job leaves a marker for the night, and
-- every machine looks for the marker after it has acquired the lock. The marker is written by a transaction of the lock: only if
-- the lock is still held. If the job fails, or its machine crashes, there is no marker, and the next machine in the queue runs it.
--
-- To be copied. In the crontab of every machine:
--
--   5 3 * * *  lua5.4 nightly.lua zk1:2181,zk2:2181,zk3:2181 /usr/local/bin/report >>/var/log/nightly.log
--
-- Standard output gets a line that says what happened. Problems go to standard error, which cron sends by mail.
--
--   exit status   what happened
--   0             the job is done for this night, here or on another machine; or another machine is at it
--   1             the job failed here, or the lock was lost while it ran: then another machine runs it once more
--   2             usage
--   75            no connection to ZooKeeper, so nothing was done; another try may help (EX_TEMPFAIL)
--
-- A second program can begin the job while this one runs it, if the lock is lost meanwhile, or if this program is killed and its
-- job goes on. The job has the fencing token in ZKLOCK_TOKEN, to pass it on to what it writes to. Where the job must be stopped,
-- give it a lock of its own as COMMAND: "zklock run -q /locks/report -- /usr/local/bin/report". The variable
-- ZKLOCK_SERVERS gives the servers to this command. ZKLOCK_TOKEN is then the token of /locks/report.
--
--   lua5.4 examples/nightly.lua HOST:PORT[,HOST:PORT…][/CHROOT] [COMMAND]

local zklock = require "zklock"

local PATH = "/nightly/report"
local DONE, FAILED, USAGE, TRY_LATER = 0, 1, 2, 75

--- The night's name, the same on all machines: the date in UTC. The job has to begin some time after midnight UTC.
local NIGHT = os.getenv "NIGHT" or os.date "!%Y-%m-%d"

--- Seconds to wait while another machine is at it: it may fail. 0: not at all.
local WAIT = tonumber(os.getenv "WAIT" or 3600)

local servers, job = arg[1], arg[2] or "echo this is the job"
if not servers or not WAIT then
    io.stderr:write(("usage: [NIGHT=2025-03-01] [WAIT=SECONDS] %s HOST:PORT[,HOST:PORT…] [COMMAND]\n"):format(arg[0]))
    os.exit(USAGE)
end

--- The status for a code. Every other code is FAILED.
local STATUS = { timeout = DONE, disconnected = TRY_LATER }

--- Ends the program. Only what somebody has to look into goes to standard error.
local function finish(client, code, message)
    local status = code and (STATUS[code] or FAILED) or DONE
    local output = status == DONE and io.stdout or io.stderr
    output:write(NIGHT, ": ", code == "timeout" and "another machine is at it: " or "", message, "\n")
    if client then
        client:close()
    end
    os.exit(status, true)
end

local function host_name()
    local pipe = assert(io.popen "uname -n")
    local name = pipe:read "*l"
    pipe:close()
    return name or "?"
end

-- With this session timeout a crashed machine's lock is free after 30 s, and a shorter failure of the servers loses no lock.
local client, message, code = zklock.connect(servers, { session_timeout = 30 })
if not client then
    finish(nil, code, message)
end
local marker = PATH .. "/done-" .. NIGHT

--- Runs the job if no machine has. Returns what to say; or nil, message and code.
local function run_once(lock)
    local by, problem, reason = client:get(marker)
    if by then
        return "was done by " .. by
    elseif reason ~= "no_node" then
        return nil, problem, reason
    end
    local result = os.execute(("ZKLOCK_TOKEN=%s; export ZKLOCK_TOKEN; %s"):format(lock:token() or "", job))
    if result ~= true and result ~= 0 then -- a number in Lua 5.1
        return nil, "the job failed", "failed"
    end
    local transaction = lock:transaction():create(marker, host_name())
    for _, name in ipairs(client:children(PATH) or {}) do
        if name:find "^done%-" and name < "done-" .. NIGHT then -- of an earlier night
            transaction:delete(PATH .. "/" .. name)
        end
    end
    local written
    written, problem, reason = transaction:commit()
    if not written then
        return nil, "the job has run, but there is no marker: " .. problem, reason
    end
    return "was done here"
end

local ok, said, problem, reason = client:mutex(PATH .. "/lock"):with_lock(run_once, WAIT)
if not ok then -- nil, message, code
    finish(client, problem, said)
end
finish(client, reason, said or problem)

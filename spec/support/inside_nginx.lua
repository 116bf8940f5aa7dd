--- support.inside_nginx: functions that specs call inside nginx, from the locations of its configuration.

local zklock = require "zklock"

local ngx = ngx

local inside = {}

--- Returns the module's shared client. Its session is long, so that no lock passes on by expiry during a spec, unless the spec has
-- set `session_timeout`; `tls` as well.
function inside.client()
    return assert(zklock.shared(inside.servers, {
        session_timeout = inside.session_timeout or 60, tls = inside.tls, follow = inside.follow, log = inside.log
    }))
end

--- Returns a mutex with a node for each acquisition, so that a spec sees the waiters by their nodes; unless `handoff` is given.
function inside.mutex(path, options)
    options = options or {}
    options.handoff = options.handoff or 0
    return inside.client():mutex(path, options)
end

--- Answers with the number of coroutines of the worker that wait.
function inside.waiters()
    local count = 0
    for _ in pairs(inside.client():desk().everybody) do
        count = count + 1
    end
    ngx.say(count)
end

--- Returns a word for the results of a call.
local function outcome(value, _, code)
    return code or tostring(value and true or value)
end

--- Tries a free lock on a separate path, for 20 seconds unless given, and a held lock in the present phase. Keeps the results for
-- "/report".
function inside.probe(name, seconds)
    local words = { ngx.get_phase() }
    local free = inside.mutex(inside.path .. "-" .. name)
    words[2] = "acquire " .. outcome(free:acquire(seconds or 20))
    words[3] = "release " .. outcome(free:release { wait = false })
    local held = inside.held
    if held then
        words[4] = ("held %s, token %s"):format(tostring(held:held()), type(held:token()))
    end
    ngx.shared.results:set(name, table.concat(words, "; "))
end

--- The locks that this module keeps for all requests, reentrant or not, by kind.
local kept = { [true] = nil, [false] = nil }

--- Returns one of the kept locks.
---@param kind string "mutex", "read", "write", "semaphore" or "multi"
function inside.kept_lock(kind, reentrant)
    if not kept[reentrant] then
        local client, settings = inside.client(), { reentrant = reentrant }
        local path = inside.path .. (reentrant and "-r" or "")
        local rw = client:rwlock(path .. "-rw", settings)
        kept[reentrant] = {
            mutex = client:mutex(path .. "-mutex", settings), read = rw.read, write = rw.write,
            semaphore = client:semaphore(path .. "-semaphore", 1, settings),
            multi = client:multi { client:mutex(path .. "-a", settings), client:mutex(path .. "-b", settings) }
        }
    end
    return kept[reentrant][kind]
end

--- Counts the requests that use a kept lock: `inside` hold it now, `most` held it at the same time at most, `turns` have held it.
local uses = setmetatable({}, { __index = function(all, lock)
    all[lock] = { inside = 0, most = 0, turns = 0 }
    return all[lock]
end })

--- Works with a kept lock that is held, until another request has held, holds too or, if it cannot, waits.
local function work(held, lock, reentrant, kind)
    local use = uses[lock]
    use.inside = use.inside + 1
    use.most = math.max(use.most, use.inside)
    while use.inside < 2 and use.turns == 0 and (kind == "read" or next(inside.client():desk().attempts) == nil) do
        ngx.sleep(0.01)
    end
    assert(held:held() and lock:held(), "not held")
    local again, _, code = lock:acquire(20)
    assert(reentrant and again or code == "deadlock", code)
    assert(not again or lock:release())
    assert(lock:held(), "not held any more")
    use.inside, use.turns = use.inside - 1, use.turns + 1
end

--- Answers with the most requests that held the kept lock ?kind= at the same time; it is acquired by ?way=.
function inside.use_kept()
    local args = ngx.req.get_uri_args()
    local reentrant = args.reentrant == "true"
    local lock = inside.kept_lock(args.kind, reentrant)
    if args.way == "with_lock" then
        assert(lock:with_lock(work, 20, lock, reentrant, args.kind))
    else
        work(assert(lock:acquire(20)), lock, reentrant, args.kind)
        assert(lock:release())
    end
    local _, _, code = lock:release()
    ngx.say(uses[lock].most, " ", code)
end

--- Answers with the text that was kept under a name, or "".
function inside.report(name)
    ngx.say(ngx.shared.results:get(name) or "")
end

--- Acquires, holds for ?seconds= or until the file ?go= exists, and releases.
function inside.cycle()
    local args = ngx.req.get_uri_args()
    local lock = inside.mutex(args.path, { handoff = tonumber(args.handoff) })
    local got, message, code = lock:acquire(tonumber(args.timeout) or 60)
    if not got then
        ngx.status = 503
        return ngx.say(code, " ", message)
    end
    local seconds = tonumber(args.seconds) or 0
    if seconds > 0 then
        ngx.sleep(seconds)
    end
    while args.go and not io.open(args.go) do
        ngx.sleep(0.01)
    end
    local held = lock:held()
    assert(lock:release { wait = args.wait ~= "false" })
    ngx.say(held and "held" or "lost")
end

return inside

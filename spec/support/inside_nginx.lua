--- support.inside_nginx: what runs inside nginx in specs: locations are made of these.

local zklock = require "zklock"

local ngx = ngx

local inside = {}

--- The module's shared client; a long session, so that nothing passes on by expiry while a spec looks on.
function inside.client()
    return assert(zklock.shared(inside.servers, { session_timeout = 30 }))
end

--- A mutex with a node for each acquisition, so that a spec sees by the nodes who waits; unless `handoff` says otherwise.
function inside.mutex(path, options)
    options = options or {}
    options.handoff = options.handoff or 0
    return inside.client():mutex(path, options)
end

--- Answers with how many coroutines of the worker wait for something.
function inside.waiters()
    local count = 0
    for _ in pairs(inside.client()._registry.everybody) do
        count = count + 1
    end
    ngx.say(count)
end

--- A word for what a call returned.
local function outcome(value, _, code)
    return code or tostring(value and true or value)
end

--- What a lock can do in the present phase, on a path that nobody else uses, and with a lock that is held; kept for "/report".
function inside.probe(name)
    local words = { ngx.get_phase() }
    local free = inside.mutex(inside.path .. "-" .. name)
    words[2] = "acquire " .. outcome(free:acquire(20))
    words[3] = "release " .. outcome(free:release { wait = false })
    local held = inside.held
    if held then
        words[4] = ("held %s, token %s"):format(tostring(held:held()), type(held:token()))
    end
    ngx.shared.results:set(name, table.concat(words, "; "))
end

--- Answers with what has been kept under a name, or "".
function inside.report(name)
    ngx.say(ngx.shared.results:get(name) or "")
end

--- Acquires and holds for ?seconds=, then releases.
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
    local held = lock:held()
    assert(lock:release { wait = args.wait ~= "false" })
    ngx.say(held and "held" or "lost")
end

return inside

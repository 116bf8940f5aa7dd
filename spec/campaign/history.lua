--- campaign.history: turns the clients' records (see programs/turns.lua) into intervals in which locks were held.
--
-- A history: { grants =, writes =, refusals = of acquires by code, stale = refused writes, late = writes that destroyed a newer
-- value where there is no fence, counters = sums of the clients' counters, leaks =, starts = }. Times are seconds on one clock.
--
--     grant   { who =, fiber =, path =, mode = "x"|"r"|"s", weight =, limit =, token = nil|string, from =, to =, ended = reason,
--             deleted = nil|when an administrator deleted its node, or a little before }
--     write   { path =, token =, sequence = }

local unpack = table.unpack or unpack

local history = {}

function history.new()
    return { grants = {}, writes = {}, refusals = {}, stale = 0, late = 0, counters = {}, leaks = {}, starts = 0, closed = {} }
end

--- Adds the record `text` of `who` to a history. A last line without its end is ignored.
function history.add(into, text, who)
    local open, order, left = {}, {}, nil
    local counters = {}

    --- How long a grant is known to have been valid: until it was last seen, and for as long as was promised then.
    local function promise(grant, time, valid)
        grant.seen = tonumber(time)
        grant.promised = math.max(grant.promised or 0, tonumber(valid) or 0)
    end

    local read = {}

    function read.start()
        into.starts = into.starts + 1
    end

    function read.g(id, path, mode, weight, limit, token, time, valid)
        local grant = {
            who = who, fiber = id:match("^%d+"), path = path, mode = mode, weight = tonumber(weight), limit = tonumber(limit),
            token = token ~= "-" and token or nil, from = tonumber(time)
        }
        promise(grant, time, valid)
        open[id] = grant
        order[#order + 1] = grant
        into.grants[#into.grants + 1] = grant
    end

    function read.v(id, time, valid)
        promise(open[id], time, valid)
    end

    function read.e(id, time, reason)
        local grant = open[id]
        grant.ended, grant.finish = reason, tonumber(time)
    end

    local function before(grant, token)
        if grant.token and token ~= "-" and token > grant.token then
            into.late = into.late + 1
        end
    end

    function read.w(id, sequence, token)
        local grant = open[id]
        into.writes[#into.writes + 1] = { path = grant.path, token = grant.token, sequence = tonumber(sequence) }
        before(grant, token)
    end

    function read.x(id, token)
        into.stale = into.stale + 1
        before(open[id], token)
    end

    function read.d(id, time)
        open[id].deleted = tonumber(time)
    end

    function read.r(_, _, code)
        into.refusals[code] = (into.refusals[code] or 0) + 1
    end

    function read.q(time)
        left = tonumber(time)
    end

    function read.n(...)
        for _, word in ipairs({ ... }) do
            local name, value = word:match("^([%w_]+)=(%d+)$")
            counters[name] = tonumber(value)
        end
    end

    function read.c(fds, fds_after, threads, threads_after)
        into.closed[#into.closed + 1] = who
        if tonumber(fds_after) > tonumber(fds) or tonumber(threads_after) > tonumber(threads) then
            into.leaks[#into.leaks + 1] = ("%s: fds %s, then %s; threads %s, then %s"):format(who, fds, fds_after, threads,
                threads_after)
        end
    end

    for line in text:gmatch("([^\n]*)\n") do
        local words = {}
        for word in line:gmatch("%S+") do
            words[#words + 1] = word
        end
        read[words[1]](unpack(words, 2))
    end

    for _, grant in ipairs(order) do
        if grant.ended == "released" then
            grant.to = grant.finish
        else
            -- Lost, killed or gone: valid for as long as was promised. Only the holder itself may end it sooner.
            grant.ended = grant.ended or left and "exit" or "killed"
            grant.to = math.max(grant.seen, math.min(grant.promised, grant.finish or left or math.huge))
        end
    end
    for name, value in pairs(counters) do
        into.counters[name] = (into.counters[name] or 0) + value
    end
end

return history

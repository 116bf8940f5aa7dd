--- cli.figures: what latencies that `zklock bench` has measured mean for sessions, timeouts and locks. Pure functions.
--
-- *Results* are a table:
--
--   session_timeout   seconds that the servers have granted
--   contenders        how many clients have passed the lock on
--   connect, write, read, lock, hand_over
--                     summaries: of a new session, of a write and a read of a small node, of an acquisition and a release
--                     without other contenders, of the time from a release until the next contender holds
--   locks_per_second  grants of the lock in a second, at the rate of the measurement
--   most_locks_per_second
--                     how many would be possible, by the mean of hand_over
--
-- A remark is { level, message }. Its level is "ok", "warning" (locks may be lost) or "error" (locks do not last).

local ceil, floor, max = math.ceil, math.floor, math.max
local format, sort = string.format, table.sort

local figures = {}

--- The part of the session timeout that an answer may take: a warning, an error. As in zklock.cli.diagnosis.
local SLOW, TOO_SLOW = 1 / 10, 1 / 2

--- Work that is shorter than so many hand-overs is better done under one lock.
local SHORT_WORK = 10

--- Returns a time for people: "0.42 ms", "12 ms", "1.3 s".
function figures.duration(seconds)
    if seconds < 0.00995 then
        return format("%.2f ms", seconds * 1000)
    elseif seconds < 0.9995 then
        return format("%.0f ms", seconds * 1000)
    end
    return format("%.1f s", seconds)
end

--- The smallest value that at least so large a part of a sorted list does not exceed.
local function quantile(sorted, part)
    return sorted[max(1, ceil(part * #sorted - 1e-9))]
end

local function microseconds(seconds)
    return floor(seconds * 1e6 + 0.5) / 1e6
end

--- Returns a summary of a list of seconds that is not empty.
---@return table # count; mean, p50, p90, p99, max: seconds, to the microsecond
function figures.summary(samples)
    local sorted, sum = {}, 0
    for index, seconds in ipairs(samples) do
        sorted[index], sum = seconds, sum + seconds
    end
    sort(sorted)
    return {
        count = #sorted, mean = microseconds(sum / #sorted), p50 = microseconds(quantile(sorted, 0.5)),
        p90 = microseconds(quantile(sorted, 0.9)), p99 = microseconds(quantile(sorted, 0.99)), max = microseconds(sorted[#sorted])
    }
end

--- Returns how many locks a second there were in so many seconds, and how many would be possible, by the mean. To a tenth.
function figures.rates(hand_over, seconds)
    return floor(hand_over.count / seconds * 10 + 0.5) / 10, floor(10 / max(hand_over.mean, 1e-6) + 0.5) / 10
end

--- Seconds of a session of which the slowest answer takes no more than the part that is no warning. A whole number.
local function enough(slowest)
    return max(1, ceil(slowest / SLOW - 1e-9))
end

local function remark_on_session(results, add)
    local timeout, slowest = results.session_timeout, max(results.write.max, results.read.max)
    local lease = timeout / 2
    local level = slowest >= timeout * TOO_SLOW and "error" or slowest >= timeout * SLOW and "warning" or "ok"
    add(level, "The slowest answer took %s. With a session of %g s, a lock is lost after %g s without an answer: %s.",
        figures.duration(slowest), timeout, lease, level == "ok" and format("%d times as long", floor(lease / slowest))
        or "answers are too slow for that. Ask for a longer session, or give the servers faster disks")
    add("ok", "As far as these answers go, --session-timeout %d is enough. When the servers elect a leader, no answers come for " ..
        "some seconds: a lock survives that only if half of the session is longer.", enough(slowest))
end

local function remark_on_timeouts(results, add)
    add("ok", "A free lock took up to %s to acquire and to release, a new session up to %s: with a shorter -w, zklock run may " ..
        "give up although nobody has the lock.", figures.duration(results.lock.max), figures.duration(results.connect.max))
end

local function remark_on_contention(results, add)
    local pass = results.hand_over
    add("ok", "One lock changes hands in %s: %d times a second at most, however many want it.", figures.duration(pass.mean),
        floor(results.most_locks_per_second))
    add("ok", "Work of less than %s spends a tenth of the time, or more, on passing the lock on: do several pieces under one " ..
        "lock, or use several locks.", figures.duration(pass.mean * SHORT_WORK))
    add("ok", "With %d contenders each waits for the work of %d others, and %s for passing on.", results.contenders,
        results.contenders - 1, figures.duration(pass.mean * results.contenders))
end

--- Returns what results mean: a list of remarks.
function figures.remarks(results)
    local list = {}
    local function add(level, ...)
        list[#list + 1] = { level = level, message = format(...) }
    end
    remark_on_session(results, add)
    remark_on_timeouts(results, add)
    remark_on_contention(results, add)
    return list
end

return figures

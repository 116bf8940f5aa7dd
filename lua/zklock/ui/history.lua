--- ui.history: what the contenders of one lock have done in the last day: a lane for each, and figures of the lock. No I/O.
--
-- For zklock.ui.model, and for the command. zklock.ui.log keeps lanes in a file, from which History:restore takes them. A *lane* is
-- a table:
--
--   * `node`, `name` (of the node), `mode`, `identity`, `session`: as of the contender (zklock.inspect)
--   * `from` when it joined the queue, `held` when it was first seen as a holder, `ended` when it was first seen to be gone:
--     seconds since 1970; nil: not yet
--   * `away` whether its client had no connection when the servers were asked last
--   * `number`, `waits_for`: as of the contender when it was seen last
--   * `fate` of an ended lane: "left" (it never held), "brief" (it may have held between two readings), "served" (it has got its
--     permits, which have lanes of their own), "released" (its session lives on); "lost" (its session has ended, and its client had
--     no connection before); "ended" (it is unknown which: its session has ended, too); "pending" (sessions have not been read
--     since); "unseen" (a log tells that it held at its end, `ended`, and it was gone when the log went on)
--
-- What is seen has happened between two readings of the lock, so times are later than the events by up to the time between them. A
-- contender that comes and goes between two readings has no lane, but counts as a grant.

local core = require "zklock.core"
local Waits = require "zklock.inspect.waits"

local abs, time = math.abs, os.time
local floor, max, min = math.floor, math.max, math.min
local remove, sort = table.remove, table.sort

--- Seconds that are remembered, and how many ended lanes of a lock.
local WINDOW, ENDED = 86400, 1000

--- Seconds that are recent, how many recent lanes are told, and waits and holds of which the quantiles are computed.
local RECENT, TOLD, SAMPLES = 300, 100, 100

--- Seconds of a part in which grants are counted.
local BUCKET = 10

--- A hold is long only in comparison with so many others.
local ENOUGH = 20

--- Seconds after its nodes within which a session that has ended may still be told as living.
local SETTLE = 0.5

local History = { RECENT = RECENT }
History.__index = History

--- Returns a clock in seconds since 1970 with parts of seconds. It may be wrong by a second, and jumps only if the clock is set.
function History.new_clock()
    local base = time() - core.now()
    return function()
        local now, monotonic = time(), core.now()
        if abs(base + monotonic - now) > 2 then
            base = now - monotonic -- the clock was set, or the machine has slept
        end
        return base + monotonic
    end
end

---@param now number seconds since 1970
---@param is_new? boolean true: the lock did not exist before, so what is seen first has just begun
---@param note? function function(event, lane) is called when a contender "holds", and when it has "left" and its fate is decided
function History.new(now, is_new, note)
    return setmetatable({
        began = now, counted = now, seen = is_new or false, note = note or function() end,
        lanes = {},         -- node -> lane of a contender that is there
        ended = {},         -- lanes that have ended, in that order
        waits = { last = 0 }, holds = { last = 0 }, -- rings of samples
        buckets = {},       -- floor(time / BUCKET) -> grants
        served = is_new and 0 or nil, -- nodes that have got through the queue, by its numbers
        pending = 0         -- ended lanes whose fate is pending
    }, History)
end

--- Adds a value to a ring of samples.
local function sample(ring, value)
    ring.last = ring.last % SAMPLES + 1
    ring[ring.last] = max(0, value)
end

local function count_grants(self, now, count)
    if count > 0 then
        local bucket = floor(now / BUCKET)
        self.buckets[bucket] = (self.buckets[bucket] or 0) + count
    end
end

--- Decides a pending fate.
local function decide(self, lane, fate)
    lane.fate, self.pending = fate, self.pending - 1
    self.note("left", lane)
end

--- Forgets the oldest ended lane.
function History:drop_oldest()
    local lane = remove(self.ended, 1)
    if lane.fate == "pending" then
        decide(self, lane, "ended")
    end
end

--- Adds an ended lane.
local function add_ended(self, lane)
    self.ended[#self.ended + 1] = lane
    if #self.ended > ENDED then
        self:drop_oldest()
    end
end

--- Whether a contender that is gone cannot have held: one that it waited for is still there. `first`: the smallest number there.
local function has_left(lane, present, first)
    return present[lane.waits_for] or lane.mode == "exclusive" and first ~= nil and first < lane.number
end

--- Ends the lane of a contender that is gone. `permits`: the sessions that have permits; `present`: the nodes that are there.
local function finish(self, lane, now, permits, present, first, knows_sessions)
    lane.ended = now
    if not lane.held then
        lane.fate = permits[lane.session] and "served" or has_left(lane, present, first) and "left" or "brief"
        if lane.fate == "served" then
            sample(self.waits, now - lane.from)
        end
    elseif lane.restored then
        lane.fate, lane.ended = "unseen", lane.restored
    else
        sample(self.holds, now - lane.held)
        lane.fate = knows_sessions and lane.session and "pending" or "ended"
        self.pending = self.pending + (lane.fate == "pending" and 1 or 0)
    end
    self.lanes[lane.node] = nil
    if lane.fate ~= "pending" then
        self.note("left", lane)
    end
    add_ended(self, lane)
end

--- Takes in a line of a log. A holder whose end the log does not tell is continued by the next state, if it is still there.
---@param record table of zklock.ui.log, "holds" or "left"
---@param last number the time of the log's end
function History:restore(record, last)
    local lane = {
        node = record.node, name = record.node:match "[^/]*$", mode = record.mode, identity = record.identity,
        session = record.session, from = record.from, held = record.held, ended = record.ended, fate = record.fate
    }
    self.began = min(self.began, record.time)
    if record.event == "holds" then
        lane.restored = last
        self.lanes[lane.node] = lane
        return
    end
    self.lanes[lane.node] = nil
    if lane.held and lane.fate ~= "unseen" then
        sample(self.waits, lane.held - lane.from)
        sample(self.holds, lane.ended - lane.held)
    end
    add_ended(self, lane)
end

--- Returns the last lanes that have ended recently, the oldest first.
function History:recent(now)
    local first, list = #self.ended + 1, {}
    while first > 1 and #self.ended - first + 1 < TOLD and self.ended[first - 1].ended >= now - RECENT do
        first = first - 1
    end
    for index = first, #self.ended do
        list[#list + 1] = self.ended[index]
    end
    return list
end

--- Takes in a lock state.
---@param state? table nil: the lock's directory is gone
---@param now number seconds since 1970
---@param knows_sessions boolean whether resolve will be called with what the servers say about sessions
function History:add(state, now, knows_sessions)
    local present, permits, first, grants, left = {}, {}, nil, 0, 0
    for _, contender in ipairs(state and state.contenders or {}) do
        present[contender.node] = true
        if contender.mode == "lease" and contender.session then
            permits[contender.session] = true
        elseif contender.mode ~= "lease" then
            first = min(first or contender.sequence, contender.sequence)
        end
        local lane = self.lanes[contender.node]
        if not lane then
            lane = {
                node = contender.node, name = contender.name, mode = contender.mode, from = min(contender.since or now, now)
            }
            self.lanes[contender.node] = lane
        end
        lane.identity, lane.session = contender.identity or lane.identity, contender.session or lane.session
        lane.restored = nil
        lane.away = contender.session_state == "disconnected"
        lane.number, lane.waits_for = contender.sequence, contender.waits_for
        if contender.holder and not lane.held then
            grants = grants + 1
            -- In the first reading, nobody knows since when it holds: its node is as old as that at most.
            lane.held = self.seen and now or lane.from
            self.note("holds", lane)
            if self.seen and lane.mode ~= "lease" then
                sample(self.waits, now - lane.from)
            end
        end
    end
    local gone = {}
    for node, lane in pairs(self.lanes) do
        if not present[node] then
            gone[#gone + 1] = lane
        end
    end
    sort(gone, function(a, b)
        return a.from < b.from or a.from == b.from and a.node < b.node
    end)
    for _, lane in ipairs(gone) do
        finish(self, lane, now, permits, present, first, knows_sessions)
        left = left + (lane.fate == "left" and 1 or 0)
    end
    -- Numbers of the queue tell of contenders that came and went between two readings.
    local served = state and state.next_sequence and state.next_sequence - state.waiters
    if self.seen and self.served and served then
        grants = max(grants, served - self.served - left)
    end
    if self.seen then
        count_grants(self, now, grants)
    end
    self.served, self.seen = served, true
end

--- Moves all that was seen in time, because the clock was set.
---@param seconds number by which the clock is ahead of what it was; negative: it was set back
function History:shift(seconds)
    self.began, self.counted = self.began + seconds, self.counted + seconds
    for _, lanes in ipairs { self.lanes, self.ended } do
        for _, lane in pairs(lanes) do
            for _, field in ipairs { "from", "held", "ended" } do
                lane[field] = lane[field] and lane[field] + seconds
            end
        end
    end
    local buckets = {}
    for number, count in pairs(self.buckets) do
        local moved = floor((number * BUCKET + seconds) / BUCKET)
        buckets[moved] = (buckets[moved] or 0) + count
    end
    self.buckets = buckets
end

--- Decides the pending fates.
---@param now number
---@param is_gone? function function(session id): true, false, or nil if that is unknown; nil: nothing is known
---@return boolean # whether one was decided
function History:resolve(now, is_gone)
    local any = false
    for _, lane in ipairs(self.pending > 0 and self.ended or {}) do
        if lane.fate == "pending" then
            local gone
            if is_gone then
                gone = is_gone(lane.session)
            end
            if gone ~= false or now - lane.ended >= SETTLE then
                decide(self, lane, gone and lane.away and "lost" or gone == false and "released" or "ended")
                any = true
            end
        end
    end
    return any
end

--- Forgets what is older than the window.
---@return boolean # whether the figures have changed
function History:forget(now)
    local changed = false
    while self.ended[1] and self.ended[1].ended < now - WINDOW do
        self:drop_oldest()
    end
    local bucket = floor((now - RECENT) / BUCKET)
    for number in pairs(self.buckets) do
        if number < bucket then
            self.buckets[number], changed = nil, true
        end
    end
    return changed
end

--- The value below which so much of a ring's samples is.
local function quantile(sorted, part)
    return sorted[max(1, floor(#sorted * part + 0.999999))]
end

local function quantiles(ring)
    local sorted = {}
    for index, value in ipairs(ring) do
        sorted[index] = value
    end
    sort(sorted)
    return { count = #sorted, p50 = quantile(sorted, 0.5), p99 = quantile(sorted, 0.99) }
end

--- Estimates how long each waiter still waits, if holds last as long as the median of those that were seen.
---@param state table
---@return table # node -> seconds; empty: no hold was seen
function History:expect(state)
    local median, expected, turns, last = quantiles(self.holds).p50, {}, 0, nil
    local together = state.kind == "semaphore" and max(1, state.limit or state.holders) or 1
    for _, contender in ipairs(median and state.contenders or {}) do
        if Waits.is_waiting(contender) then
            if contender.mode ~= "shared" or last ~= "shared" then -- readers next to each other hold at the same time
                turns = turns + 1
            end
            expected[contender.node], last = floor((turns + together - 1) / together) * median, contender.mode
        end
    end
    return expected
end

--- The figures of the lock.
---@return table # `rate` grants a second in the window or since the beginning, `wait` and `hold`: { count, p50, p99 } of the last
--   waits and holds that were seen, in seconds; `long` the length of a hold that is longer than 99 % of them, if there are enough
function History:figures(now)
    local grants = 0
    for _, count in pairs(self.buckets) do
        grants = grants + count
    end
    local hold = quantiles(self.holds)
    return {
        rate = grants / max(BUCKET, min(RECENT, now - self.counted)),
        wait = quantiles(self.waits), hold = hold, long = hold.count >= ENOUGH and hold.p99 or nil
    }
end

return History

--- ui.model: what the live view shows: one snapshot of the locks below some paths, kept up to date for all viewers.
--
-- A model has one *poller*, the coroutine that runs Model:run. It updates a tree (zklock.inspect.tree), which sends the same
-- requests for one viewer as for a hundred. Each change of a lock gives it a *revision*, a number that grows. A *viewer* remembers
-- the revision that it has seen, and is sent what is newer, in one message. So a slow viewer skips states, and keeps nothing
-- waiting.
--
-- Messages are server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): "snapshot" with everything,
-- "change" with what is newer, "beat" when nothing has changed for a while. A viewer may show the list of all locks, or one lock
-- with its contenders. docs/live-view.md describes their JSON.

local core = require "zklock.core"
local families = require "zklock.metrics.families"
local History = require "zklock.ui.history"
local inspect = require "zklock.inspect"
local json = require "dkjson"
local page = require "zklock.metrics.page"
local text = require "zklock.text"
local Tree = require "zklock.inspect.tree"
local Waits = require "zklock.inspect.waits"
local wait = require "zklock.wait"

local abs, floor, huge, max, min = math.abs, math.floor, math.huge, math.max, math.min
local concat, sort = table.concat, table.sort
local format = string.format

--- Seconds between two rounds of the poller at least: changes that come together are sent together.
local ROUND = 0.2

--- Seconds between two looks for what is older than the window; between two questions about sessions, usually, while a fate
-- is pending, and after the servers have refused to answer.
local FORGET, SESSIONS, SOON, LATER = 10, 5, 1, 60

--- Seconds without a message after which a viewer is sent a beat.
local BEAT = 10

--- Seconds after which a viewer that has not asked for its message is removed: its connection has ended unnoticed.
local ABANDONED = 90

--- Seconds by which a clock that was set differs at least from what it was.
local JUMP = 1

--- Viewers at a time, and removed locks that are remembered.
local VIEWERS, GONE = 100, 1000

--- Ended lanes of all locks together, and texts of one revision that are kept.
local LANES, MESSAGES = 20000, 8

--- Bytes of texts: paths are as long as they are, because they are links.
local IDENTITY, NAME = 120, 160

--- Seconds between two holds that look like one interval.
local JOINED = 1

--- Holders that a line of the list names, intervals of its strip, leases of this process; deadlocks, and programs of each.
local NAMED, STRIP, LEASES, DEADLOCKS, STEPS = 3, 30, 100, 10, 10

--- Locks of which each has metrics; if there are more, only all together have.
local MEASURED = 200

local Model = { VIEWERS = VIEWERS, BEAT = BEAT }
Model.__index = Model

local forget

--- Makes a model. Model:run must be called in a coroutine.
--
-- Settings:
--   * `paths` list of paths
--   * `sessions` function() with the results of zklock.inspect.sessions. Without it, the model does not know which sessions live.
--   * `clock` function() that returns seconds since 1970.
--   * `interval` seconds between two readings of a lock, default 1
--   * `log` of zklock.ui.log: what it has is shown, and it gets what is seen
--
---@param client zklock.Client
---@param settings table
---@return table
function Model.new(client, settings)
    local clock = settings.clock or History.new_clock()
    local self = setmetatable({
        client = client, clock = clock, process = core.default_identity(), paths = settings.paths,
        revoke = nil, -- the field of each frame: zklock.ui.app sets it
        tree = Tree.new(client, settings.paths, { interval = settings.interval }),
        ask_sessions = settings.sessions or false, sessions = false, sessions_at = -huge, sessions_refused = false,
        offset = clock() - core.now(), -- of the clock against one that is never set
        began = clock(), read_at = false, was_read = false, problem = false, stopped = false, used_at = core.now(),
        log = settings.log or false, torn = 0, -- torn: lines of the log that were skipped
        histories = {},                        -- path -> history, also of locks that are gone
        losses = 0,
        locks = {}, lock_count = 0, lane_count = 0, deadlocks = {}, deadlock_count = 0,
        -- gone: list of { path =, revision = }; older ones than gone_before are forgotten
        revision = 0, gone = {}, gone_before = 0,
        epoch = format("%x-%x", floor(clock() * 1000) % 4294967296, floor(core.now() * 1000000) % 4294967296),
        viewers = {}, viewer_count = 0, touched = false, forget_at = core.now() + FORGET,
        messages = {}, message_count = 0            -- see fields_of: texts of the present revision
    }, Model)
    self.torn = self.log and self.log:restore(function(record, last)
        self:_history_of(record.path, false):restore(record, last)
    end) or 0
    forget(self, clock())
    return self
end

-- JSON ----------------------------------------------------------------------------------------------------------------

--- Returns seconds with three digits.
local function rounded(seconds)
    return seconds and floor(seconds * 1000 + 0.5) / 1000 or nil
end

local function identity_of(contender)
    return contender.identity and contender.identity ~= "" and text.clean(contender.identity, IDENTITY) or nil
end

local function quantiles_json(quantiles)
    return { count = quantiles.count, p50 = rounded(quantiles.p50), p99 = rounded(quantiles.p99) }
end

local function figures_json(figures)
    return {
        rate = rounded(figures.rate), long = rounded(figures.long),
        wait = quantiles_json(figures.wait), hold = quantiles_json(figures.hold)
    }
end

--- The last intervals in which the lock was held, by any contender: lists of from, to (0: still held) and 1 if it was lost.
local function strip_json(history, recent)
    local lanes = {}
    for _, lane in pairs(history.lanes) do
        lanes[#lanes + 1] = lane.held and lane or nil
    end
    for _, lane in ipairs(recent) do
        lanes[#lanes + 1] = lane.held and lane or nil
    end
    sort(lanes, function(a, b)
        return a.held < b.held
    end)
    local intervals, last = {}, nil -- last: the one that may be continued
    for _, lane in ipairs(lanes) do
        local is_lost, ended = lane.fate == "lost", lane.ended or huge
        if last and not is_lost and lane.held - last.to < JOINED then
            last.to = max(last.to, ended)
        else
            intervals[#intervals + 1] = { from = lane.held, to = ended, is_lost = is_lost }
            last = not is_lost and intervals[#intervals] or last
        end
    end
    local strip = {}
    for index = max(1, #intervals - STRIP + 1), #intervals do
        local one = intervals[index]
        strip[#strip + 1] = { rounded(one.from), one.to < huge and rounded(one.to) or 0, one.is_lost and 1 or 0 }
    end
    return strip
end

--- Returns the fields that the list shows of a lock. They are cached until the lock changes.
local function summary_of(lock, now)
    local state, history, recent = lock.state, lock.history, lock.history:recent(now)
    local object = {
        path = lock.path, kind = lock.kind, missing = not state or nil, holders = state and state.holders or 0,
        waiters = state and state.waiters or 0, limit = state and state.limit, count = state and state.count,
        left = state and state.left, names = {}, strays = 0, figures = figures_json(lock.figures),
        strip = strip_json(history, recent)
    }
    local counts, order = {}, {}
    for _, contender in ipairs(state and state.contenders or {}) do
        if inspect.stray(contender) then
            object.strays = object.strays + 1
        end
        local lane = history.lanes[contender.node]
        if contender.holder and lane then
            object.since = min(object.since or huge, rounded(lane.held))
            object.away = object.away or contender.session_state == "disconnected" or nil
            local name = identity_of(contender) or format("(%s)", contender.library)
            if not counts[name] then
                order[#order + 1] = name
            end
            counts[name] = (counts[name] or 0) + 1
        end
    end
    for index = 1, min(NAMED, #order) do
        local name = order[index]
        object.names[index] = counts[name] > 1 and format("%s ×%d", name, counts[name]) or name
    end
    object.more = #order - #object.names
    for _, lane in ipairs(recent) do
        object.lost = lane.fate == "lost" and rounded(lane.ended) or object.lost
    end
    return object
end

local function contender_json(contender, lane, expected)
    return {
        node = contender.node, name = text.clean(contender.name, NAME), mode = contender.mode, number = contender.sequence,
        holder = contender.holder, ahead = contender.ahead, waits_for = contender.waits_for, identity = identity_of(contender),
        revoked = contender.revoked, library = contender.library, from = rounded(lane.from), held = rounded(lane.held),
        expected = rounded(expected), session = contender.session, session_state = contender.session_state,
        address = contender.address and text.clean(contender.address, NAME), session_timeout = contender.session_timeout,
        stray = inspect.stray(contender)
    }
end

local function lane_json(lane)
    return {
        name = text.clean(lane.name, NAME), node = lane.node, mode = lane.mode, identity = identity_of(lane),
        from = rounded(lane.from),
        held = rounded(lane.held), ended = rounded(lane.ended), fate = lane.fate
    }
end

--- Returns the fields that the page of a lock shows.
local function detail_of(lock, now)
    local object, state = summary_of(lock, now), lock.state
    object.contenders, object.ended = {}, {}
    object.total, object.next_number = state and state.total or 0, state and state.next_sequence
    object.began = rounded(lock.history.began)
    local expected = state and lock.history:expect(state)
    for index, contender in ipairs(state and state.contenders or {}) do
        object.contenders[index] = contender_json(contender, lock.history.lanes[contender.node], expected[contender.node])
    end
    for index, lane in ipairs(lock.history:recent(now)) do
        object.ended[index] = lane_json(lane)
    end
    return object
end

--- Returns figures of this process's client, which nobody else knows; nil if the client has never asked for a lock.
local function own_json(self)
    local stats = self.client:stats()
    if not stats or stats.acquisitions == 0 then
        return nil
    end
    local object, count = { leases = {}, held = 0, waiting = 0, losses = 0, handoffs = stats.hand_overs }, 0
    for _, figures in pairs(self.client:group_stats() or {}) do
        object.held, object.waiting = object.held + figures.held, object.waiting + figures.waiting
        for _, losses in pairs(figures.losses) do
            object.losses = object.losses + losses
        end
    end
    for node, seconds in pairs(self.client:leases()) do
        if count < LEASES then
            count = count + 1
            object.leases[count] = { node = node, remaining = seconds < huge and rounded(seconds) or nil }
        end
    end
    return object
end

--- Finds the deadlocks of all locks, for the frame.
local function find_deadlocks(self)
    local states = {}
    for _, lock in pairs(self.locks) do
        states[#states + 1] = lock.state
    end
    local deadlocks, list = Waits.new(states).deadlocks, {}
    for index = 1, min(DEADLOCKS, #deadlocks) do
        local steps, last = {}, deadlocks[index][#deadlocks[index]]
        for at, step in ipairs(deadlocks[index]) do
            if at <= STEPS then
                steps[at] = { program = text.clean(step.program, IDENTITY), holds = last.waits_for, waits_for = step.waits_for }
            end
            last = step
        end
        list[index] = { steps = steps, more = #deadlocks[index] - #steps }
    end
    self.deadlocks, self.deadlock_count = list, #deadlocks
end

--- Returns the fields that all messages of one moment share.
local function frame(self)
    local state = self.client:state()
    local object = {
        now = rounded(self.clock()), state = self.stopped and "closed" or state or "closed",
        process = text.clean(self.process, NAME),
        read_at = rounded(self.read_at or nil), problem = self.problem and text.clean(self.problem, 300) or nil,
        began = rounded(self.began), window = History.RECENT, viewers = self.viewer_count, revoke = self.revoke,
        truncated = next(self.tree.left_out) ~= nil or nil,
        sessions = self.sessions_at > 0 and (self.sessions_refused and "unknown" or "known") or nil, own = own_json(self)
    }
    object.paths, object.unreadable, object.deadlocks = {}, 0, self.deadlocks
    for _ in pairs(self.tree.unreadable) do
        object.unreadable = object.unreadable + 1
    end
    for index, path in ipairs(self.paths) do
        object.paths[index] = text.clean(path, NAME)
    end
    return object
end

--- Returns the JSON of an object with an empty table as an array.
local function encode(object)
    return (json.encode(object))
end

-- The poller ----------------------------------------------------------------------------------------------------------

local function touch(self, lock)
    if lock.revision ~= self.revision + 1 then
        lock.revision, lock.summary, lock.detail = self.revision + 1, nil, nil
    end
    lock.figures = lock.history:figures(self.clock())
    self.touched = true
end

local function drop(self, lock)
    self.locks[lock.path] = nil
    self.lock_count = self.lock_count - 1
    self.gone[#self.gone + 1] = { path = lock.path, revision = self.revision + 1 }
    self.touched = true
    if #self.gone > GONE then
        local kept = {}
        for index = GONE / 2 + 1, #self.gone do
            kept[#kept + 1] = self.gone[index]
        end
        self.gone_before = kept[1].revision - 1
        self.gone = kept
    end
end

--- Takes in the changes of the tree.
local function apply(self, changes, now)
    local knows_sessions = self.ask_sessions and not self.sessions_refused
    for path, state in pairs(changes) do
        local lock = self.locks[path]
        if not lock and state and not (state.kind == "free" and self.tree:is_parent(path)) then
            -- and `kind`, `state`, `figures`; `summary` and `detail`, the JSON of the present revision
            lock = { path = path, history = self:_history_of(path, self.was_read), revision = 0 }
            self.locks[path] = lock
            self.lock_count = self.lock_count + 1
        end
        if lock then
            local ended = #lock.history.ended
            for _, contender in ipairs(state and state.contenders or {}) do
                self:_join_session(contender)
            end
            lock.state = state or nil
            if state and (state.kind ~= "free" or not lock.kind) then
                lock.kind = state.kind -- a free lock does not show its kind any more
            end
            lock.history:add(lock.state, now, knows_sessions)
            self.lane_count = self.lane_count + #lock.history.ended - ended
            touch(self, lock)
            if not state and not lock.history:recent(now)[1] then
                drop(self, lock)
            end
        end
    end
    for path, history in pairs(not self.was_read and self.histories or {}) do
        if not self.locks[path] and next(history.lanes) then
            history:add(nil, now, false) -- holders of the log's end
        end
    end
    self.was_read = true
    if self.lane_count > LANES then
        self.forget_at = 0
    end
end

--- Returns the history of a lock, which may have been seen before.
function Model:_history_of(path, is_new)
    self.histories[path] = self.histories[path] or History.new(self.clock(), is_new, function(event, lane)
        self.losses = self.losses + (lane.fate == "lost" and 1 or 0)
        if self.log then
            self.log:note(event, path, lane)
        end
    end)
    return self.histories[path]
end

--- Notes what is known of a contender's session. Returns whether that has changed.
function Model:_join_session(contender)
    local sessions, before = self.sessions, contender.session_state
    if sessions and contender.session then
        local session = sessions.by_id[contender.session]
        contender.session_state = inspect.session_state(sessions, contender.session)
        if contender.session_state == "gone" then
            contender.session_state = "unknown" -- it may be newer than the list
        end
        if session then
            contender.address, contender.session_timeout = session.address, session.timeout
        end
    end
    return before ~= contender.session_state
end

--- Forgets what is too old, and more if there are too many lanes.
forget = function(self, now)
    self.forget_at = core.now() + FORGET
    self.lane_count = 0
    for viewer in pairs(self.viewers) do
        if core.now() - viewer.asked_at > ABANDONED then
            self:remove_viewer(viewer)
        end
    end
    for path, history in pairs(self.histories) do
        local lock, changed = self.locks[path], history:forget(now)
        if lock and not lock.state and not history:recent(now)[1] then
            drop(self, lock)
        elseif lock and changed then
            touch(self, lock)
        end
        if not self.locks[path] and not history.ended[1] and not next(history.lanes) then
            self.histories[path] = nil
        end
        self.lane_count = self.lane_count + #history.ended
    end
    local part = LANES / self.lane_count
    for _, history in pairs(part < 1 and self.histories or {}) do
        for _ = 1, #history.ended - floor(#history.ended * part) do
            history:drop_oldest()
            self.lane_count = self.lane_count - 1
        end
    end
end

--- Whether the servers must be asked about sessions now.
local function wants_sessions(self)
    local since = core.now() - self.sessions_at
    if not self.ask_sessions or since < (self.sessions_refused and LATER or SOON) then
        return false
    elseif self.lock_count > 0 and since >= SESSIONS then
        return true
    end
    for _, lock in pairs(self.locks) do
        if lock.history.pending > 0 then
            return true
        end
    end
    return false
end

--- Asks about sessions, and decides the fates that wait for that.
local function read_sessions(self)
    local sessions = self.ask_sessions()
    self.sessions_at, self.sessions, self.sessions_refused = core.now(), sessions, not (sessions and sessions.known)
    local function is_gone(id)
        if sessions.by_id[id] then
            return false
        end
        return true
    end
    local now = self.clock()
    for _, lock in pairs(self.locks) do
        local changed = lock.history:resolve(now, not self.sessions_refused and is_gone or nil)
        for _, contender in ipairs(lock.state and lock.state.contenders or {}) do
            changed = sessions and self:_join_session(contender) or changed
            lock.history.lanes[contender.node].away = contender.session_state == "disconnected"
        end
        if changed then
            touch(self, lock)
        end
    end
end

--- Gives the changes of this round their revision, and wakes the viewers.
local function publish(self)
    if self.touched then
        find_deadlocks(self)
        self.revision, self.touched, self.messages, self.message_count = self.revision + 1, false, {}, 0
        for viewer in pairs(self.viewers) do
            viewer.wake()
        end
    end
end

local function never()
    return false
end

--- If the clock was set, moves what was seen: it keeps its distance from now.
local function follow_clock(self)
    local shift = self.clock() - core.now() - self.offset
    if abs(shift) < JUMP then
        return
    end
    self.offset, self.began, self.read_at = self.offset + shift, self.began + shift, self.read_at and self.read_at + shift
    for _, history in pairs(self.histories) do
        history:shift(shift)
    end
    for _, lock in pairs(self.locks) do
        touch(self, lock)
    end
end

--- Waits without doing anything.
function Model:pause(seconds)
    return wait.until_decided(self.client, nil, core.now() + seconds, never)
end

--- The poller: returns when the client is closed, when stop is called, or when there was no viewer for so long.
---@param idle? number seconds; nil: no limit
---@param is_over? function is called about once a second; if it returns true, the poller ends
function Model:run(idle, is_over)
    while not self.stopped do
        self.stopped = is_over ~= nil and is_over()
        local changes, message, code = self.tree:update(SOON)
        follow_clock(self)
        if self.log then
            self.log:record(changes ~= nil and not self.stopped and self.client:state() == "connected", self.clock())
        end
        if changes then
            self.touched = self.touched or self.problem or not self.read_at
            self.read_at, self.problem = self.clock(), false
            apply(self, changes, self.read_at)
        elseif code == "closed" or code == "forked" or code == "phase" or code == "auth_failed" then
            self.stopped, self.problem, self.problem_code = true, message, code
        else
            self.touched = self.touched or not self.problem
            self.problem = message
            self:pause(1)
        end
        if not self.stopped and wants_sessions(self) then
            read_sessions(self)
        end
        if core.now() >= self.forget_at then
            forget(self, self.clock())
        end
        if self.viewer_count > 0 then
            self.used_at = core.now()
        elseif idle and core.now() - self.used_at > idle then
            self.stopped = true
        end
        publish(self)
        if changes and next(changes) and not self.stopped then
            self:pause(ROUND)
        end
    end
    self:stop()
    self.tree:close()
end

--- Ends the poller, and with it all streams.
function Model:stop()
    self.stopped = true
    for _, history in pairs(self.histories) do
        history:resolve(self.clock(), nil)
    end
    if self.log then
        self.log:record(false, self.clock())
    end
    for viewer in pairs(self.viewers) do
        viewer.wake()
    end
end

-- Viewers -------------------------------------------------------------------------------------------------------------

--- Adds a viewer.
---@param path? string of the lock that it shows; nil: the list of all
---@param wake function is called without arguments when there is something to send, or the model has stopped. Must not wait
---@return table? # viewer; nil: there are too many
function Model:add_viewer(path, wake)
    if self.viewer_count >= VIEWERS or self.stopped then
        return nil
    end
    local viewer = { path = path, wake = wake, seen = -1, sent_at = core.now(), asked_at = core.now(), state = nil }
    self.viewers[viewer] = true
    self.viewer_count = self.viewer_count + 1
    self.used_at = core.now()
    return viewer
end

function Model:remove_viewer(viewer)
    if self.viewers[viewer] then
        self.viewers[viewer] = nil
        self.viewer_count = self.viewer_count - 1
        self.used_at = core.now()
    end
end

--- Returns the JSON of a lock for the list, or for its own page.
local function lock_json(self, path, is_detail)
    local lock, now = self.locks[path], self.clock()
    if not lock then
        local history = History.new(now)
        lock = { path = path, kind = "none", history = history, figures = history:figures(now) }
    end
    local cache = is_detail and "detail" or "summary"
    lock[cache] = lock[cache] or encode((is_detail and detail_of or summary_of)(lock, now))
    return lock[cache]
end

--- The list since a revision, -1: all: the fields of the event's JSON besides the frame.
local function list_fields(self, seen)
    local locks, gone = {}, {}
    for path, lock in pairs(self.locks) do
        if lock.revision > seen then
            locks[#locks + 1] = lock_json(self, path, false)
        end
    end
    for _, removed in ipairs(seen >= 0 and self.gone or {}) do
        if removed.revision > seen and not self.locks[removed.path] then
            gone[#gone + 1] = removed.path
        end
    end
    return format('"locks":[%s],"gone":%s', concat(locks, ","), encode(gone))
end

--- The same for the page of one lock; nil: it has not changed.
local function detail_fields(self, path, seen)
    local lock = self.locks[path]
    if seen >= 0 and lock and lock.revision <= seen then
        return nil
    end
    return format('"locks":[%s],"gone":[]', lock_json(self, path, true))
end

--- Returns the fields for a viewer that has seen a revision. Viewers that have seen the same share one text.
local function fields_of(self, path, seen)
    local key = format(path and "%d of %s" or "%d", seen, path)
    local fields = self.messages[key]
    if fields == nil then
        if path then
            fields = detail_fields(self, path, seen) or false
        else
            fields = list_fields(self, seen)
        end
        if self.message_count >= MESSAGES then
            self.messages, self.message_count = {}, 0
        end
        self.messages[key], self.message_count = fields, self.message_count + 1
    end
    return fields
end

--- Returns the message that a viewer gets now, and notes that it is sent. Call it when the viewer is woken, and once a second.
---@return string? # nil: nothing
function Model:message(viewer)
    local now, state = core.now(), tostring(self.client:state()) .. tostring(self.stopped) .. tostring(self.problem)
    local name, fields = "change", false
    viewer.asked_at = now
    if viewer.seen < self.revision then
        local seen = viewer.seen < self.gone_before and -1 or viewer.seen
        name, fields = seen < 0 and "snapshot" or name, fields_of(self, viewer.path, seen)
        viewer.seen = self.revision
    end
    if not fields and now - viewer.sent_at < BEAT and viewer.state == state then
        return nil
    end
    viewer.sent_at, viewer.state = now, state
    return format('event: %s\nid: %s-%d\ndata: {"frame":%s%s}\n\n', fields and name or "beat", self.epoch, self.revision,
        encode(frame(self)), fields and "," .. fields or "")
end

--- Returns the JSON of what is remembered of a lock's contenders that are gone.
function Model:history(path)
    local history, ended = self.histories[path], {}
    for index, lane in ipairs(history and history.ended or {}) do
        ended[index] = lane_json(lane)
    end
    return encode { began = rounded(history and history.began or self.began), ended = ended }
end

--- Returns the metrics of the locks and of the client, as Prometheus reads them.
function Model:metrics()
    local shown, now, held, waiters = page.new(), self.clock(), 0, 0
    local function add(name, value, path)
        families.add_with(shown, name, { path = path and text.clean(path) }, value)
    end
    families.read(self.client, {}, shown)
    families.read_process(shown)
    add("zklock_seen_losses_total", self.losses)
    if self.client:state() ~= "connected" or not self.read_at then
        return page.render(shown)
    end
    for path, lock in pairs(self.locks) do
        local state, since = lock.state or { holders = 0, waiters = 0 }, now
        held, waiters = held + (state.holders > 0 and 1 or 0), waiters + state.waiters
        if self.lock_count <= MEASURED then
            for _, lane in pairs(lock.history.lanes) do
                since = min(since, lane.held or now)
            end
            add("zklock_lock_holders", state.holders, path)
            add("zklock_lock_waiters", state.waiters, path)
            add("zklock_lock_hold_age_seconds", now - since, path)
        end
    end
    add("zklock_seen_locks", self.lock_count)
    add("zklock_seen_held_locks", held)
    add("zklock_seen_waiters", waiters)
    add("zklock_seen_deadlocks", self.deadlock_count)
    return page.render(shown)
end

--- Returns all locks as they are now, sorted by path, for a page without JavaScript: tables as in the JSON of the list.
function Model:list()
    local list = {}
    for _, lock in pairs(self.locks) do
        list[#list + 1] = summary_of(lock, self.clock())
    end
    sort(list, function(a, b)
        return a.path < b.path
    end)
    return list, frame(self)
end

return Model

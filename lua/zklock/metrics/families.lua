--- metrics.families: which metrics there are, and how their values are read from a client.
--
-- For zklock.metrics and its parts.

local core = require "zklock.core"
local shared = require "zklock.shared"

local ipairs, pairs, setmetatable = ipairs, pairs, setmetatable
local concat, sort = table.concat, table.sort
local format = string.format
local max, min = math.max, math.min

local families = {}

--- All metrics in the order of the page: name, type, help.
families.LIST = {
    { name = "zklock_wait_seconds", type = "histogram", help = "How long acquisitions waited that got their lock." },
    { name = "zklock_hold_seconds", type = "histogram", help = "How long locks were held, of holds that have ended." },
    { name = "zklock_refusals_total", type = "counter", help = "Acquisitions that were answered without the lock, by code." },
    { name = "zklock_losses_total", type = "counter", help = "Holds that ended as lost instead of by a release, by reason." },
    { name = "zklock_waiting_acquisitions", type = "gauge", help = "Acquisitions that wait for their lock now." },
    { name = "zklock_held_acquisitions", type = "gauge", help = "Acquisitions that hold their lock now." },
    { name = "zklock_acquisitions_total", type = "counter", help = "Acquisitions that were begun." },
    { name = "zklock_hand_overs_total", type = "counter", help = "Grants that needed no request to ZooKeeper." },
    { name = "zklock_requests_total", type = "counter", help = "Requests sent to ZooKeeper." },
    { name = "zklock_heartbeats_total", type = "counter", help = "Requests that only kept a session and its lease." },
    { name = "zklock_notifications_total", type = "counter", help = "Watch events received." },
    { name = "zklock_unknown_outcomes_total", type = "counter", help = "Writes whose reply was lost." },
    { name = "zklock_connections_total", type = "counter", help = "Connections that were established." },
    { name = "zklock_reconnects_total", type = "counter", help = "Connections after the first one of a client." },
    { name = "zklock_sessions_total", type = "counter", help = "Sessions that were established." },
    { name = "zklock_session_expiries_total", type = "counter", help = "Sessions that replaced one that had ended." },
    { name = "zklock_group_overflows_total", type = "counter", help = "Locks made in group other: their own was one too many." },
    { name = "zklock_clients", type = "gauge", help = "Clients that are open." },
    { name = "zklock_connected_clients", type = "gauge", help = "Clients that have a connection to ZooKeeper." },
    { name = "zklock_entries", type = "gauge", help = "Nodes of the clients in ZooKeeper that exist or may exist." },
    { name = "zklock_watches", type = "gauge", help = "Watches that are armed." },
    { name = "zklock_tls_failed_clients", type = "gauge", help = "Clients that have no connection because TLS failed." },
    { name = "zklock_certificate_left_seconds", type = "gauge", help = "Until a certificate expires, of whom.", least = true },
    { name = "zklock_memory_bytes", type = "gauge", help = "Memory that the clients have allocated in C." },
    { name = "zklock_connect_failures_total", type = "counter", help = "Calls of zklock.connect that failed, by code." },
    -- of zklock ui
    { name = "zklock_seen_locks", type = "gauge", help = "Locks that the live view shows." },
    { name = "zklock_seen_held_locks", type = "gauge", help = "Locks that are held." },
    { name = "zklock_seen_waiters", type = "gauge", help = "Waiters of all locks." },
    { name = "zklock_seen_deadlocks", type = "gauge", help = "Deadlocks: groups of programs that wait for each other." },
    { name = "zklock_seen_losses_total", type = "counter", help = "Holds that were seen to end with their session." },
    { name = "zklock_lock_holders", type = "gauge", help = "Holders of a lock; of a semaphore: permits." },
    { name = "zklock_lock_waiters", type = "gauge", help = "Waiters of a lock." },
    { name = "zklock_lock_hold_age_seconds", type = "gauge", help = "For how long the oldest holder has held a lock." },
    -- of zklock run
    { name = "zklock_run_running", type = "gauge", help = "1 while zklock run holds its lock." },
    { name = "zklock_run_waited_seconds", type = "gauge", help = "How long the last zklock run waited." },
    { name = "zklock_run_held_seconds", type = "gauge", help = "How long the last zklock run held its lock." },
    { name = "zklock_run_exit_code", type = "gauge", help = "The exit code of the last zklock run." },
    { name = "zklock_run_end_timestamp_seconds", type = "gauge", help = "When the last zklock run ended, by outcome." }
}

--- The counters and gauges of Client:stats: field -> metric.
local STATS = {
    acquisitions = "zklock_acquisitions_total",
    hand_overs = "zklock_hand_overs_total",
    requests = "zklock_requests_total",
    heartbeats = "zklock_heartbeats_total",
    notifications = "zklock_notifications_total",
    unknown_outcomes = "zklock_unknown_outcomes_total",
    connections = "zklock_connections_total",
    reconnects = "zklock_reconnects_total",
    sessions = "zklock_sessions_total",
    group_overflows = "zklock_group_overflows_total",
    entries = "zklock_entries",
    watches = "zklock_watches"
}

--- The labels of metrics, which a program may not give to all metrics of a client.
families.LABELS = { code = true, group = true, le = true, reason = true, whose = true }

--- name -> metric, and for histograms the upper bounds of the buckets.
families.by_name = {}
for _, family in ipairs(families.LIST) do
    families.by_name[family.name] = family
end

local function learn_bounds(name, histogram)
    local bounds = {}
    for index, bucket in ipairs(histogram) do
        bounds[index] = bucket.le
    end
    families.by_name[name].bounds = bounds
end

local meter = assert(core.meter()):read()
learn_bounds("zklock_wait_seconds", meter.wait_time)
learn_bounds("zklock_hold_seconds", meter.hold_time)

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

--- Returns labels as the text form has them, without braces, sorted by name.
---@param labels table
---@param group string|false its label, if there is one
---@param more string|false name of one more label, if there is one
---@param value string of that label
local function label_text(labels, group, more, value)
    local parts = {}
    local function add(name, its_value)
        parts[#parts + 1] = format('%s="%s"', name, (its_value:gsub('[\\"\n]', ESCAPES)))
    end
    for name, its_value in pairs(labels) do
        add(name, its_value)
    end
    if group then
        add("group", group)
    end
    if more then
        add(more, value)
    end
    sort(parts)
    return concat(parts, ",")
end

--- labels -> group, more and value -> the text. A worker of nginx reads its clients each second.
local known_texts = setmetatable({}, { __mode = "k" })

--- Returns what label_text returns for these labels.
local function text_of(labels, group, more, value)
    local texts = known_texts[labels] or {}
    local key = (more or "") .. "\0" .. (value or "") .. "\0" .. (group or "") -- only a group may have any characters
    texts[key] = texts[key] or label_text(labels, group, more, value)
    known_texts[labels] = texts
    return texts[key]
end

--- Adds a number to the series of a page that has these labels: name -> value.
function families.add_with(page, name, labels, number)
    families.add(page, name, label_text(labels), number)
end

--- Adds a number to a series of a page. Of a family with `least`, the smallest number counts.
local function add(page, name, labels, number)
    local series = page[name]
    local before = series[labels]
    series[labels] = before and families.by_name[name].least and min(before, number) or (before or 0) + number
end
families.add = add

--- Returns a histogram of a page, which is made without values if there is none.
function families.histogram(page, name, labels)
    local one = page[name][labels]
    if not one then
        one = { sum = 0 }
        for index = 1, #families.by_name[name].bounds do
            one[index] = 0
        end
        page[name][labels] = one
    end
    return one
end

--- Adds a histogram to a series of a page, which counts the values of each bucket alone.
local function add_histogram(page, name, labels, histogram)
    local one, below = families.histogram(page, name, labels), 0
    for index = 1, #histogram do
        local count = histogram[index].count
        one[index], below = one[index] + count - below, count
    end
    one.sum = one.sum + histogram.sum
end

local function read_groups(groups, labels, page)
    for group, figures in pairs(groups) do
        local text = text_of(labels, group)
        add_histogram(page, "zklock_wait_seconds", text, figures.wait_time)
        add_histogram(page, "zklock_hold_seconds", text, figures.hold_time)
        add(page, "zklock_waiting_acquisitions", text, figures.waiting)
        add(page, "zklock_held_acquisitions", text, figures.held)
        for code, count in pairs(figures.refusals) do
            add(page, "zklock_refusals_total", text_of(labels, group, "code", code), count)
        end
        for reason, count in pairs(figures.losses) do
            add(page, "zklock_losses_total", text_of(labels, group, "reason", reason), count)
        end
    end
end

--- Adds the present values of a client to a page.
---@param client zklock.Client
---@param labels table name -> value
---@param page table see zklock.metrics.page
---@return true?
---@return string? message
---@return zklock.Code? code "forked"
function families.read(client, labels, page)
    local stats, message, code = client:stats()
    if not stats then
        return nil, message, code
    end
    local text, state, _, why = text_of(labels), client:state()
    for field, name in pairs(STATS) do
        add(page, name, text, stats[field])
    end
    add(page, "zklock_session_expiries_total", text, max(0, stats.sessions - 1))
    add(page, "zklock_clients", text, state ~= "closed" and 1 or 0)
    add(page, "zklock_connected_clients", text, state == "connected" and 1 or 0)
    add(page, "zklock_tls_failed_clients", text, why == "tls_failed" and 1 or 0)
    for whose, left in pairs { server = stats.server_certificate_left, client = stats.own_certificate_left } do
        add(page, "zklock_certificate_left_seconds", text_of(labels, false, "whose", whose), left)
    end
    read_groups(client:group_stats() or {}, labels, page)
    return true
end

--- Adds the values of the whole process to a page.
function families.read_process(page)
    add(page, "zklock_memory_bytes", "", core.memory())
    for code, count in pairs(shared.connect_failures) do
        families.add_with(page, "zklock_connect_failures_total", { code = code }, count)
    end
end

return families

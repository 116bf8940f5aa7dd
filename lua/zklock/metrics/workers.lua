--- metrics.workers: one page of all workers of nginx, by a shared dictionary.
--
-- For zklock.metrics. Each worker adds to the dictionary what its counters have grown by since the last time: each second, before
-- it answers, and when it ends. So the counters in the dictionary never fall, also when workers are replaced at a reload. Gauges
-- are in one entry for each process, which expires soon after the process has ended.

local families = require "zklock.metrics.families"
local page = require "zklock.metrics.page"

local ngx = ngx
local pairs, setmetatable, tonumber, type = pairs, setmetatable, tonumber, type
local concat = table.concat
local format = string.format

--- Seconds between two publications, and until the gauges of a process expire that publishes no more.
local PERIOD, LIFETIME = 1, 5

--- Seconds between two looks whether requests still use locks, in a worker that is about to exit.
local DRAIN_STEP = 0.05

--- Begins the keys of gauges. A metric's name begins with a letter.
local GAUGES = "/"

local Workers = {}
Workers.__index = Workers

--- Names of metrics -> labels -> part -> key in the dictionary. The part is the number of a bucket, "sum", or "".
local known_keys = {}
for name in pairs(families.by_name) do
    known_keys[name] = {}
end

--- Returns the keys of a series, which show_counter reads again.
local function keys_of(name, labels, value)
    local keys = known_keys[name][labels]
    if not keys then
        keys = { sum = format("%s|sum|%s", name, labels), [""] = format("%s||%s", name, labels) }
        for index = 1, type(value) == "table" and #value or 0 do
            keys[index] = format("%s|%d|%s", name, index, labels)
        end
        known_keys[name][labels] = keys
    end
    return keys
end

--- Calls fn(key, value) for each counter of a page; the key is the counter's place in the dictionary.
local function each_counter(shown, fn)
    for name, series in pairs(shown) do
        local kind = families.by_name[name].type
        for labels, value in pairs(kind ~= "gauge" and series or {}) do
            local keys = keys_of(name, labels, value)
            if kind == "histogram" then
                for index = 1, #value do
                    fn(keys[index], value[index])
                end
                fn(keys.sum, value.sum)
            else
                fn(keys[""], value)
            end
        end
    end
end

--- Adds to the dictionary what the counters of one client have grown by.
local function add_counters(self, entry, shown)
    local dict, last = self.dict, self.published[entry] or {}
    each_counter(shown, function(key, value)
        if last[key] == nil then
            local added, problem = dict:safe_add(key, 0)
            if not added and problem ~= "exists" then
                return self:complain(problem) -- tried again next time
            end
            last[key] = 0
        end
        local growth = value - last[key]
        if growth > 0 and dict:incr(key, growth, 0) then
            last[key] = value
        end
    end)
    self.published[entry] = last
end

--- Logs once that the dictionary takes no more.
function Workers:complain(problem)
    if not self.complained then
        self.complained = true
        ngx.log(ngx.ERR, "zklock: metrics are missing: lua_shared_dict ", self.name, ": ", problem)
    end
end

--- Writes the gauges of this process.
local function set_gauges(self, shown)
    local lines = {}
    page.each_gauge(shown, function(name, labels, value)
        lines[#lines + 1] = format("%s|%s|%s", name, page.decimal("%.17g", value), labels)
    end)
    -- A label may contain any character but control characters.
    local set, problem = self.dict:safe_set(GAUGES .. ngx.worker.pid(), concat(lines, "\1"), LIFETIME)
    if not set then
        self:complain(problem)
    end
end

--- Publishes the present values of this worker.
local function publish(self)
    local gauges = page.new()
    for index = 1, #self.clients do
        local entry = self.clients[index]
        local shown = page.new()
        if families.read(entry.client, entry.labels, shown) then
            add_counters(self, entry, shown)
            page.each_gauge(shown, function(...)
                families.add(gauges, ...)
            end)
        end
    end
    families.read_process(gauges)
    add_counters(self, self, gauges)
    set_gauges(self, gauges)
end

--- Whether a request still holds or waits for a lock of this worker.
local function is_in_use(self)
    for index = 1, #self.clients do
        local client = self.clients[index].client
        local state = client:state()
        if state and state ~= "closed" and client:needs_pump() then
            return true
        end
    end
    return false
end

--- The last part of the life of a worker: publishes until no lock is in use any more. The gauges disappear.
local function drain(self)
    while is_in_use(self) do
        publish(self)
        ngx.sleep(DRAIN_STEP)
    end
    publish(self)
    self.dict:delete(GAUGES .. ngx.worker.pid())
end

--- Begins to publish.
---@param dict table the shared dictionary
---@param name string its name
---@param clients table list of { client =, labels = }, which may grow
---@return table?
---@return string? problem
function Workers.start(dict, name, clients)
    local self = setmetatable({
        dict = dict, name = name, clients = clients, complained = false,
        published = {} -- entry of `clients`, or this for the process -> key -> the value of which the dictionary has all
    }, Workers)
    local started, problem = ngx.timer.every(PERIOD, function(exiting)
        if exiting then
            drain(self)
        else
            publish(self)
        end
    end)
    if not started then
        return nil, "nginx starts no timer for the metrics: " .. problem
    end
    return self
end

--- Adds one entry of the dictionary to a page. Counters only: a key of gauges does not match.
local function show_counter(shown, key, value)
    local name, part, labels = key:match("^([%w_]+)|(%w*)|(.*)$")
    local family = families.by_name[name]
    if not family or type(value) ~= "number" then
        return
    elseif family.type == "histogram" then
        families.histogram(shown, name, labels)[tonumber(part) or part] = value
    else
        shown[name][labels] = value
    end
end

local function show_gauges(shown, text)
    for name, value, labels in text:gmatch("([%w_]+)|([^|]+)|([^\1]*)") do
        families.add(shown, name, labels, tonumber(value))
    end
end

--- The page of all workers.
function Workers:text()
    publish(self)
    local shown, keys = page.new(), self.dict:get_keys(0)
    for index = 1, #keys do
        local key, value = keys[index], self.dict:get(keys[index])
        if key:sub(1, 1) ~= GAUGES then
            show_counter(shown, key, value)
        elseif value then
            show_gauges(shown, value)
        end
    end
    return page.render(shown)
end

return Workers

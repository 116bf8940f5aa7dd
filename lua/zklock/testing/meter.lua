--- testing.meter: measures the acquisitions of a group of locks, for zklock.testing: what csrc/lock/meter.c does.

local ipairs, pairs, setmetatable, type = ipairs, pairs, setmetatable, type
local huge = math.huge

local Meter = {}
Meter.__index = Meter

--- The bounds of the histograms of csrc/lock, in seconds.
local WAIT_BOUNDS = { .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, huge }
local HOLD_BOUNDS = { .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, huge }

local function new_histogram(bounds)
    local histogram = { count = 0, sum = 0 }
    for index, bound in ipairs(bounds) do
        histogram[index] = { le = bound, count = 0 }
    end
    return histogram
end

local function measure(histogram, seconds)
    histogram.count, histogram.sum = histogram.count + 1, histogram.sum + seconds
    for _, bucket in ipairs(histogram) do
        bucket.count = bucket.count + (seconds <= bucket.le and 1 or 0)
    end
end

function Meter.new()
    return setmetatable({
        waiting = 0, held = 0, losses = { lost = 0, max_hold = 0, closed = 0 },
        wait_time = new_histogram(WAIT_BOUNDS), hold_time = new_histogram(HOLD_BOUNDS)
    }, Meter)
end

--- A lock was asked for.
function Meter:begin()
    self.waiting = self.waiting + 1
end

function Meter:refuse()
    self.waiting = self.waiting - 1
end

function Meter:grant(waited)
    self.waiting, self.held = self.waiting - 1, self.held + 1
    measure(self.wait_time, waited)
end

--- A hold has ended after so many seconds. `code`: of the loss; nil: it was released.
function Meter:finish(seconds, code)
    self.held = self.held - 1
    measure(self.hold_time, seconds)
    if code then
        self.losses[code] = self.losses[code] + 1
    end
end

local function copy(value)
    if type(value) ~= "table" then
        return value
    end
    local copied = {}
    for name, field in pairs(value) do
        copied[name] = copy(field)
    end
    return copied
end

--- Returns the figures, as meter_read of csrc/lua/lua_lock_spec.c does.
function Meter:read()
    return copy(self)
end

return Meter

--- histogram: how often something took how long, in fixed buckets.

local setmetatable = setmetatable
local huge = math.huge

--- Upper bounds of the buckets, in seconds: from what a grant takes on an idle network to what nobody should have to wait.
local BOUNDS = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, huge }

local Histogram = {}
Histogram.__index = Histogram

function Histogram.new()
    local self = setmetatable({ sum = 0 }, Histogram)
    for index = 1, #BOUNDS do
        self[index] = 0
    end
    return self
end

--- Counts one that took so many seconds.
function Histogram:add(seconds)
    local index = 1
    while seconds > BOUNDS[index] do
        index = index + 1
    end
    self[index] = self[index] + 1
    self.sum = self.sum + seconds
end

--- As Client:stats tells it: each bucket holds all smaller ones too.
-- @treturn table `{ count =, sum =, { le =, count = }, … }`
function Histogram:read()
    local result, count = { sum = self.sum }, 0
    for index = 1, #BOUNDS do
        count = count + self[index]
        result[index] = { le = BOUNDS[index], count = count }
    end
    result.count = count
    return result
end

return { new = Histogram.new }

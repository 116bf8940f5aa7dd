--- support.exposition: a strict reader of Prometheus's text exposition format, version 0.0.4.
-- Source: https://prometheus.io/docs/instrumenting/exposition_formats/

local UNESCAPED = { ["\\\\"] = "\\", ['\\"'] = '"', ["\\n"] = "\n" }

--- Returns the labels between braces as a table; raises on invalid labels.
local function read_labels(text)
    local labels, rest = {}, text
    while rest ~= "" do
        local name, after = rest:match('^([%a_][%w_]*)="(.*)$')
        assert(name and not labels[name], "bad labels: " .. text)
        local at = 1
        while after:sub(at, at) ~= '"' do
            local two = after:sub(at, at + 1)
            assert(after:sub(at, at) ~= "\\" or UNESCAPED[two], "bad escape: " .. text)
            assert(at <= #after, "no closing quote: " .. text)
            at = at + (UNESCAPED[two] and 2 or 1)
        end
        labels[name] = after:sub(1, at - 1):gsub('\\[\\"n]', UNESCAPED)
        rest = after:sub(at + 1):gsub("^,", "")
    end
    return labels
end

local function read_value(text)
    local value = text == "+Inf" and math.huge or text:find("^%-?[%d.]+[%deE+-]*$") and tonumber(text)
    return assert(value, "bad value: " .. text)
end

--- Returns the metric to which a sample's name belongs: a histogram has three names.
local function family_of(families, name)
    local base = name:gsub("_bucket$", ""):gsub("_sum$", ""):gsub("_count$", "")
    if families[base] and families[base].type == "histogram" then
        return base
    end
    return name
end

--- Returns a text that identifies a sample's series: all labels except a histogram's `le`.
local function key_of(labels)
    local parts = {}
    for name, value in pairs(labels) do
        if name ~= "le" then
            parts[#parts + 1] = ("%s=%q"):format(name, value)
        end
    end
    table.sort(parts)
    return table.concat(parts, ",")
end

--- Checks that buckets only grow, that the last one is +Inf, and that it has as many values as the histogram's count.
local function check_histogram(family)
    local series = {}
    for _, sample in ipairs(family.samples) do
        local key = key_of(sample.labels)
        series[key] = series[key] or { le = -math.huge, so_far = 0 }
        local one, kind = series[key], sample.name:match("_(%l+)$")
        if kind == "bucket" then
            local le = read_value(sample.labels.le)
            assert(le > one.le and sample.value >= one.so_far, "buckets must grow: " .. family.name)
            one.le, one.so_far = le, sample.value
        else
            assert(sample.labels.le == nil)
            one[kind] = sample.value
        end
    end
    for _, one in pairs(series) do
        assert(one.sum and one.le == math.huge and one.so_far == one.count, "an unfinished histogram: " .. family.name)
    end
end

--- Reads a whole answer; raises on the first error.
---@param text string
---@return table # name -> { name =, type =, help =, samples = { { name =, labels =, value = }, … } }
return function(text)
    assert(text:sub(-1) == "\n", "the last line must end with a newline")
    local families, current, seen = {}, nil, {}
    for line in text:gmatch("([^\n]*)\n") do
        local keyword, about, rest = line:match("^# (%u+) ([%a_:][%w_:]*) (.*)$")
        if keyword == "HELP" then
            assert(not families[about], "described twice: " .. about)
            assert(not rest:gsub("\\\\", ""):gsub("\\n", ""):find("\\", 1, true), "bad escape: " .. line)
            current = { name = about, help = rest, samples = {} }
            families[about] = current
        elseif keyword == "TYPE" then
            assert(current.name == about and not current.type and not current.samples[1], "a type out of place: " .. line)
            assert(rest == "counter" or rest == "gauge" or rest == "histogram", line)
            assert((rest == "counter") == (about:find("_total$") ~= nil), "counters, and no others, are totals: " .. line)
            current.type = rest
        else
            local name, labels, value = line:match("^([%a_:][%w_:]*){(.*)} (%S+)$")
            if not name then
                name, value = line:match("^([%a_:][%w_:]*) (%S+)$")
                labels = ""
            end
            assert(name, "neither a comment nor a sample: " .. line)
            assert(family_of(families, name) == current.name and current.type, "a sample out of place: " .. line)
            local sample = { name = name, labels = read_labels(labels), value = read_value(value) }
            local key = name .. key_of(sample.labels) .. (sample.labels.le or "")
            assert(not seen[key], "a sample twice: " .. line)
            seen[key] = true
            current.samples[#current.samples + 1] = sample
        end
    end
    for _, family in pairs(families) do
        assert(family.samples[1], "nothing of " .. family.name)
        if family.type == "histogram" then
            check_histogram(family)
        end
    end
    return families
end

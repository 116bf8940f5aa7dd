--- metrics.page: the values of all metrics at one moment, and their text form.
--
-- For zklock.metrics and zklock.metrics.workers. A page is a table: metric's name -> its series: labels as text -> a number or, of
-- a histogram, a table with the values of each bucket alone, and `sum`.
--
-- The text form is Prometheus's, version 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/

local families = require "zklock.metrics.families"

local pairs = pairs
local concat, sort = table.concat, table.sort
local format = string.format
local floor, huge = math.floor, math.huge

local page = {}

--- Makes an empty page.
function page.new()
    local new = {}
    for index = 1, #families.LIST do
        new[families.LIST[index].name] = {}
    end
    return new
end

--- Calls fn(name, labels, value) for each gauge of a page.
function page.each_gauge(from, fn)
    for name, series in pairs(from) do
        if families.by_name[name].type == "gauge" then
            for labels, value in pairs(series) do
                fn(name, labels, value)
            end
        end
    end
end

--- Formats a number for a machine: with a point, also where the locale that the program has set has a decimal comma.
function page.decimal(form, value)
    return (format(form, value):gsub("[^%w+-]+", "."))
end

local function number(value)
    if value == huge then
        return "+Inf"
    elseif value == floor(value) and value < 1e15 then
        return format("%d", value)
    end
    return page.decimal("%.14g", value)
end

--- `{a="1",le="2"}`, or nothing if there are no labels.
local function braces(labels, le)
    if le then
        return format('{%s%sle="%s"}', labels, labels == "" and "" or ",", number(le))
    end
    return labels == "" and "" or "{" .. labels .. "}"
end

local function render_histogram(lines, family, labels, one)
    local count = 0
    for index = 1, #family.bounds do
        count = count + one[index]
        lines[#lines + 1] = format("%s_bucket%s %s", family.name, braces(labels, family.bounds[index]), number(count))
    end
    lines[#lines + 1] = format("%s_sum%s %s", family.name, braces(labels), number(one.sum))
    lines[#lines + 1] = format("%s_count%s %s", family.name, braces(labels), number(count))
end

--- Returns a page's text, which ends with a newline. A metric without series is left out.
function page.render(shown)
    local lines = {}
    for index = 1, #families.LIST do
        local family, order = families.LIST[index], {}
        local series = shown[family.name]
        for labels in pairs(series) do
            order[#order + 1] = labels
        end
        sort(order)
        if order[1] then
            lines[#lines + 1] = format("# HELP %s %s", family.name, family.help)
            lines[#lines + 1] = format("# TYPE %s %s", family.name, family.type)
        end
        for at = 1, #order do
            local labels = order[at]
            if family.type == "histogram" then
                render_histogram(lines, family, labels, series[labels])
            else
                lines[#lines + 1] = format("%s%s %s", family.name, braces(labels), number(series[labels]))
            end
        end
    end
    return concat(lines, "\n") .. "\n"
end

return page

--- plots: plots of the measurements, drawn by gnuplot: one message each, every line with its name next to it.
--
-- Without gnuplot there are none. The script that drew NAME.svg is build/bench/plots/NAME.gp, with its data.

local report = require "report"

local plots = {}

--- Colours, the same for a contestant everywhere; zklock's stand out.
local COLOURS = {
    zklock = "#c0392b",
    ["zklock, release not awaited"] = "#e08a3c",
    ["zklock, LuaJIT"] = "#e6a9a2",
    ["zklock, strict order"] = "#e08a3c",
    ["C client"] = "#222222",
    ["go-zookeeper"] = "#2a7fb8",
    Curator = "#5b8c3e",
    kazoo = "#8e6bb0"
}

local PREAMBLE = [[
set terminal svg size %d,%d font "Helvetica,14" background "#ffffff"
set output "%s"
set encoding utf8
set border 3 lc rgb "#888888"
set tics nomirror out textcolor rgb "#444444"
set grid ytics lc rgb "#e4e4e4" lt 1
set key off
set label "%s" at screen 0.02, screen 1 left offset 0,-1.3 font "Helvetica,16" noenhanced
set tmargin 3.5
set style textbox opaque noborder margins 0.6,0.2 fillcolor rgb "#ffffff"
]]

local function colour_of(name)
    return COLOURS[name] or "#888888"
end

local available

local function gnuplot()
    if available == nil then
        available = os.execute("command -v gnuplot >/dev/null") or false
        if not available then
            print("  missing: gnuplot, no plots are drawn")
        end
    end
    return available
end

--- Draws a script's plot, and shows it in the page.
local function draw(settings, name, title, size, lines)
    if not gnuplot() then
        return
    end
    os.execute(string.format("mkdir -p '%s' '%s/plots'", settings.plots, settings.build))
    local file = string.format("%s/plots/%s.gp", settings.build, name)
    local script = assert(io.open(file, "w"))
    script:write(PREAMBLE:format(size[1], size[2], settings.plots .. "/" .. name .. ".svg", title),
        table.concat(lines, "\n"), "\n")
    script:close()
    assert(os.execute(string.format("gnuplot '%s'", file)), "gnuplot failed on " .. file)
    report.plot(name .. ".svg", title)
end

local function data_block(name, rows)
    local lines = { "$" .. name .. " << EOD" }
    for _, row in ipairs(rows) do
        table.insert(lines, table.concat(row, " "))
    end
    table.insert(lines, "EOD")
    return lines
end

local function append(lines, more)
    table.move(more, 1, #more, #lines + 1, lines)
end

--- Heights of labels that do not touch each other, near the wanted ones.
---@param wanted table array of `{y =}`, from which `at` is set
---@param least number the distance between two
local function spread_labels(wanted, least)
    table.sort(wanted, function(a, b)
        return a.y < b.y
    end)
    for index, label in ipairs(wanted) do
        local below = wanted[index - 1]
        label.at = below and math.max(label.y, below.at + least) or label.y
    end
end

--- Lines with points and ranges.
---@param settings table
---@param plot table `name` of the file, `title`, `x` and `y` texts of the axes, `log` ("x", "y", "xy") and `series`, array of
-- `{name =, points = array of {x, median, least, most}}`
function plots.lines(settings, plot)
    local lines, commands, labels, last_x, most_y, least_y = {}, {}, {}, 0, 0, math.huge
    local xtics = {}
    for index, series in ipairs(plot.series) do
        append(lines, data_block("s" .. index, series.points))
        local colour = colour_of(series.name)
        table.insert(commands, string.format('$s%d using 1:2 with lines lw 2.5 lc rgb "%s"', index, colour))
        table.insert(commands, string.format('$s%d using 1:2:3:4 with yerrorbars pt 7 ps 0.6 lw 1.2 lc rgb "%s"', index,
            colour))
        for _, point in ipairs(series.points) do
            last_x, most_y, least_y = math.max(last_x, point[1]), math.max(most_y, point[4]), math.min(least_y, point[3])
            xtics[point[1]] = true
        end
        local last = series.points[#series.points]
        table.insert(labels, { name = series.name, x = last[1], y = last[2] })
    end
    local logarithmic = (plot.log or ""):find("y", 1, true)
    for _, label in ipairs(labels) do
        label.y = logarithmic and math.log(label.y) or label.y
    end
    local from, to = logarithmic and least_y / 1.3 or 0, most_y * (logarithmic and 1.3 or 1.08)
    spread_labels(labels, (logarithmic and math.log(to / from) or to) / 17)
    for _, label in ipairs(labels) do
        table.insert(lines, string.format('set label "%s" at first %g, %g left offset 1.2,0 textcolor rgb "%s"', label.name,
            label.x, logarithmic and math.exp(label.at) or label.at, colour_of(label.name)))
    end
    table.insert(lines, string.format('set xlabel "%s" noenhanced\nset ylabel "%s" noenhanced\nset rmargin 24', plot.x, plot.y))
    if plot.log then
        table.insert(lines, "set logscale " .. plot.log)
    end
    local tics = {}
    for x in pairs(xtics) do
        table.insert(tics, x)
    end
    table.sort(tics)
    table.insert(lines, "set xtics (" .. table.concat(tics, ", ") .. ")")
    local x_from = (plot.log or ""):find("x", 1, true) and tics[1] * 0.8 or 0
    table.insert(lines, string.format("set xrange [%g:%g]", x_from, last_x * 1.001)) -- so that its tic is drawn
    table.insert(lines, string.format("set yrange [%g:%g]", from, to))
    table.insert(lines, "plot " .. table.concat(commands, ", \\\n    "))
    draw(settings, plot.name, plot.title, { 760, 420 }, lines)
end

--- Bars, from the top down, each with its name before it and its value after it.
---@param settings table
---@param plot table `name`, `title`, `x` text of the axis, `shape` format of a value, and `bars`, array of
-- `{name =, values = {median, least, most}}`
function plots.bars(settings, plot)
    local lines, most = {}, 0
    for index, bar in ipairs(plot.bars) do
        local y, value = #plot.bars - index, bar.values
        most = math.max(most, value[3])
        table.insert(lines, string.format(
            'set object rectangle from 0,%g to %g,%g fc rgb "%s" fs solid 0.85 noborder', y - 0.32, value[1], y + 0.32,
            colour_of(bar.name)))
        table.insert(lines, string.format('set arrow from %g,%g to %g,%g nohead lc rgb "#333333" lw 1.2', value[2], y,
            value[3], y))
        table.insert(lines, string.format('set label "%s" at graph 0, first %g right offset -1,0 textcolor rgb "#222222"',
            bar.name, y))
        table.insert(lines, string.format('set label "' .. plot.shape .. '" at %g,%g left offset 0.8,0 textcolor rgb "#444444"',
            value[1], value[3], y))
    end
    append(lines, {
        "set border 1", "unset ytics", "set grid noytics", "set lmargin 30", "set rmargin 9",
        string.format('set xlabel "%s" noenhanced', plot.x), string.format("set xrange [0:%g]", most * 1.02),
        string.format("set yrange [-0.6:%g]", #plot.bars - 0.4), "plot NaN"
    })
    draw(settings, plot.name, plot.title, { 760, 130 + 36 * #plot.bars }, lines)
end

--- Cumulative distributions.
---@param settings table
---@param plot table `name`, `title`, `x` text of the axis, and `series`, array of `{name =, quantiles = array of 101 values}`,
-- 0 to 100 percent
function plots.distribution(settings, plot)
    local lines, commands, least, most = {}, {}, math.huge, 0
    local series = table.move(plot.series, 1, #plot.series, 1, {})
    table.sort(series, function(a, b)
        return a.quantiles[51] < b.quantiles[51]
    end)
    for index, its in ipairs(series) do
        local points = {}
        for percent = 0, 99 do
            points[percent + 1] = { its.quantiles[percent + 1], percent }
        end
        append(lines, data_block("s" .. index, points))
        local colour = colour_of(its.name)
        table.insert(commands, string.format('$s%d using 1:2 with lines lw 2.5 lc rgb "%s"', index, colour))
        least, most = math.min(least, its.quantiles[1]), math.max(most, its.quantiles[91])
        -- Names are placed at different heights, so that they do not cover each other where curves are close.
        local percent = 88 - math.floor(78 * (index - 1) / math.max(1, #series - 1))
        table.insert(lines, string.format('set label "%s" at %g,%d left offset 0.6,0 front boxed textcolor rgb "%s"', its.name,
            its.quantiles[percent + 1], percent, colour))
    end
    append(lines, {
        string.format('set xlabel "%s" noenhanced\nset ylabel "percent of cycles" noenhanced', plot.x), "set rmargin 4",
        string.format("set xrange [%g:%g]", least * 0.9, most * 1.2), "set yrange [0:100]", "set logscale x",
        "set xtics (100, 200, 300, 500, 1000, 2000, 3000, 5000, 10000)",
        "plot " .. table.concat(commands, ", \\\n    ")
    })
    draw(settings, plot.name, plot.title, { 760, 420 }, lines)
end

return plots

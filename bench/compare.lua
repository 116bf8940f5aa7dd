--- compare: runs contestants in turn with the same arrangements, and makes tables of the results.

local lib = require "lib"
local report = require "report"

local compare = {}

--- Measures all contestants in rounds, A B C, A B C, …
---@param all table contestants, as contestants.list returns them; those that are missing are left out
---@param rounds number
---@param arrangements table what is measured one after the other in a round: any values
---@param measure function of a contestant and an arrangement: a table of numbers by column, or nothing if this contestant
-- has no part in this arrangement
---@return table # name -> column -> array by round
function compare.collect(all, rounds, arrangements, measure)
    local values = {}
    for _, contestant in ipairs(all) do
        values[contestant.name] = {}
    end
    for _ = 1, rounds do
        for _, arrangement in ipairs(arrangements) do
            for _, contestant in ipairs(all) do
                local its = values[contestant.name]
                for column, value in pairs(not contestant.missing and measure(contestant, arrangement) or {}) do
                    its[column] = its[column] or {}
                    table.insert(its[column], value)
                end
            end
        end
    end
    return values
end

--- Ratios of two contestants in a column, for a target; an empty array if one of them is missing.
function compare.ratios(values, ours, theirs, column)
    return lib.ratios((values[ours] or {})[column] or {}, (values[theirs] or {})[column] or {})
end

--- The columns that have one of these keys.
local function chosen(columns, keys)
    local some = {}
    for _, column in ipairs(columns) do
        for _, key in ipairs(keys) do
            if column.key == key then
                table.insert(some, column)
            end
        end
    end
    return some
end

--- The rows of a table of ratios, of the contestant `name` to others that have a column in common with it. Our contestants are not
-- compared with each other.
local function ratio_rows(all, columns, values, name, shape)
    local rows = { { name .. " : the other" } }
    for _, column in ipairs(columns) do
        table.insert(rows[1], (column.text:gsub(", µs$", ""):gsub(", ms$", "")))
    end
    for _, contestant in ipairs(all) do
        local row, any = { contestant.name }, false
        for _, column in ipairs(columns) do
            local quotients = compare.ratios(values, name, contestant.name, column.key)
            table.insert(row, lib.spread(quotients, shape))
            any = any or #quotients > 0
        end
        if any and not contestant.name:find("^zklock") then
            table.insert(rows, row)
        end
    end
    return rows
end

--- A table of the measurements, and one of the ratios to the first contestant's.
---@param all table contestants
---@param columns table array of `{key =, text =, shape = format of a number}`
---@param values table as compare.collect returns them
---@param ours? table names of the contestants that get a table of ratios to all others ({"zklock"})
---@param compared? table the keys of the columns in it (all)
---@param shape? string format of a ratio ("%.2f")
function compare.report(all, columns, values, ours, compared, shape)
    local header = { "" }
    for _, column in ipairs(columns) do
        table.insert(header, column.text)
    end
    local rows = { header }
    for _, contestant in ipairs(all) do
        local row = { contestant.name }
        for _, column in ipairs(columns) do
            local its = values[contestant.name][column.key]
            table.insert(row, its and lib.spread(its, column.shape) or contestant.missing and "missing" or "-")
        end
        table.insert(rows, row)
    end
    report.columns(rows)
    for _, name in ipairs(ours or { all[1].name }) do
        report.columns(ratio_rows(all, compared and chosen(columns, compared) or columns, values, name, shape or "%.2f"))
    end
end

return compare

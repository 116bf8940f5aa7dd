--- virtual.testing: the busted helper that runs spec files with the clients and servers of zklock.testing, without C.
-- virtual.testing_world has the functions of world.c. The specs that virtual.not_in_testing lists are left out.

package.preload["spec.virtual.world"] = assert(loadfile "spec/virtual/testing_world.lua")
dofile "spec/virtual/helper.lua"

local busted = require "busted"

--- Returns a file's entries: words of titles -> how many specs and groups they have left out. "" leaves out all.
local function entries_of(file)
    local words_left_out = {}
    for _, entries in pairs(dofile "spec/virtual/not_in_testing.lua") do
        for _, entry in ipairs(entries) do
            local of, words = entry:match "^([^:]*):? ?(.*)$"
            if file:find("/" .. of .. "_spec.lua", 1, true) then
                words_left_out[words] = 0
            end
        end
    end
    return words_left_out
end

--- The present file's entries, and the titles of the groups around the present spec.
local left_out, around

--- Has a function called before others are that are subscribed.
local function subscribe(event, name, fn)
    busted.subscribe({ event, name }, function(...)
        return nil, fn(...) ~= false
    end, { priority = 1 })
end

subscribe("file", "start", function(file)
    left_out, around = entries_of(file.name), {}
end)

subscribe("describe", "start", function(group)
    around[#around + 1] = group.name
end)

subscribe("describe", "end", function()
    around[#around] = nil
end)

--- Returns false if a spec, or a group, is to be left out.
local function is_wanted(title)
    title = table.concat(around, " ") .. " " .. title
    for words in pairs(left_out) do
        if title:find(words, 1, true) then
            left_out[words] = left_out[words] + 1
            return false
        end
    end
end

subscribe("register", "describe", is_wanted)
subscribe("register", "it", is_wanted)

subscribe("file", "end", function(file)
    for words, count in pairs(left_out) do
        if count == 0 then
            busted.publish({ "error", "file" }, file, nil, "spec/virtual/not_in_testing.lua: no title has '" .. words .. "'", "")
        end
    end
end)

--- text: text that other clients have written, made harmless: for terminals, JSON and HTML. No I/O.

local concat = table.concat
local format = string.format
local huge = math.huge
local tostring = tostring

local text = {}

--- Bytes: of a text within a message, of a word of a message from anywhere, of such a message.
local SHORT, LONGEST_WORD, LONGEST_MESSAGE = 200, 1024, 16384

--- Stands for what cannot be shown: U+FFFD.
local UNKNOWN = "\239\191\189"

--- Characters that change how others are shown, or are invisible: patterns of their UTF-8 form.
local HIDDEN = {
    "\194[\128-\159]",      -- U+0080 to U+009F: controls
    "\216\156",             -- U+061C: direction
    "\226\128[\139-\143]",  -- U+200B to U+200F: no width, directions
    "\226\128[\168-\174]",  -- U+2028 to U+202E: line ends, directions
    "\226\129[\160-\175]",  -- U+2060 to U+206F: no width, directions
    "\239\187\191"          -- U+FEFF
}

--- The second byte of characters whose first byte allows only a part: overlong forms, surrogates, above U+10FFFF.
local SECOND = { [224] = { 160, 191 }, [237] = { 128, 159 }, [240] = { 144, 191 }, [244] = { 128, 143 } }

--- Returns the length of the whole character at this position; nil: there is none.
function text.character(value, at)
    local first = value:byte(at)
    local length = first < 128 and 1 or first >= 194 and first <= 223 and 2 or first >= 224 and first <= 239 and 3
        or first >= 240 and first <= 244 and 4 or nil
    local limits = SECOND[first]
    for index = 1, (length or 1) - 1 do
        local byte = value:byte(at + index)
        local least, most = 128, 191
        if index == 1 and limits then
            least, most = limits[1], limits[2]
        end
        if not byte or byte < least or byte > most then
            return nil
        end
    end
    return length
end

--- Whether a text is UTF-8.
function text.is_utf8(value)
    local at = 1
    while at <= #value do
        local length = text.character(value, at)
        if not length then
            return false
        end
        at = at + length
    end
    return true
end

--- Returns a text as valid UTF-8 without control characters, no longer than so many bytes. U+FFFD stands for bytes that cannot
-- be shown, "…" at the end for the rest of a longer text.
---@param value string any bytes
---@param most? number bytes, 8 or more; nil: no limit
function text.clean(value, most)
    value, most = tostring(value), most or huge
    if #value <= most and not value:find "[%c\127-\255]" then
        return value
    end
    local parts, size, at, cut = {}, 0, 1, false
    while at <= #value do
        local length = text.character(value, at)
        local part = length and value:sub(at, at + length - 1)
        at = at + (length or 1)
        part = part and not part:find "^[%c\127]" and part or UNKNOWN
        if size + #part > most - 3 and at <= #value or size + #part > most then
            cut = true
            break
        end
        parts[#parts + 1], size = part, size + #part
    end
    local result = concat(parts)
    for index = 1, #HIDDEN do
        result = result:gsub(HIDDEN[index], UNKNOWN)
    end
    return cut and result .. "…" or result
end

--- Returns what a message says of a text that may be long.
function text.short(value)
    return text.clean(value, SHORT)
end

--- Does what clean does, and keeps blanks, ends of lines and tabulators: for whole messages. Words and the message become no longer
-- than can be read.
function text.clean_lines(value)
    local message = tostring(value):gsub("[^ \n\t]+", function(word)
        return text.clean(word, LONGEST_WORD)
    end)
    if #message > LONGEST_MESSAGE then
        message = message:sub(1, LONGEST_MESSAGE):gsub("[\192-\255]?[\128-\191]*$", "") .. "…"
    end
    return message
end

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

--- Returns a text for HTML, in elements and in attributes with quotes.
function text.html(value)
    return (tostring(value):gsub("[&<>\"']", ENTITIES))
end

--- Returns a duration for people: "0.3 s", "12 s", "3 min", "5 h", "2 d".
function text.duration(seconds)
    if seconds < 10 then
        return format("%.1f s", seconds < 0 and 0 or seconds)
    elseif seconds < 120 then
        return format("%d s", seconds - seconds % 1)
    elseif seconds < 7200 then
        return format("%d min", (seconds - seconds % 60) / 60)
    elseif seconds < 172800 then
        return format("%d h", (seconds - seconds % 3600) / 3600)
    end
    return format("%d d", (seconds - seconds % 86400) / 86400)
end

return text

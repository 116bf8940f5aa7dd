--- canvas: draws one picture as SVG: texts, boxes, arrows. A picture that cannot be read is refused.
--
--     local canvas = require "tools.pictures.canvas"
--     local c = canvas.new { language = "en", title = "…", desc = "…" }
--     local bottom = c:text(12, 12, "A sentence that is broken into lines", { width = 200 })
--     c:box(12, bottom + 8, 80, 40, { class = "held", lines = { "A", "holds" } })
--     local svg = c:finish()
--
-- A picture is 440 units wide: at 360 pixels its smallest text, of 14 units, has 11 pixels. It has colours for light and dark
-- pages, and its own background, because an image cannot know the theme that a page has chosen.
--
-- Texts are measured with the widest of the usual fonts, so that they fit in all of them. `finish` raises an error if texts overlap
-- each other, a border, a line or the picture's edge. The same calls give the same bytes in every Lua.

local canvas = {}

canvas.WIDTH = 440
canvas.MARGIN = 12

--- Width and height of the picture where there is room for it, in parts of its own size.
local SHOWN = 13 / 11

local LINE = 1.35 -- height of a line, in parts of the size of its text
local ASCENT, DESCENT = 0.8, 0.22

--- Widths of the characters from the space to the tilde, in hundredths of their size: the widest of DejaVu Sans, Liberation Sans
-- (which has the widths of Arial and Helvetica) and Lato; then the same of bold text.
local PLAIN = {
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 37, 32, 45, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84,
    84, 84, 56, 102, 68, 69, 72, 77, 67, 61, 78, 76, 29, 50, 67, 56, 93, 76, 80, 67, 80, 72, 67, 61, 74, 68, 104, 69,
    67, 69, 39, 45, 39, 84, 56, 50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63,
    59, 82, 59, 59, 52, 64, 34, 64, 84
}
local BOLD = {
    35, 46, 52, 84, 70, 100, 87, 31, 46, 46, 52, 84, 38, 42, 38, 37, 70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 40, 40, 84,
    84, 84, 61, 100, 77, 76, 73, 83, 68, 68, 82, 84, 37, 56, 77, 64, 100, 84, 85, 73, 85, 77, 72, 68, 81, 77, 110, 77,
    72, 73, 46, 37, 46, 84, 56, 50, 67, 72, 59, 72, 68, 44, 72, 71, 34, 34, 67, 34, 104, 71, 69, 72, 72, 49, 60, 48, 71,
    65, 92, 65, 65, 58, 71, 37, 71, 84
}
local CODE = 61 -- each character of DejaVu Sans Mono
local OTHER = 100 -- any other character, such as a Chinese one
local NO_BREAK = "\194\160" -- a space at which no line ends

--- Class -> what it is, light, dark. Areas have a fill and a stroke, texts a fill, lines a stroke.
local COLOURS = {
    page = { "area", "#ffffff #ffffff", "#0d1117 #0d1117" },
    plain = { "area", "#f6f8fa #57606a", "#161b22 #8b949e" },
    held = { "area", "#dafbe1 #1a7f37", "#0f3320 #3fb950" },
    waits = { "area", "#fff8c5 #9a6700", "#3b2e05 #d29922" },
    bad = { "area", "#ffebe9 #cf222e", "#3c1618 #f85149" },
    blue = { "area", "#ddf4ff #0969da", "#0c2d4d #58a6ff" },
    gone = { "area", "#ffffff #8c959f", "#0d1117 #6e7681" },
    text = { "text", "#1f2328", "#e6edf3" },
    soft = { "text", "#57606a", "#9ea7b3" },
    good = { "text", "#116329", "#56d364" },
    wrong = { "text", "#a40e26", "#ff7b72" },
    line = { "line", "#1f2328", "#e6edf3" },
    rule = { "line", "#d0d7de", "#30363d" },
    watch = { "line", "#9a6700", "#d29922" },
    event = { "line", "#8250df", "#d2a8ff" },
    fail = { "line", "#cf222e", "#f85149" }
}

local Canvas = {}
Canvas.__index = Canvas

--- A number as text: whole, or with one digit after the point.
local function number(value)
    return (("%.1f"):format(value):gsub("%.0$", ""):gsub("^%-0$", "0"))
end

local function escaped(text)
    return (text:gsub("&", "&amp;"):gsub("<", "&lt;"):gsub(">", "&gt;"):gsub('"', "&quot;"))
end

--- Iterates over the characters of a text in UTF-8.
local function characters(text)
    return text:gmatch "[\1-\127\194-\244][\128-\191]*"
end

--- Width of a text. `style`: size, bold, code.
function canvas.width_of(text, style)
    local widths, sum = style.bold and BOLD or PLAIN, 0
    for character in characters(text) do
        local code = #character == 1 and character:byte() or character == NO_BREAK and 32
        sum = sum + (code and (style.code and CODE or widths[code - 31]) or OTHER)
    end
    return sum * (style.size or 14) / 100
end

--- Splits a text where a line may end: after spaces, and beside Chinese characters, except before closing punctuation and after
-- opening punctuation.
local function pieces(text)
    local list, current, before = {}, "", "open" -- what the character before is: open, space, wide, narrow
    for character in characters(text) do
        local wide = #character == 3 and character:byte() >= 0xE3
        local closing = wide and ("，。、；：？！）》」』"):find(character, 1, true)
        if before == "space" or before ~= "open" and not closing and character ~= " " and (wide or before == "wide") then
            list[#list + 1] = current
            current = ""
        end
        current = current .. character
        if wide then
            before = ("（《「『"):find(character, 1, true) and "open" or "wide"
        else
            before = character == " " and "space" or "narrow"
        end
    end
    list[#list + 1] = current
    return list
end

--- Breaks a text into lines of at most `width`.
local function broken(text, width, style)
    local lines, line = {}, ""
    for _, piece in ipairs(pieces(text)) do
        if line ~= "" and canvas.width_of((line .. piece):gsub(" +$", ""), style) > width then
            lines[#lines + 1] = line:gsub(" +$", "")
            line = ""
        end
        line = line .. piece
    end
    lines[#lines + 1] = line:gsub(" +$", "")
    return lines
end

--- Begins a picture. `settings`: language ("en", "zh"), title and desc, which screen readers read.
function canvas.new(settings)
    return setmetatable({
        settings = settings, elements = {}, used = { page = true, text = true }, texts = {}, areas = {}, lines = {}, bottom = 0
    }, Canvas)
end

function Canvas:_class(name)
    self.used[name] = assert(COLOURS[name], name) and true
    return name
end

function Canvas:_add(element, bottom)
    self.elements[#self.elements + 1] = element
    self.bottom = math.max(self.bottom, bottom)
end

--- Writes a text below y. `style`: class ("text"), size (14), bold, code, anchor ("start", "middle", "end"), width: breaks the text
-- into lines. Returns where the next text may begin.
function Canvas:text(x, y, text, style)
    style = style or {}
    local size, anchor = style.size or 14, style.anchor or "start"
    local classes = (self:_class(style.class or "text") .. (style.code and " code" or "")):gsub("^text ?", "")
    local lines = style.width and broken(text, style.width, style) or { text }
    for _, line in ipairs(lines) do
        local width = canvas.width_of(line, style)
        local left = anchor == "start" and x or anchor == "middle" and x - width / 2 or x - width
        local baseline = y + size * (LINE + ASCENT - DESCENT) / 2
        self.texts[#self.texts + 1] = {
            text = line, left = left, right = left + width, top = baseline - size * ASCENT, bottom = baseline + size * DESCENT
        }
        self:_add(('<text%s x="%s" y="%s"%s%s%s>%s</text>'):format(
            classes ~= "" and (' class="%s"'):format(classes) or "", number(x), number(baseline),
            size ~= 14 and (' font-size="%s"'):format(number(size)) or "", style.bold and ' font-weight="bold"' or "",
            anchor ~= "start" and (' text-anchor="%s"'):format(anchor) or "", escaped(line)), y + size * LINE)
        y = y + size * LINE
    end
    return y
end

--- Draws a box. `style`: class ("plain"), round (radius, 6), dashed, lines: its texts in the middle, each a string or a table with
-- the text and its style. Returns y below it.
function Canvas:box(x, y, width, height, style)
    style = style or {}
    self:_add(('<rect class="%s" x="%s" y="%s" width="%s" height="%s"%s%s/>'):format(self:_class(style.class or "plain"), number(x),
        number(y), number(width), number(height), style.round ~= 0 and (' rx="%s"'):format(number(style.round or 6)) or "",
        style.dashed and ' stroke-dasharray="4 3"' or ""), y + height)
    self.areas[#self.areas + 1] = { left = x, right = x + width, top = y, bottom = y + height }
    local lines, high = {}, 0
    for index, line in ipairs(style.lines or {}) do
        lines[index] = type(line) == "table" and line or { line }
        high = high + (lines[index].size or 14) * LINE
    end
    local top = y + (height - high) / 2
    for _, line in ipairs(lines) do
        line.anchor = "middle"
        top = self:text(x + width / 2, top, line[1], line)
    end
    return y + height
end

--- Draws a line through points, an array of x1, y1, x2, y2 and so on. `style`: class ("line"), dashed, arrow (a tip at its end).
function Canvas:line(points, style)
    style = style or {}
    local class, count = self:_class(style.class or "line"), #points
    local x, y, before_x, before_y = points[count - 1], points[count], points[count - 3], points[count - 2]
    local length = math.sqrt((x - before_x) ^ 2 + (y - before_y) ^ 2)
    local to_x, to_y = (x - before_x) / length, (y - before_y) / length
    local path, lowest = {}, 0
    for index = 1, count, 2 do
        local last = index == count - 1 and style.arrow and 7 or 0
        path[#path + 1] = ("%s%s,%s"):format(index == 1 and "M" or "L", number(points[index] - to_x * last),
            number(points[index + 1] - to_y * last))
        lowest = math.max(lowest, points[index + 1])
        if index > 1 then
            self.lines[#self.lines + 1] = { points[index - 2], points[index - 1], points[index], points[index + 1] }
        end
    end
    self:_add(('<path class="%s" d="%s"%s/>'):format(class, table.concat(path, " "),
        style.dashed and ' stroke-dasharray="5 3"' or ""), lowest)
    if style.arrow then
        self:_add(('<path class="%s tip" d="M%s,%s L%s,%s L%s,%s z"/>'):format(class, number(x), number(y),
            number(x - to_x * 9 - to_y * 4.5), number(y - to_y * 9 + to_x * 4.5),
            number(x - to_x * 9 + to_y * 4.5), number(y - to_y * 9 - to_x * 4.5)), 0)
    end
end

--- Draws an arrow: a line with a tip.
function Canvas:arrow(points, style)
    local copy = { arrow = true }
    for key, value in pairs(style or {}) do
        copy[key] = value
    end
    self:line(points, copy)
end

--- Draws a cross around a point.
function Canvas:cross(x, y, class, radius)
    local r = radius or 6
    self:_add(('<path class="%s thick" d="M%s,%s L%s,%s M%s,%s L%s,%s"/>'):format(self:_class(class or "fail"), number(x - r),
        number(y - r), number(x + r), number(y + r), number(x - r), number(y + r), number(x + r), number(y - r)), y + r)
end

--- Writes the picture's title as its headline. Returns y below it.
function Canvas:headline()
    return self:text(canvas.MARGIN, 10, self.settings.title, { size = 18, bold = true, width = canvas.WIDTH - 2 * canvas.MARGIN })
end

--- Draws a key: signs with their meanings side by side. `signs`: for each its text, and `arrow` or `box`, a style. Returns y below.
function Canvas:key(y, signs)
    local x, below = canvas.MARGIN, y
    for _, sign in ipairs(signs) do
        if sign.arrow then
            self:arrow({ x, y + 10, x + 32, y + 10 }, sign.arrow)
            x = x + 40
        else
            self:box(x, y + 1, 18, 16, sign.box)
            x = x + 26
        end
        below = self:text(x, y, sign[1], { class = "soft" })
        x = x + canvas.width_of(sign[1], {}) + 24
    end
    return below
end

-- ---- What makes a picture unreadable ----------------------------------------------------------------------------------------

local function overlap(one, other)
    return one.left < other.right and other.left < one.right and one.top < other.bottom and other.top < one.bottom
end

local function inside(one, other)
    return one.left >= other.left and one.right <= other.right and one.top >= other.top and one.bottom <= other.bottom
end

--- Whether a line from (x1, y1) to (x2, y2) goes through a rectangle: it is cut at each of the four sides.
local function crosses(line, area)
    local x, y = line[1], line[2]
    local dx, dy = line[3] - x, line[4] - y
    local from, to = 0, 1
    for _, side in ipairs { { -dx, x - area.left }, { dx, area.right - x }, { -dy, y - area.top }, { dy, area.bottom - y } } do
        local slope, room = side[1], side[2]
        if slope == 0 then
            if room < 0 then
                return false
            end
        elseif slope < 0 then
            from = math.max(from, room / slope)
        else
            to = math.min(to, room / slope)
        end
    end
    return from < to
end

--- The problems of a picture, as sentences.
function Canvas:problems()
    local list = {}
    local edge = { left = 4, right = canvas.WIDTH - 4, top = 4, bottom = self.bottom }
    for index, text in ipairs(self.texts) do
        local function complain(what)
            list[#list + 1] = ("the text '%s' %s"):format(text.text, what)
        end
        if not inside(text, edge) then
            complain "leaves the picture"
        end
        for other = 1, index - 1 do
            if overlap(text, self.texts[other]) then
                complain(("overlaps '%s'"):format(self.texts[other].text))
            end
        end
        for _, area in ipairs(self.areas) do
            if overlap(text, area) and not inside(text, area) then
                complain "crosses the border of a box"
            end
        end
        for _, line in ipairs(self.lines) do
            if crosses(line, text) then
                complain "is crossed by a line"
            end
        end
    end
    return list
end

-- ---- The file ---------------------------------------------------------------------------------------------------------------

local FORMS = { area = "fill: %s; stroke: %s", text = "fill: %s", line = "stroke: %s" }

function Canvas:_rules(column, indent)
    local names, list = {}, {}
    for name in pairs(self.used) do
        names[#names + 1] = name
    end
    table.sort(names)
    for _, name in ipairs(names) do
        local colour = COLOURS[name]
        local first, second = colour[column]:match "^(%S+) ?(%S*)$"
        list[#list + 1] = ("%s%s { %s }"):format(indent, name == "text" and "text" or "." .. name,
            FORMS[colour[1]]:format(first, second))
        if colour[1] == "line" then
            list[#list + 1] = ("%s.%s.tip { fill: %s; stroke: none }"):format(indent, name, first)
        end
    end
    return table.concat(list, "\n")
end

--- Ends the picture and returns it as text. Raises an error that names all texts that cannot be read.
function Canvas:finish()
    local problems = self:problems()
    if problems[1] then
        error(table.concat(problems, "\n"), 0)
    end
    local settings, height = self.settings, math.ceil(self.bottom + canvas.MARGIN)
    local chinese = settings.language == "zh"
    return table.concat({
        ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" xml:lang="%s"'):format(
            canvas.WIDTH, height, math.floor(canvas.WIDTH * SHOWN), math.floor(height * SHOWN), chinese and "zh-CN" or "en"),
        '     aria-labelledby="title desc" font-family="Helvetica, Arial, sans-serif" font-size="14">',
        ('  <title id="title">%s</title>'):format(escaped(settings.title)),
        ('  <desc id="desc">%s</desc>'):format(escaped(settings.desc)),
        "  <style>",
        "    path { fill: none; stroke-width: 1.5 }",
        "    .thick { stroke-width: 3 }",
        "    .code { font-family: ui-monospace, Menlo, Consolas, monospace }",
        self:_rules(2, "    "),
        "    @media (prefers-color-scheme: dark) {",
        self:_rules(3, "      "),
        "    }",
        "  </style>",
        ('  <rect class="page" width="%d" height="%d"/>'):format(canvas.WIDTH, height),
        "  " .. table.concat(self.elements, "\n  "),
        "</svg>",
        ""
    }, "\n")
end

return canvas

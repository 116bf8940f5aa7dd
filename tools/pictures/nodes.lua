--- nodes: frames with a row of a queue's nodes, and arrows from node to node. For pictures of queues.

local canvas = require "tools.pictures.canvas"

local nodes = {}

local LINE, ROOM = 19, 11 -- heights: of a line of text, of what is above and below

--- Class of a node's state.
local CLASSES = { holds = "held", waits = "waits", dead = "bad", gone = "gone" }

--- Writes what happens in a frame, with the frame's number. Returns y below it.
function nodes.frame(c, y, number, text)
    local left, width = canvas.MARGIN, canvas.WIDTH - 2 * canvas.MARGIN
    c:box(left, y - 1, 22, 22, { round = 11, lines = { { tostring(number), bold = true } } })
    return c:text(left + 30, y, text, { width = width - 30 })
end

--- Draws nodes side by side, over the width of the picture. `list`: for each its state ("holds", "waits", "dead", "gone") and its
-- lines of text. Returns the row: boxes with left, right, top, bottom, middle.
function nodes.row(c, y, list, gap)
    local left, width = canvas.MARGIN, canvas.WIDTH - 2 * canvas.MARGIN
    local row, wide = {}, (width - gap * (#list - 1)) / #list
    for index, node in ipairs(list) do
        local x = left + (index - 1) * (wide + gap)
        local gone = node.state == "gone"
        local lines = {}
        for number, text in ipairs(node.lines) do
            lines[number] = { text, bold = number == 1 and not gone, class = gone and "soft" or nil }
        end
        local high = #lines * LINE + 2 * ROOM
        c:box(x, y, wide, high, { class = CLASSES[node.state], dashed = gone, lines = lines })
        row[index] = { left = x, right = x + wide, top = y, bottom = y + high, middle = x + wide / 2 }
    end
    return row
end

--- Draws an arrow from one node to the next one.
function nodes.beside(c, from, to, style)
    local y = (from.top + from.bottom) / 2
    if from.left > to.left then
        c:arrow({ from.left - 1, y, to.right + 1, y }, style)
    else
        c:arrow({ from.right + 1, y, to.left - 1, y }, style)
    end
end

--- Draws an arrow below other nodes. `style.from`, `style.to`: how far from the nodes' middles it begins and ends.
function nodes.around(c, from, to, style)
    local x1, x2 = from.middle + (style.from or 0), to.middle + (style.to or 0)
    local y = from.bottom + 1
    c:arrow({ x1, y, x1, y + 14, x2, y + 14, x2, y }, style)
end

return nodes

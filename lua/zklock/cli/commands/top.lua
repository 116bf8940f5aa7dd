--- zklock top: shows locks, and keeps the picture up to date, by ZooKeeper's watches (zklock.inspect.tree): while nothing changes,
-- nothing is sent. Only the ages are drawn again each second.
--
-- The keys are those of KEYS.

local codes = require "zklock.cli.codes"
local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"
local Output = require "zklock.cli.output"
local process = require "zklock.process"
local Screen = require "zklock.cli.screen"
local settings = require "zklock.cli.settings"
local Tree = require "zklock.inspect.tree"
local Waits = require "zklock.inspect.waits"

local max, min, huge = math.max, math.min, math.huge
local format = string.format
local concat, insert, remove, sort = table.concat, table.insert, table.remove, table.sort
local unpack = table.unpack or rawget(_G, "unpack")

--- Seconds between two readings of one directory, unless given.
local INTERVAL = 0.5

--- Seconds between two pictures while nothing changes: the ages grow.
local REDRAW = 1

--- The fewest characters of a path.
local SHORTEST_PATH = 20

--- The lines above and below the table.
local HEAD, FOOT = 3, 1

local function oldest(state)
    local since = huge
    for _, contender in ipairs(state.contenders) do
        since = contender.holder and min(since, contender.since or huge) or since
    end
    return since
end

--- The orders, and for each the value by which states are sorted; those with the same value are by their paths.
local ORDERS = { "path", "waiting", "age" }
local VALUE_OF = {
    path = function()
        return 0
    end,
    waiting = function(state)
        return -state.waiters
    end,
    age = oldest
}

--- The keys, as ? shows them.
local KEYS = {
    "up, down   choose a lock (also k and j)",
    "Enter      show the queue of the chosen lock; up and down scroll, any other key shows the locks again",
    "s          change the order: path, waiting, age",
    "/          filter by path, kind and holder; Enter keeps the filter, Esc removes it",
    "r          ask the holders of the chosen lock to release it, after a question",
    "?          show the keys; any key shows the locks again",
    "q          quit"
}

--- The keys that move, and by how many lines.
local MOVES = { k = -1, ["\27[A"] = -1, j = 1, ["\27[B"] = 1 }

local top = { summary = "Show locks, live, in a terminal." }

function top.define(parser)
    looking.define_paths(parser)
    parser:option "-d --delay":argname "SEC":convert(function(text)
        local value = settings.seconds(text)
        return value and value >= 0.1 and value <= 3600 and value or nil, format("'%s' must be 0.1 to 3600 seconds", text)
    end):description(format("A lock that keeps changing is read once in so many seconds (%g).", INTERVAL))
    settings.define(parser)
end

--- What is shown: states, and what the keys have set.
local function new_view(paths)
    return {
        paths = paths[1] and paths or { "/" }, states = {}, shown = {}, order = 1, chosen = 1,
        filter = "", mode = "list", message = "", problem = false, retry_at = 0, truncated = false,
        waits = Waits.new {}, path = false, scrolled = 0 -- path: of the lock whose queue is shown
    }
end

--- Reads what has changed. Returns true; or nil, message, code.
local function read(view, tree)
    local changes, message, code = tree:update(0)
    if not changes then
        return nil, message, code
    end
    if next(changes) then
        view.truncated, view.states = next(tree.left_out) ~= nil, {}
        for _, state in pairs(tree.states) do
            view.states[#view.states + 1] = state
        end
        view.waits = Waits.new(view.states)
    end
    return true
end

--- Notes since when there is no connection: what is shown is of that time, and may be otherwise by now.
local function note_connection(view, client)
    local state, problem = client:state()
    view.blind_since = state ~= "connected" and (view.blind_since or process.now()) or nil
    if view.blind_since then
        view.problem = format("NOT LIVE: as of %.0f s ago, %s", process.now() - view.blind_since, problem or state)
    end
end

--- Reads what has changed, if it is time. A failure is shown, and the reading is tried again later.
local function keep_up(view, tree, delay)
    local now = process.now()
    if now >= view.retry_at then
        local ok, message = read(view, tree)
        view.problem = not ok and message
        view.retry_at = ok and 0 or process.now() + delay
    end
    note_connection(view, tree.client)
    view.now = view.blind_since and view.now or inspect.now(view.states) -- the ages of that time
    return view.retry_at > 0 and max(0, view.retry_at - now) or tree:due_in()
end

--- Returns the characters of a UTF-8 text.
local function characters_of(text)
    local characters = {}
    for character in text:gmatch "[^\128-\191][\128-\191]*" do
        characters[#characters + 1] = character
    end
    return characters
end

--- Cuts a text to so many characters, or fills it.
local function fit(text, width)
    local characters = characters_of(text)
    return concat(characters, "", 1, min(#characters, width)) .. (" "):rep(width - #characters)
end

--- Does the same with a path, whose end tells more than its beginning.
local function fit_path(path, width)
    local characters = characters_of(path)
    if #characters <= width then
        return fit(path, width)
    end
    return "…" .. concat(characters, "", #characters - width + 2)
end

--- Chooses what is shown, in its order.
local function arrange(view)
    local shown, filter = {}, view.filter:lower()
    for _, state in ipairs(view.states) do
        local text = format("%s %s %s", state.path, state.kind, (locks.holders(state, view.now))):lower()
        if text:find(filter, 1, true) then
            shown[#shown + 1] = state
        end
    end
    local value_of = VALUE_OF[ORDERS[view.order]]
    sort(shown, function(a, b)
        local x, y = value_of(a), value_of(b)
        return x < y or x == y and a.path < b.path
    end)
    view.shown, view.chosen = shown, max(1, min(view.chosen, #shown))
end

--- Returns the lines of a queue.
local function queue_lines(view, columns, output)
    local state = locks.missing(view.path)
    for _, one in ipairs(view.states) do
        state = one.path == view.path and one or state
    end
    local deadlock = view.waits:deadlock(state)
    local lines = Output.align(locks.queue(state, view.now, huge))
    view.scrolled = max(0, min(view.scrolled, #lines - 2))
    for _ = 1, view.scrolled do
        remove(lines, 2)
    end
    insert(lines, 1, format("%s  %s  %s, %d waiting%s", output.clean(view.path), state.kind, locks.taken(state), state.waiters,
        deadlock and "  deadlock: " .. output.clean(Waits.describe(deadlock)) or ""))
    for index, line in ipairs(lines) do
        lines[index] = fit(line, columns)
    end
    lines[2] = output:styled("bold", lines[2])
    return lines
end

--- Draws the picture.
local function draw(view, screen, output)
    local columns, rows = screen.size()
    arrange(view)
    local path_width = max(SHORTEST_PATH, min(40, columns - 48))
    local function row(path, kind, state, since, waiting, names)
        return fit(format("%s %s %s %s %s %s", path, fit(kind, 9), fit(state, 9), fit(since, 7), fit(waiting, 7),
            names), columns)
    end
    local held, waiting = 0, 0
    for _, state in ipairs(view.shown) do
        held, waiting = held + (state.holders > 0 and 1 or 0), waiting + state.waiters
    end
    local deadlocks = view.waits.deadlocks
    local lines = {
        fit(format("zklock top   %d locks%s, %d held, %d waiting   order: %s%s", #view.shown, view.truncated and " or more" or "",
            held, waiting, ORDERS[view.order], view.filter ~= "" and "   filter: " .. output.clean(view.filter) or ""), columns),
        fit(view.problem or deadlocks[1] and format("DEADLOCKS: %d. %s", #deadlocks, output.clean(Waits.describe(deadlocks[1])))
            or view.message, columns),
        output:styled("bold", row(fit("PATH", path_width), "KIND", "STATE", "SINCE", "WAITING", "HELD BY"))
    }
    local room = max(1, rows - HEAD - FOOT)
    local first = max(1, view.chosen - room + 1)
    for index = first, min(#view.shown, first + room - 1) do
        local state = view.shown[index]
        local names, age = locks.holders(state, view.now)
        local mark = index == view.chosen and "> " or "  "
        local text = row(mark .. fit_path(output.clean(state.path), path_width - #mark), state.kind,
            view.waits:deadlock(state) and "deadlock" or locks.taken(state), age,
            state.waiters > 0 and format("%d", state.waiters) or "-", names)
        lines[#lines + 1] = index == view.chosen and output:styled("cyan", text) or text
    end
    if view.mode == "queue" then
        lines = { lines[1], lines[2], unpack(queue_lines(view, columns, output), 1, room) }
    elseif view.mode == "keys" then
        lines = { lines[1], lines[2] }
        for index = 1, min(#KEYS, room) do
            lines[#lines + 1] = fit(KEYS[index], columns)
        end
    end
    while #lines < rows - FOOT do
        lines[#lines + 1] = ""
    end
    local foot = "q quit   Enter queue   s order   / filter   r ask to release   up, down choose   ? keys"
    if view.mode == "queue" then
        foot = "up, down scroll   any other key: back"
    elseif view.mode == "keys" then
        foot = "any key: back"
    elseif view.mode == "filter" then
        foot = "filter: " .. output.clean(view.filter) .. "_   (Enter: done, Esc: none)"
    elseif view.mode == "revoke" and view.shown[view.chosen] then
        foot = format("ask the holders of %s to release it? y/n", output.clean(view.shown[view.chosen].path))
    end
    lines[rows] = fit(foot, columns)
    return screen:draw(lines)
end

--- Acts on a key while a filter is written.
local function filter_key(view, key)
    if key == "\r" or key == "\n" then
        view.mode = "list"
    elseif key == "\27" then
        view.mode, view.filter = "list", ""
    elseif key == "\127" or key == "\8" then
        view.filter = view.filter:gsub("[^\128-\191][\128-\191]*$", "")
    elseif not key:find "^[%c\27]" then
        view.filter = view.filter .. key
    end
end

--- Asks the holders of the chosen lock to release it.
local function revoke(view, client)
    local state = view.shown[view.chosen]
    local asked, message = locks.revoke(client, state)
    view.message = asked and format("asked %d holders of %s to release it", asked, state.path) or message
end

--- Acts on a key. Returns true if it ends the program.
local function act(view, key, client)
    if view.mode == "filter" then
        filter_key(view, key)
    elseif view.mode == "queue" and MOVES[key] then
        view.scrolled = view.scrolled + MOVES[key]
    elseif view.mode == "keys" or view.mode == "queue" then
        view.mode = "list"
    elseif view.mode == "revoke" then
        view.mode = "list"
        if key == "y" then
            revoke(view, client)
        end
    elseif key == "q" then
        return true
    elseif key == "s" then
        view.order = view.order % #ORDERS + 1
    elseif key == "?" then
        view.mode = "keys"
    elseif key == "/" then
        view.mode, view.filter = "filter", ""
    elseif key == "r" and view.shown[view.chosen] and view.shown[view.chosen].holders > 0 then
        view.mode = "revoke"
    elseif (key == "\r" or key == "\n") and view.shown[view.chosen] then
        view.mode, view.path, view.scrolled = "queue", view.shown[view.chosen].path, 0
    elseif MOVES[key] then
        view.chosen = view.chosen + MOVES[key]
    end
    return false
end

--- Returns the first key of what was typed: an escape sequence is one.
local function first_key(typed)
    return typed:match "^\27%[[%d;]*%a" or typed:match "^[^\128-\191][\128-\191]*" or typed:sub(1, 1)
end

--- The loop. Returns an exit code.
local function show(view, screen, session, context, tree, delay)
    local client = session.client
    while true do
        local due_in = keep_up(view, tree, delay)
        if not draw(view, screen, context.output) then
            return codes.FAILED
        end
        local ready = process.poll({ screen.fd, context.signals, client:pollfd() }, min(REDRAW, due_in))
        if ready[context.signals] then
            session:take_signals() -- raises for those that end; others, such as WINCH, only draw again
        end
        client:pump()
        if ready[screen.fd] then
            local typed = process.read(screen.fd)
            if not typed or typed == "" then
                return 0
            end
            while typed ~= "" do
                local key = first_key(typed)
                if act(view, key, client) then
                    return 0
                end
                typed = typed:sub(#key + 1)
            end
        end
    end
end

function top.run(arguments, context)
    if not Screen.is_possible() then
        return context:fail(codes.FAILED, "top needs a terminal whose cursor it can move; zklock ls and zklock watch do not")
    end
    local view, delay = new_view(arguments.paths), arguments.delay or INTERVAL
    local session = context:connect(arguments)
    local tree = Tree.new(session.client, view.paths, { interval = delay })
    context.check(read(view, tree)) -- a failure is told before the screen is opened
    local screen = Screen.open()
    if not screen then
        return context:fail(codes.FAILED, "cannot read the settings of the terminal")
    end
    local done, result = pcall(show, view, screen, session, context, tree, delay)
    screen:close()
    return done and result or error(result, 0)
end

return top

--- A client process of the campaign that is `zklock run`, again and again. The command that it runs is commanded.lua, which takes
-- the turn and records it for as long as it lives: it knows nothing of a lease. So zklock has to end it in time.
--
-- zklock is in this process's group, so signals of the campaign reach both; its command and its guardian are not.
--
-- Usage: command.lua SETTINGS.json RECORD

local uv = require "luv"
local cjson = require "cjson"
local core = require "zklock.core"
local turns = require "spec.campaign.programs.turns"

local settings = turns.settings(arg[1])
local order = turns.order_reader(arg[1])
local record = turns.recorder(arg[2])
record("start %.6f %d", core.now(), uv.os_getpid())
math.randomseed(settings.seed)

--- Seconds that a command gets to end by itself.
local GRACE = "0.3"

--- Options for how long it waits for the lock, one at random.
local WAITS = { { "-n" }, { "-w", "0.5" }, { "-w", "3" }, { "-w", "3" }, { "-w", "3" } }

--- How commanded.lua is run, at random: as the command, or as its child. In two forms it ignores TERM.
local FORMS = {
    {}, { "sh", "-c", '"$@"; exit $?', "sh" }, { "sh", "-c", [[trap '' TERM; exec "$@"]], "sh" },
    { "sh", "-c", [[trap '' TERM; "$@"; exit $?]], "sh" }
}

--- kind of lock -> its mode in the record, and the options of zklock run.
local KINDS = {
    mutex = function()
        return "x", {}
    end,
    read = function()
        return "r", { "-s" }
    end,
    semaphore = function(lock)
        return "s", { "-p", ("1/%d"):format(lock.limit) }
    end
}

--- Outcomes that no fault of the campaign may bring about.
local WRONG = {
    killed = true, failed = true, not_found = true, not_executable = true, no_auth = true, auth_failed = true, interrupted = true,
    max_hold = true, revoked = true
}

local function append(words, more)
    for _, word in ipairs(more) do
        words[#words + 1] = word
    end
end

--- Runs `zklock run` to its end. Returns the text that it wrote to --status-fd.
local function run(words)
    local thread, text, left = coroutine.running(), {}, 2
    local status = uv.new_pipe()
    local handle
    local function done()
        left = left - 1
        if left == 0 then
            assert(coroutine.resume(thread))
        end
    end
    handle = assert(uv.spawn("setpriv", { args = words, stdio = { nil, 2, 2, status } }, function()
        handle:close()
        done()
    end))
    status:read_start(function(_, chunk)
        text[#text + 1] = chunk
        if not chunk then
            status:close()
            done()
        end
    end)
    coroutine.yield()
    return table.concat(text)
end

--- Takes the turn with a number.
local function turn(number, lock)
    local interpreter = arg[-1]
    local mode, options = KINDS[lock.kind](lock)
    local words = {
        "--pdeathsig", "KILL", "--", interpreter, settings.root .. "/lua/zklock/cli/main.lua", "run", "--servers", settings.servers,
        "--session-timeout", tostring(settings.timeout), "--identity", settings.name, "--status-fd", "3", "-q", "-k", GRACE,
        "--on-lost", settings.lease and "stop" or "warn"
    }
    append(words, WAITS[math.random(#WAITS)])
    append(words, options)
    append(words, { lock.path, "--" })
    append(words, FORMS[math.random(#FORMS)])
    append(words, {
        interpreter, settings.root .. "/spec/campaign/programs/commanded.lua", arg[1], arg[2], ("1-%d"):format(number), mode,
        tostring(lock.limit or 1), tostring(uv.os_getpid())
    })
    local text = run(words)
    local decoded, status = pcall(cjson.decode, text)
    if not decoded or WRONG[status.outcome] or status.outcome == "exited" and status.exit ~= 0 then
        error("zklock run says: " .. text)
    elseif status.outcome ~= "exited" and status.outcome ~= "lost" then
        record("r 1 %.6f %s %s", core.now(), status.outcome, lock.path)
    end
end

local function main()
    local number = 0
    while order() ~= "stop" do
        number = number + 1
        turn(number, turns.choose(math.random, settings.locks))
        turns.sleep(settings.idle + math.random() * settings.pause)
    end
end

local thread = coroutine.create(main)
assert(coroutine.resume(thread))
uv.run()
assert(coroutine.status(thread) == "dead")

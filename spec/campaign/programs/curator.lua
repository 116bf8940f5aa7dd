--- A client process of the campaign that is Curator: drives spec/foreign's contender, and records its turns as turns.lua does. It
-- has no lease and no token: it records only what it saw itself.
--
-- Usage: curator.lua SETTINGS.json RECORD

local uv = require "luv"
local core = require "zklock.core"
local turns = require "spec.campaign.programs.turns"

local settings = turns.settings(arg[1])
local order = turns.order_reader(arg[1])
local sleep = turns.sleep
local record = turns.recorder(arg[2])
record("start %.6f %d", core.now(), uv.os_getpid())
math.randomseed(settings.seed)

-- Curator may have ended before it is told to, and libuv does not prevent SIGPIPE for a write to it.
local deaf = uv.new_signal()
deaf:start("sigpipe", function() end)
deaf:unref()

--- Seconds after "close" within which it must end; also after a start within which it must be ready.
local PATIENCE = 5

--- After so many acquires in a row that end with "timeout" a new Curator is started. If the servers have forgotten that they
-- deleted a node of its session (ZOOKEEPER-4785), Curator waits behind that node until its session ends; zklock's client deletes
-- such a node. The session of a dead client lasts as long as four acquires.
local TIMEOUTS = 4

--- Starts Curator: say(line) sends it a line; hear() waits for a line and returns nil at its end.
local function start()
    local input, output = uv.new_pipe(), uv.new_pipe()
    local handle = assert(uv.spawn("setpriv", {
        args = {
            "--pdeathsig", "KILL", "--", settings.root .. "/spec/foreign/run", "curator", settings.servers,
            settings.locks[1].path, "mutex", "0", settings.name
        },
        stdio = { input, output, 2 }
    }, function() end))
    local lines, partial, waiting, ended = {}, "", nil, false
    local function wake()
        if waiting and (lines[1] or ended) then
            local thread = waiting
            waiting = nil
            assert(coroutine.resume(thread))
        end
    end
    output:read_start(function(_, chunk)
        if not chunk then
            ended = true
            output:close()
        end
        partial = partial .. (chunk or "")
        for line in partial:gmatch("([^\n]*)\n") do
            lines[#lines + 1] = line
        end
        partial = partial:match("[^\n]*$")
        wake()
    end)
    local curator = {}
    function curator.say(line)
        input:write(line .. "\n")
    end
    function curator.hear()
        if not lines[1] and not ended then
            waiting = coroutine.running()
            coroutine.yield()
        end
        return table.remove(lines, 1)
    end
    function curator.stop()
        curator.say("close")
        local deadline = core.now() + PATIENCE
        while not ended and core.now() < deadline do
            sleep(0.05)
        end
        handle:kill("sigkill")
        input:close()
        handle:close()
    end
    return curator
end

local function main()
    local count = 0
    while order() ~= "stop" do
        local curator, timeouts = start(), 0
        local word = curator.hear()
        while word and order() ~= "stop" do
            curator.say("acquire 5")
            word = curator.hear()
            timeouts = word == "timeout" and timeouts + 1 or 0
            if word ~= "ok" and word ~= "timeout" or timeouts == TIMEOUTS then
                break
            end
            if word == "ok" then
                count = count + 1
                record("g 1-%d %s x 1 1 - %.6f -", count, settings.locks[1].path, core.now())
                sleep(math.random() * 0.005)
                record("e 1-%d %.6f released", count, core.now())
                curator.say("release")
                word = curator.hear()
                if word ~= "ok" then
                    break
                end
            end
        end
        if order() ~= "stop" then
            local why = word == "timeout" and word or (word or "ended"):match("KeeperException%$(%w+)") or "failed"
            record("r 1 %.6f curator:%s", core.now(), why)
        end
        curator.stop()
    end
end

local thread = coroutine.create(main)
local ok, problem = coroutine.resume(thread)
assert(ok, problem)
uv.run()

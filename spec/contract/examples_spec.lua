--- Each example is run as a user would run it, and must print what it promises.

local exposition = require "spec.support.exposition"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

--- redis-lua is plain Lua and runs on 5.4, but Debian installs it only for 5.1 to 5.3.
local ENVIRONMENT = program.patient_environment ";/usr/share/lua/5.3/?.lua"

--- Runs an example to its end and returns what it printed.
local function run(name, ...)
    local output, status = program.output_of(ENVIRONMENT, "examples/" .. name .. ".lua", fixture.servers(), ...)
    assert(status == 0, ("%s ended with %d:\n%s"):format(name, status, output))
    return output .. "\n"
end

local function has(text, line)
    assert(("\n" .. text):find("\n" .. line .. "\n", 1, true), ("no line '%s' in\n%s"):format(line, text))
end

local function count(text, pattern)
    return select(2, text:gsub(pattern, ""))
end

describe("the example", function()
    after_each(fixture.clean)

    it("mutex_by_hand shows a mutex in Lua that is held by one holder at a time, in order", function()
        local output = run("mutex_by_hand")
        local last = ""
        for name, number, out in output:gmatch("(%S+) in with turn%-(%d+)\n(%S+) out\n") do
            assert.equal(name, out)
            assert.is_true(number > last)
            last = number
        end
        assert.equal(15, count(output, " out\n"))
        has(output, "15 turns, in the order of the numbers, one at a time")
    end)

    it("mutex_by_callbacks shows the same mutex without a wait, by callbacks", function()
        local output = run("mutex_by_callbacks")
        local last = ""
        for name, number, out in output:gmatch("(%S+) in with turn%-(%d+)\n(%S+) out\n") do
            assert.equal(name, out)
            assert.is_true(number > last)
            last = number
        end
        assert.equal(15, count(output, " out\n"))
        has(output, "15 turns by callbacks, in the order of the numbers, one at a time")
        has(output, "5 turns by the callback of acquire")
    end)

    local function counts_herd(sizes, ...)
        local output = run("herd", ...)
        for _, contenders in ipairs(sizes) do
            local all, one = output:match("\n +" .. contenders .. " +(%d+) +[%d.]+ +(%d+) +[%d.]+\n")
            assert.equal(contenders - 1, tonumber(one))
            assert.is_true(tonumber(all) >= contenders * (contenders - 1) / 2)
        end
    end

    local function counts_readers_and_writers(sizes, ...)
        local output = run("rwlock_by_hand", ...)
        for _, contenders in ipairs(sizes) do
            local together, all, one = output:match("\n +" .. contenders .. " +(%d+) +(%d+) +(%d+)\n")
            assert.equal(4, tonumber(together))
            assert.equal(contenders - 1, tonumber(one))
            assert.is_true(tonumber(all) > 2 * tonumber(one))
        end
    end

    it("herd counts how many contenders each release wakes #once", function()
        counts_herd({ 10, 40 }, 10, 40)
    end)

    it("rwlock_by_hand counts the same for readers and writers #once", function()
        counts_readers_and_writers({ 10, 40 }, 10, 40)
    end)

    -- 200 contenders cost 25 times as much as 40.
    it("herd and rwlock_by_hand count it for 10, 50 and 200 contenders without being asked #once #long", function()
        counts_herd { 10, 50, 200 }
        counts_readers_and_writers { 10, 50, 200 }
    end)

    it("ten_clients shows ten processes that hold in the order of the queue; two of them are killed", function()
        local output = run("ten_clients")
        local queue = assert(output:match("^the queue:([^\n]+)\n"))
        local expected = queue:gsub(" client%-4%f[^%d]", "")
        local came = ""
        for name in output:gmatch("\n(%S+) in\n") do
            came = came .. " " .. name
        end
        assert.equal(expected, came)
        assert.equal(9, count(output, "%S+ in\n"))
        assert.equal(8, count(output, "%S+ out\n"))
        has(output, "client-4 is killed while it waits")
        has(output, "client-7 is killed while it is inside")
    end)

    it("testing tests a job in a world of its own for each test", function()
        local output, status = program.output_of(program.environment(), "examples/testing.lua")
        assert.equal(0, status, output)
        has(output, "ok leaves_it_to_another_machine")
    end)

    it("keys locks keys with any bytes in them, one lock for each key", function()
        local output = run("keys")
        has(output, "17 keys locked at once by one client")
        has(output, "each of them is taken and free by itself, for another client too")
    end)

    it("leader shows one leader at a time, and which process takes over when it is killed or stopped", function()
        local story = {}
        for who, what in run("leader"):gmatch("(%a+) (%a+ ?%a*)[^\n]*") do
            if what == "leads" or what == "is killed" or what == "stands still" or what == "steps down" then
                story[#story + 1] = { who, what }
            end
        end
        local a, b, c = story[1][1], story[3][1], story[5][1]
        assert.is_true(a ~= b and b ~= c and c ~= a)
        assert.same({
            { a, "leads" }, { a, "is killed" }, { b, "leads" }, { b, "stands still" }, { c, "leads" },
            { b, "steps down" }, { c, "is killed" }, { b, "leads" }
        }, story)
    end)

    it("group shows the members after each change", function()
        local lists = {}
        for list in run("group"):gmatch "members: ([^\n]*)" do
            lists[#lists + 1] = list
        end
        assert.same({ "anna bert carl", "anna carl" }, lists)
    end)

    it("fencing shows that Redis refuses a late write by its token, and accepts it without a token", function()
        local output = run("fencing")
        has(output, "slow: wakes up, writes, and is refused")
        has(output, "slow: held() says false")
        has(output, "with tokens compared:    fast")
        assert.truthy(output:find("without the comparison:  slow ", 1, true))
    end)

    it("rate_limit allows at most three calls at once", function()
        local output = run("rate_limit")
        assert.equal(24, count(output, " begins call "))
        assert.truthy(output:find(" ###\n"))
        assert.is_nil(output:find("####", 1, true))
        has(output, "24 calls of 8 processes, never more than 3 at once")
    end)

    it("config shows readers that never see half of a change", function()
        local output = run("config")
        has(output, "in the middle of a change, without the lock: host-1:9000")
        has(output, "in the middle of a change, with the lock: timeout")
        assert.equal(3, count(output, "reader%-%d has read %d+ times, %d+ versions, each of them whole\n"))
        has(output, "3 readers, 20 changes: nobody saw half of one")
    end)

    it("bank transfers in both directions at once, refuses a stopped process, and the sum stays the same", function()
        local output = run("bank")
        assert.equal(4, count(output, "clerk%-%d has made 15 transfers\n"))
        has(output, "slow: wakes up, writes, and is refused: lost")
        has(output, "60 transfers in both directions at once: the sum is still 300")
    end)

    it("adapter_select waits in a loop of its own, which keeps running meanwhile", function()
        local output = run("adapter_select")
        assert.equal(15, count(output, "coroutine %d in, turn %d\n"))
        has(output, "15 turns, and the loop went on: yes")
    end)

    it("metrics shows a client's counters, the holders and the waiters", function()
        local output = run("metrics")
        has(output, "# TYPE zklock_acquisitions_total counter")
        has(output, "zklock_acquisitions_total 21")
        has(output, "zklock_reconnects_total 0")
        has(output, "zklock_connected_clients 1")
        exposition((assert(output:match("^(.-\n)%["))))
        has(output, 'zklock_wait_seconds_bucket{group="demo",le="+Inf"} 21')
        has(output, 'zklock_hold_seconds_count{group="demo"} 20')
        local answer = require("cjson").decode((assert(output:match("\n(%[.-%])\n"))))
        assert.equal("worker-1", answer[1].holders[1].identity)
        assert.equal("worker-2", answer[1].waiters[1].identity)
        assert.is_nil(answer[2].holders)
        has(output, "worker-2 has it now")
    end)
end)

--- The conclusions of `zklock bench` from its measurements. spec/contract/command_bench_spec.lua has measurements.

local figures = require "zklock.cli.figures"

--- Results in which every summary is of the same samples, with some fields replaced.
local function results(changes)
    local all = { session_timeout = 30, contenders = 4, locks_per_second = 50, most_locks_per_second = 500.7 }
    for _, name in ipairs { "connect", "write", "read", "lock", "hand_over" } do
        all[name] = figures.summary { 0.001, 0.002, 0.003 }
    end
    for key, value in pairs(changes or {}) do
        all[key] = value
    end
    return all
end

local function remarks(changes)
    return figures.remarks(results(changes))
end

describe("a summary of latencies", function()
    it("has quantiles, each a latency that was measured, whatever their order was", function()
        local samples = {}
        for index = 1, 200 do
            samples[index] = ((index * 7) % 200 + 1) / 1000
        end
        assert.same({ count = 200, mean = 0.1005, p50 = 0.1, p90 = 0.18, p99 = 0.198, max = 0.2 }, figures.summary(samples))
        assert.equal(0.008, samples[1]) -- the list is as it was
    end)

    it("has the only latency for everything", function()
        assert.same({ count = 1, mean = 2.5, p50 = 2.5, p90 = 2.5, p99 = 2.5, max = 2.5 }, figures.summary { 2.5 })
    end)

    it("gives a rate, and the rate that would be possible", function()
        assert.same({ 40, 250 }, { figures.rates({ count = 400, mean = 0.004 }, 10) })
        assert.same({ 1, 1e6 }, { figures.rates({ count = 1, mean = 0 }, 1) })
    end)
end)

describe("a time for people", function()
    it("has two or three digits", function()
        assert.equal("0.42 ms", figures.duration(0.00042))
        assert.equal("9.94 ms", figures.duration(0.00994))
        assert.equal("10 ms", figures.duration(0.00999))
        assert.equal("999 ms", figures.duration(0.9994))
        assert.equal("1.0 s", figures.duration(0.9996))
    end)
end)

describe("the remarks of a measurement", function()
    it("are all well on a fast ensemble", function()
        for _, remark in ipairs(remarks()) do
            assert.equal("ok", remark.level, remark.message)
        end
    end)

    it("warn of answers that take a tenth of the session, and call a half an error", function()
        local function level(timeout, slowest, name)
            local list = remarks { session_timeout = timeout, [name or "write"] = figures.summary { 0.001, slowest } }
            return list[1].level
        end
        assert.equal("ok", level(10, 0.99))
        assert.equal("warning", level(10, 1))
        assert.equal("warning", level(10, 1, "read"))
        assert.equal("warning", level(10, 4.9))
        assert.equal("error", level(10, 5))
        assert.equal("ok", level(60, 5))
    end)

    it("name the session that is long enough for the slowest answer", function()
        local function suggested(slowest)
            return remarks({ write = figures.summary { 0.001, slowest } })[2].message:match "%-%-session%-timeout (%d+)"
        end
        assert.equal("1", suggested(0.1))
        assert.equal("2", suggested(0.101))
        assert.equal("40", suggested(4))
    end)

    it("say what passing on costs", function()
        local text = ""
        for _, remark in ipairs(remarks { hand_over = figures.summary { 0.002 } }) do
            text = text .. remark.message .. "\n"
        end
        for _, part in ipairs { "in 2.00 ms: 500 times a second", "less than 20 ms", "the work of 3 others, and 8.00 ms" } do
            assert.truthy(text:find(part, 1, true), text)
        end
    end)
end)

--- zklock.core, the module in C: every call on its objects returns an answer or raises an error.

local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"

--- Returns one object of each kind in zklock.core, all of them answered.
local function objects()
    local client = fixture.client()
    local handle, path = client:desk().core, fixture.path()
    local spec = assert(core.lock_spec { path = path, mode = "mutex", identity = "a spec", acl = "open" })
    local all = {
        client = handle, spec = spec, acquisition = fixture.ask(client, spec), flush = assert(handle:flush()),
        timer = assert(handle:timer()), operation = assert(handle:operate { kind = "get", path = "/" }),
        watch = assert(handle:operate { kind = "get", path = "/", watch = true })
    }
    eventually(function()
        return all.acquisition:held() and all.flush:done() and all.operation:done() and all.watch:done()
    end)
    return all
end

--- Returns the names of an object's methods, and the methods. They are called in the order of the names, so that no call ends an
-- object before the other methods have been tried.
local function methods_of(object)
    local names, methods = {}, getmetatable(object).__index
    for name in pairs(methods) do
        names[#names + 1] = name
    end
    table.sort(names)
    return names, methods
end

after_each(fixture.clean)

describe("zklock.core", function()
    it("raises an error if a method is called on an object of another kind #valgrind #asan", function()
        local all = objects()
        for kind, object in pairs(all) do
            local names, methods = methods_of(object)
            for _, name in ipairs(names) do
                for other_kind, other in pairs(all) do
                    if not getmetatable(other).__index[name] then
                        local ok, problem = pcall(methods[name], other)
                        local called = ("%s.%s(%s)"):format(kind, name, other_kind)
                        assert.is_false(ok, called)
                        assert.truthy(problem:find("bad argument #1", 1, true), called .. ": " .. problem)
                    end
                end
                for _, other in ipairs { false, 7, "text", {}, print, io.stdout } do
                    assert.is_false((pcall(methods[name], other)))
                end
                assert.is_false((pcall(methods[name])))
            end
        end
        assert.is_true(all.acquisition:held())
    end)

    it("gives acquisitions, questions and operations only those common methods that fit each of them", function()
        local all = objects()
        local function methods(kind)
            return (methods_of(all[kind]))
        end
        assert.same({ "call_owner", "cancel", "done", "id", "limit", "result" }, methods("timer"))
        assert.same(methods("timer"), methods("flush"))
        assert.same({ "call_owner", "cancel", "done", "event", "id", "limit", "take" }, methods("operation"))
        assert.same({
            "call_owner", "cancel", "done", "extend", "finished", "held", "id", "limit", "node", "nodes", "phase", "released",
            "remaining", "revocations", "token", "token_numbers", "waited", "waits"
        }, methods("acquisition"))
    end)

    it("raises an error for a reader that downgrades an acquisition of another client", function()
        local all, other = objects(), fixture.client()
        local spec = assert(core.lock_spec { path = fixture.path(), mode = "read", identity = "a spec", acl = "open" })
        local ok, problem = pcall(core.acquire, other:desk().core, spec, {}, false, nil, all.acquisition)
        assert.is_false(ok)
        assert.truthy(problem:find("another client", 1, true), problem)
    end)

    it("raises an error that names the field of a lock spec that is wrong, and calls no metamethod", function()
        local function refused(field, value)
            local spec = { path = "/x", mode = "mutex", identity = "a spec", acl = "open" }
            spec[field] = value
            local ok, problem = pcall(core.lock_spec, spec)
            assert.is_false(ok)
            return problem
        end
        assert.matches("handoff: an integer from 0 to 2147483647 expected", refused("handoff", 1.5))
        assert.matches("handoff: an integer from 0 to 2147483647 expected", refused("handoff", 0 / 0))
        assert.matches("handoff: an integer from 0 to 2147483647 expected", refused("handoff", -1))
        assert.matches("permits: an integer from 1 to 2147483647 expected", refused("permits", 1e300))
        assert.matches("max_hold: a number expected", refused("max_hold", "1"))
        assert.matches("mode: one of mutex, read, write, permits, latch, count expected", refused("mode", "lock"))
        assert.matches("needs an identity", refused("identity", false))
        assert.matches("needs a path", refused("path", 1))
        local called = false
        local ok = pcall(core.lock_spec, setmetatable({}, { __index = function()
            called = true
        end }))
        assert.same({ false, false }, { ok, called })
    end)

    it("makes lock specs that differ from another one in their path only", function()
        local client, path = fixture.client(), fixture.path()
        local function new_spec()
            local first = assert(core.lock_spec { path = path .. "/first", mode = "read", identity = "a reader", acl = "open" })
            return assert(assert(first:with_path(path .. "/second")):with_path(path .. "/third"))
        end
        local third = new_spec()
        collectgarbage() -- each has its own copy of the settings
        local acquisition = fixture.ask(client, third)
        eventually(function()
            return acquisition:held()
        end)
        assert.equal(path .. "/third/", acquisition:node():sub(1, #path + 7))
        local contenders = assert(client:rwlock(path .. "/third"):contenders())
        assert.same({ "a reader", "shared" }, { contenders[1].identity, contenders[1].mode })
        for _, wrong in ipairs { "", "third", "/", "/zookeeper", "/a//b" } do
            assert.is_false(pcall(third.with_path, third, wrong))
        end
        assert.is_false(pcall(third.with_path, third))
    end)

    it("raises an error for the answer of an operation that was taken before", function()
        local operation = objects().operation
        assert.equal("string", type(operation:take()))
        for _, name in ipairs { "take", "event" } do
            local ok, problem = pcall(operation[name], operation)
            assert.is_false(ok)
            assert.truthy(problem:find("this operation is over", 1, true), problem)
        end
    end)

    -- A weak table still has, as a key, an object whose finalizer has run.
    it("answers for an acquisition that was collected as for one that is over #valgrind #asan", function()
        local all = objects()
        for _, object in ipairs { all.acquisition, all.flush, all.operation } do
            getmetatable(object).__gc(object)
            assert.equal(0, object:id())
            assert.is_true(object:done())
            object:cancel()
            object:limit(1)
            object:call_owner()
        end
        local acquisition, hold, observers = all.acquisition, {}, {}
        for name, answer in pairs { held = false, waits = false, finished = true, released = true, remaining = 0, waited = 0,
            revocations = 0, phase = "released" } do
            assert.equal(answer, (acquisition[name](acquisition)), name)
        end
        for _, name in ipairs { "token", "token_numbers", "node", "nodes" } do
            assert.is_nil((acquisition[name](acquisition)), name)
        end
        assert.is_false(acquisition:extend(1))
        assert.is_nil((core.release(acquisition, 0, true, hold, observers)))
        assert.is_nil(hold._state)
        assert.is_true((core.release(acquisition, 0, false, hold, observers)))
        assert.equal("over", hold._state)
        assert.same({ nil, "it was collected", "cancelled" }, { all.flush:result() })
    end)

    it("collects an object once, and never an object of another kind", function()
        local all = objects()
        all.client = nil -- fixture.clean closes the client
        local collect_claim, collect_specs = getmetatable(all.acquisition).__gc, getmetatable(all.spec).__gc
        for _, object in pairs(all) do
            assert.is_false((pcall(object == all.spec and collect_claim or collect_specs, object)))
            assert.is_false((pcall(getmetatable(object).__gc, io.stdout)))
            getmetatable(object).__gc(object)
            getmetatable(object).__gc(object)
        end
    end)
end)

--- Locks on an ensemble whose servers have different versions, and while one server after the other is upgraded.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local versions = require "spec.support.versions"

it("the table of versions knows the first release of each series #once", function()
    for version, expected in pairs {
        ["3.5.10"] = false, ["3.7.2"] = false, ["3.8.3"] = false, ["3.8.4"] = true, ["3.8.10"] = true, ["3.9.0"] = false,
        ["3.9.1"] = false, ["3.9.2"] = true, ["3.10.0"] = true, ["4.0.0"] = true
    } do
        assert.equal(expected, versions.has(version, "exists_needs_read"), version)
    end
    assert.is_false(versions.has("3.6.4", "quotas"))
    assert.is_true(versions.has("3.7.0", "quotas"))
end)

describe("on servers of several versions #once #long", function()
    local PROGRAMS = 3
    --- Seconds: however long servers take to start, the holders keep their sessions.
    local SESSION = 300
    local usual, others = nil, {}

    setup(function()
        usual = cluster.shared():version()
        for version in cluster.run({ "ls", cluster.root .. "/build/servers" }):gmatch "[^\n]+" do
            if version:find "^%d" and version ~= usual then
                others[#others + 1] = version
            end
        end
    end)

    teardown(cluster.stop_shared)

    after_each(fixture.clean)

    --- A spec that is pending where there is only one version.
    local function spec(title, fn)
        it(title, function()
            if not others[1] then
                return pending "tools/servers.sh has fetched no other versions"
            end
            fn()
        end)
    end

    local function read_number(name)
        return tonumber((files.read(name):match "%d+"))
    end

    --- Runs `act` on servers while programs count in a file under a mutex, and while a lock of each kind is held. `act` gets a
    -- function that waits until each program could have counted some more. The locks are held throughout, and no count is lost.
    local function under_load(servers, act)
        local directory = fixture.temporary_directory()
        local counts, over = directory .. "/counts", directory .. "/over"
        files.write(counts, "0\n")
        local held = {}
        for index, kind in ipairs(kinds) do
            local client = fixture.client({ session_timeout = SESSION }, servers.servers)
            local lock = kind.new(client, "/held/" .. kind.name)
            assert(lock:acquire(60))
            held[index] = { lock = lock, token = lock:token() }
        end
        local programs = {}
        for index = 1, PROGRAMS do
            programs[index] = fixture.program("counter", servers.servers, "/counted", counts, over)
        end
        local function go_on()
            local wanted = read_number(counts) + 10 * PROGRAMS
            fixture.pump_until(held[1].lock._client, function()
                return read_number(counts) >= wanted
            end, 120, "further counts")
        end
        go_on()
        act(go_on)
        files.write(over, "")
        local tokens, count = {}, 0
        for _, program in ipairs(programs) do
            assert.equal("done", program:line())
            for line in function() return program:line() end do
                local number, token = line:match "^(%d+) (%S+)$"
                assert.is_nil(tokens[tonumber(number)], line)
                tokens[tonumber(number)] = token
                count = count + 1
            end
        end
        assert.equal(read_number(counts), count)
        for number = 2, count do
            assert.is_true(tokens[number] > tokens[number - 1])
        end
        for index, each in ipairs(held) do
            assert.same({ true, each.token }, { each.lock:held(), each.lock:token() }, kinds[index].name)
            assert.equal("timeout", select(3, kinds[index].rival(fixture.client({}, servers.servers), each.lock:path()):acquire(0)))
            assert.is_true(each.lock:release())
            assert.equal(1, each.lock._client:stats().sessions)
        end
    end

    local function start(zookeeper)
        return fixture.remember(cluster.start {
            servers = 3, zookeeper = zookeeper, options = { maxSessionTimeout = 1000 * SESSION, syncLimit = 40 }
        })
    end

    spec("locks are kept, and no two clients hold one, whichever of them leads", function()
        local servers = start(usual .. "," .. table.concat(others, ","))
        local led = {}
        under_load(servers, function(go_on)
            for _ = 1, 4 do
                local leader = servers:leader()
                led[leader] = true
                servers:kill(leader)
                servers:wait()
                go_on()
                servers:restart(leader)
            end
        end)
        assert.is_truthy(next(led, next(led))) -- at least two
    end)

    for _, direction in ipairs { "upgraded", "downgraded" } do
        spec(("locks are kept, and no two clients hold one, while each server is %s in turn"):format(direction), function()
            local from, to = usual, others[#others]
            if direction == "downgraded" then
                from, to = to, from
            end
            local servers = start(from)
            under_load(servers, function(go_on)
                for number = 1, 3 do
                    assert.equal(from, servers:version(number))
                    servers:restart(number, to)
                    go_on()
                    assert.equal(to, servers:version(number))
                end
            end)
        end)
    end
end)

--- Inside nginx: one of all workers of all servers leads, and a reload moves the leadership. The Lua inside nginx is always LuaJIT,
-- so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

--- Every worker is a candidate. It appends its terms to a file that all servers share, in one write each: "elected PID token",
-- "closed PID".
local CANDIDATE = [[
    init_worker_by_lua_block {
        local client = assert(require("zklock").shared("@ZOOKEEPER@", { session_timeout = 30 }))
        local pid = tostring(ngx.worker.pid())
        local function note(line)
            local file = assert(io.open("TERMS", "a"))
            file:write(line, "\n")
            file:close()
        end
        local leader
        leader = assert(client:leader("@PATH@", {
            identity = pid,
            on_elected = function(token)
                note("elected " .. pid .. " " .. token)
                while leader:is_leader() do ngx.sleep(0.02) end
                note("ended " .. pid)
            end,
            on_lost = function(reason)
                assert(not leader:is_leader())
                ngx.sleep(0.05) -- it may wait
                note(reason .. " " .. pid)
            end
        }))
        package.loaded.leader = leader
    }
]]

local LOCATIONS = [[
    location = /who { content_by_lua_block { ngx.say((assert(package.loaded.leader:leader(20)))) } }
    location = /resign { content_by_lua_block { ngx.say(tostring(package.loaded.leader:resign())) } }
]]

describe("inside nginx, leadership #nginx", function()
    after_each(fixture.clean)

    --- Creates an empty file for terms, and returns its path.
    local function terms_file()
        local file = fixture.temporary_directory() .. "/terms"
        files.write(file, "")
        return file
    end

    --- Returns the terms so far: `{ what, pid, token }`.
    local function read_terms(path)
        local terms = {}
        for what, pid, token in files.read(path):gmatch("(%l+) (%d+) ?([%d-]*)\n") do
            if what ~= "ended" then
                terms[#terms + 1] = { what, pid, token }
            end
        end
        return terms
    end

    local function await_terms(path, count)
        return eventually(function()
            local terms = read_terms(path)
            return #terms >= count and terms, #terms .. " lines:\n" .. files.read(path)
        end, 40, count .. " lines of terms")
    end

    it("is one worker's of two servers with two workers each; a reload and a quit move it, and wait for no session", function()
        local file, path = terms_file(), fixture.path()
        local servers = {}
        for index = 1, 2 do
            servers[index] = inside.start(LOCATIONS, {
                workers = 2, path = path, head = CANDIDATE:gsub("TERMS", file) .. inside.HEAD
            })
        end
        fixture.await_children(path, 4, 60)
        local terms = await_terms(file, 1)
        local first = terms[1][2]
        assert.same({ 200, first }, { servers[1]:get("/who") })
        assert.same({ 200, first }, { servers[2]:get("/who") })

        -- The server with the leader is reloaded. Its other old worker is a candidate, too, and may lead for a moment.
        local mine, other = servers[1], servers[2]
        local function has_worker(server, pid)
            for _, worker in ipairs(server:workers()) do
                if tostring(worker) == pid then
                    return true
                end
            end
        end
        if not has_worker(mine, first) then
            mine, other = other, mine
        end
        local old = {}
        for _, worker in ipairs(mine:workers()) do
            old[tostring(worker)] = true
        end
        local session = fixture.session_of(path)
        mine:reload(60)
        local last
        eventually(function()
            terms = read_terms(file)
            last = terms[#terms]
            return last[1] == "elected" and not old[last[2]], files.read(file)
        end, 60, "a leader that goes on")
        fixture.assert_not_expired(session)
        assert.same({ "closed", first }, { terms[2][1], terms[2][2] })
        fixture.await_children(path, 4, 60)
        assert.same({ 200, last[2] }, { other:get("/who") })

        local count = #terms
        mine:quit(60)
        if has_worker(other, last[2]) then
            assert.equal(count, #read_terms(file))
        else
            terms = await_terms(file, count + 2)
            assert.same({ "closed", last[2] }, { terms[count + 1][1], terms[count + 1][2] })
        end

        -- Terms follow each other: a new leader is elected only after on_lost of the last one, and its token is greater.
        terms = read_terms(file)
        local token = ""
        for index, term in ipairs(terms) do
            assert.equal(index % 2 == 1 and "elected" or "closed", term[1])
            if term[1] == "elected" then
                assert.is_true(term[3] > token)
                token = term[3]
            else
                assert.equal(terms[index - 1][2], term[2])
            end
        end
        inside.nobody_complained(other)
    end)

    it("passes on by resign in any phase, and comes back when the others have had it", function()
        local file = terms_file()
        local server = inside.start(LOCATIONS, { workers = 1, head = CANDIDATE:gsub("TERMS", file) .. inside.HEAD })
        await_terms(file, 1)
        assert.same({ 200, "true" }, { server:get("/resign") })
        local terms = await_terms(file, 3)
        assert.equal("resigned", terms[2][1])
        assert.equal("elected", terms[3][1])
        assert.equal(terms[1][2], terms[3][2])
        inside.nobody_complained(server)
    end)

    --- Starts a server with one candidate whose functions note their names, and that is broken off in the first call of one.
    local function start_broken(broken, file)
        local head = CANDIDATE:gsub('note%("elected', [[
                if "BROKEN" == "on_elected" and not package.loaded.was_broken then
                    package.loaded.was_broken = true
                    ngx.exit(ngx.ERROR)
                end
                %0]]):gsub('note%(reason', [[
                if "BROKEN" == "on_lost" and not package.loaded.was_broken then
                    package.loaded.was_broken = true
                    ngx.exit(ngx.ERROR)
                end
                %0]]):gsub("BROKEN", broken):gsub("TERMS", file)
        return inside.start(LOCATIONS, { workers = 1, head = head .. inside.HEAD })
    end

    --- The only complaint of a server is that this function was broken off.
    local function complained(server, broken)
        local complaints = server:complaints()
        assert.equal(1, #complaints, table.concat(complaints, "\n"))
        assert.truthy(complaints[1]:find("the callback " .. broken .. " was broken off", 1, true), complaints[1])
    end

    it("ends with an on_elected that ngx.exit breaks off, and the candidate campaigns again", function()
        local file = terms_file()
        local server = start_broken("on_elected", file)
        local terms = await_terms(file, 2)
        assert.same({ "failed", "elected" }, { terms[1][1], terms[2][1] })
        complained(server, "on_elected")
    end)

    it("passes on after an on_lost that ngx.exit breaks off", function()
        local file = terms_file()
        local server = start_broken("on_lost", file)
        await_terms(file, 1)
        assert.same({ 200, "true" }, { server:get("/resign") })
        local terms = await_terms(file, 2)
        assert.same({ "elected", "elected" }, { terms[1][1], terms[2][1] })
        complained(server, "on_lost")
    end)

    it("passes on at a reload although ngx.exit breaks off on_lost, and the worker ends", function()
        local file = terms_file()
        local server = start_broken("on_lost", file)
        local terms = await_terms(file, 1)
        server:reload(60)
        terms = await_terms(file, #terms + 1)
        assert.equal("elected", terms[#terms][1])
        complained(server, "on_lost")
    end)
end)

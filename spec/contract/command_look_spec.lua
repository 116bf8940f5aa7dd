--- The subcommands of `zklock` that look at locks, and those that interfere: ls, who, revoke, break, resize.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local dkjson = require "dkjson"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

--- Runs a subcommand that succeeds, and returns its output.
local function output_of(...)
    return commands.output { ... }
end

--- Returns the JSON that a subcommand writes.
local function json_of(...)
    return assert(dkjson.decode((output_of(...))))
end

--- Returns what `zklock who` says as JSON, when the servers have told it which sessions are connected: it gives them two seconds.
local function who_with_sessions(path)
    return eventually(function()
        local object = json_of("who", "--json", path)
        return object.contenders[1].session_state ~= "unknown" and object
    end)
end

--- Returns the keys of a table, sorted, in one line.
local function keys(object)
    local list = {}
    for key in pairs(object) do
        list[#list + 1] = key
    end
    table.sort(list)
    return table.concat(list, " ")
end

describe("zklock ls", function()
    after_each(fixture.clean)

    it("lists locks for people: kind, state, age, waiters, holders", function()
        local top = fixture.directory()
        fixture.join(top .. "/nightly", nil, "web3:4711")
        fixture.join(top .. "/nightly", nil, "web4:1")
        local client = fixture.client { identity = "web5:2" }
        assert(client:semaphore(top .. "/slots", 3):acquire { count = 2 })
        local lines = {}
        for line in output_of("ls", top):gmatch "[^\n]+" do
            lines[#lines + 1] = line:sub(#top + 2)
        end
        assert.equal(3, #lines)
        assert.truthy(lines[2]:find "^nightly +mutex +held +%d+[%d.]* %a+ +1 +web3:4711$", lines[2])
        assert.truthy(lines[3]:find "^slots +semaphore +2 of 3 +%d+[%d.]* %a+ +%- +web5:2 %(2%)$", lines[3])
    end)

    it("writes JSON whose keys are always the same", function()
        local top = fixture.directory()
        fixture.join(top .. "/a")
        local object = json_of("ls", "--json", top)
        assert.equal("locks path unreadable", keys(object))
        assert.equal(1, #object.locks)
        -- dkjson reads null as nil: what is unknown is looked for in the text.
        local text = output_of("ls", "--json", top)
        for _, key in ipairs { "path", "kind", "holders", "waiters", "limit", "count", "left", "next_sequence", "created", "others",
            "contenders", "strays", "node", "mode", "sequence", "holder", "ahead", "waits_for", "identity", "revoked", "library",
            "since", "age", "session", "session_state", "session_timeout", "address", "stray" } do
            assert.truthy(text:find(('"%s":'):format(key), 1, true), key)
        end
    end)

    it("shows nodes that are no locks with --all only", function()
        local top = fixture.directory()
        assert(fixture.observer():create(top .. "/config"))
        local output, errors = output_of("ls", top)
        assert.equal("", output)
        assert.truthy(errors:find("no locks at " .. top, 1, true))
        assert.truthy(output_of("ls", "--all", top):find "/config +none")
    end)

    it("finds no locks where there is no node, which the servers may have removed with its last lock", function()
        local path = fixture.path()
        local output, errors = output_of("ls", path)
        assert.same({ "", ("zklock: no locks at %s or below it\n"):format(path) }, { output, errors })
        assert.same({}, json_of("ls", "--json", path).locks)
    end)

    it("fails for a malformed path", function()
        local result = commands.run { "ls", "locks" }
        assert.equal(125, result.status)
        assert.equal("zklock: bad path: it must start with '/'\n", result.errors)
    end)

    it("cannot be made to control the terminal by an identity", function()
        local path = fixture.path()
        fixture.join(path, nil, "evil\27]0;x\7\n")
        local output = output_of("ls", path)
        assert.is_nil(output:find "[%c]" and output:gsub("\n", ""):find "%c")
    end)
end)

describe("zklock who", function()
    after_each(fixture.clean)

    it("shows the queue, and which sessions are connected", function()
        local path, client = fixture.path(), fixture.client { identity = "web3:4711", session_timeout = 30 }
        assert(client:mutex(path):acquire(20))
        fixture.join(path, nil, "web4:1")
        local contender = who_with_sessions(path).contenders[1]
        assert.same({ "connected", 30 }, { contender.session_state, contender.session_timeout })
        local output = eventually(function()
            local text = output_of("who", path)
            return text:find "\n0 +exclusive +holds +web3:4711 +%d+[%d.]* %a+ +127%.0%.0%.1:%d+ +_c_" and text, text
        end)
        assert.truthy(output:find(path .. "  mutex  held, 1 waiting", 1, true), output)
        assert.truthy(output:find "\n1 +exclusive +waits for 0 +web4:1 +", output)
    end)

    it("shows a holder whose client has lost its connection", function()
        local path = fixture.path()
        local lock, link, client = fixture.mutex_behind_proxy(path, 60)
        assert(lock:acquire(20))
        fixture.cut_off(client, link)
        eventually(function() -- the server notices the loss later than the client
            local state = who_with_sessions(path).contenders[1].session_state
            return state == "disconnected", state
        end)
        link:accept()
    end)

    it("names strays, and nodes that are no contenders", function()
        local path = fixture.path()
        fixture.join(path)
        assert(fixture.observer():create(path .. "/notes"))
        local stray = assert(fixture.observer():create(path .. "/_c_" .. fixture.UUID .. "-lock-", "me", { sequential = true }))
        local output = output_of("who", path)
        assert.truthy(output:find("stray " .. stray .. ": it is persistent", 1, true), output)
        assert.truthy(output:find("not a contender: notes", 1, true), output)
        assert.equal("persistent", json_of("who", "--json", path).contenders[2].stray)
    end)

    it("shows the head of a long queue, and all of it with --all", function()
        local path = fixture.path()
        for index = 0, 24 do
            fixture.join(path, nil, "web" .. index)
        end
        local function lines_of(...)
            local output = output_of("who", path, ...)
            return select(2, output:gsub("\n%d+ +exclusive ", "")), output
        end
        local count, output = lines_of()
        assert.equal(20, count, output)
        assert.truthy(output:find "\n19 +exclusive +waits for 18 +web19 .*\nand 5 more; %-%-all shows them\n", output)
        assert.equal(25, (lines_of "--all"))
        assert.equal("web24", json_of("who", "--json", path).contenders[25].identity)
    end)

    it("says that a lock without a node is free", function()
        local path = fixture.path()
        assert.equal(path .. "  missing  -\n", (output_of("who", path)))
    end)
end)

describe("a lock that may not be read", function()
    after_each(fixture.clean)

    it("may be held: who, ls, revoke and break exit with 122, and do not call it free", function()
        local auth = { { scheme = "digest", credential = "one:secret" } }
        local owner = fixture.client { auth = auth, acl = "creator", session_timeout = 60 }
        local path = fixture.path()
        local lock = owner:mutex(path)
        assert(lock:acquire(20))
        for _, words in ipairs { { "who", path }, { "who", "--json", path }, { "revoke", path },
            { "break", path, "--node", "0", "--yes" } } do
            local result = commands.run(words)
            assert.same({ 122, "" }, { result.status, result.output }, words[1])
            assert.equal(("zklock: listing the children of '%s': not authenticated; the credentials of --auth-file or " ..
                "ZKLOCK_AUTH, or the certificate, must fit the ACL\n"):format(path), result.errors)
        end
        local result = commands.run { "ls", path }
        assert.same({ 122, "" }, { result.status, result.output })
        assert.truthy(result.errors:find(path .. " may not be read; the credentials", 1, true), result.errors)
        assert.is_true(lock:held())
    end)
end)

describe("zklock why", function()
    after_each(fixture.clean)

    it("says that nobody holds", function()
        local path = fixture.path()
        assert.equal(("Nobody holds %s.\n"):format(path), output_of("why", path))
    end)

    it("says who holds, whether the holder lives, what it waits for itself, and who queues", function()
        local top = fixture.directory()
        local path, other = top .. "/a", top .. "/b"
        local client = fixture.client { identity = "web3:4711" }
        assert(client:mutex(path):acquire(20))
        fixture.join(other, nil, "web4:1")
        fixture.join(other, nil, "web3:4711") -- another session of the same program
        for index = 1, 6 do
            fixture.join(path, nil, "waiter " .. index)
        end
        eventually(function() -- the servers have told which sessions are connected
            local text = output_of("why", "--below", top, path)
            return text:find("Its session is connected, from 127.0.0.1:", 1, true), text
        end)
        local lines = output_of("why", "--below", top, path)
        assert.truthy(lines:find "^web3:4711 has held %S+ for %d+[%d.]* %a+%. ", lines)
        assert.truthy(lines:find("It waits itself for " .. other .. ".\n", 1, true), lines)
        assert.truthy(lines:find("\n6 in the queue, in this order: waiter 1 (", 1, true), lines)
        assert.truthy(lines:find(", and 1 more.\n", 1, true), lines)
        assert.is_nil(lines:find("deadlock", 1, true))
        local hint = "\nHow long the queue takes is known only from a log of holds, by --log: zklock watch --log FILE keeps one.\n"
        assert.truthy(lines:find(hint, 1, true), lines)
        assert.is_nil(output_of("why", "--below", top, "--log", "/dev/null", path):find("takes is known", 1, true))
    end)

    it("names programs that wait for each other, in sentences and as JSON", function()
        local top = fixture.directory()
        local one, two = top .. "/a", top .. "/b"
        fixture.join(one, nil, "web3")
        fixture.join(two, nil, "web4")
        fixture.join(one, nil, "web4")
        fixture.join(two, nil, "web3")
        local said = ("A deadlock, unless one of them waits in a thread of its own: web3 holds %s and waits for %s; " ..
            "web4 holds %s and waits for %s. One has to give up"):format(one, two, two, one)
        assert.truthy(output_of("why", "--below", top, one):find(said, 1, true))
        local answer = json_of("why", "--json", "--below", top, two)
        assert.same({ { program = "web4", waits_for = one }, { program = "web3", waits_for = two } }, answer.deadlock)
        assert.same({ two, 1 }, { answer.lock.path, answer.lock.holders })
        assert.equal("string", type(answer.sentences[1]))
        local shown = output_of("who", "--below", top, "--no-sessions", one)
        assert.truthy(shown:find(("\ndeadlock web3 holds %s and waits for %s; web4 holds"):format(one, two), 1, true), shown)
        assert.same(answer.deadlock, json_of("who", "--json", "--below", top, two).deadlock)
    end)
end)

describe("zklock resize", function()
    after_each(fixture.clean)

    it("changes how many permits a semaphore has, for programs that name the old number", function()
        local path = fixture.path()
        local slots = fixture.client():semaphore(path, 2)
        assert(slots:acquire { count = 2, timeout = 20 })
        local _, errors = output_of("resize", path, "3")
        assert.truthy(errors:find(path .. " has 3 permits", 1, true), errors)
        assert(fixture.client():semaphore(path, 2):acquire(20))
        assert.same({ path = path, permits = 4 }, json_of("resize", "--json", path, "4"))
        assert.truthy(output_of("ls", path):find("3 of 4", 1, true))
    end)

    it("says whether no semaphore was there, and makes none of another lock", function()
        local path = fixture.path()
        local _, errors = output_of("resize", path, "3")
        assert.truthy(errors:find("No semaphore was there", 1, true), errors)
        local mutex = fixture.client():mutex(path .. "/mutex")
        assert(mutex:acquire(20))
        local answer = commands.run { "resize", mutex:path(), "3" }
        assert.equal(125, answer.status)
        assert.truthy(answer.errors:find("is no semaphore", 1, true), answer.errors)
        assert(mutex:release())
    end)

    it("exits with 125 for a number that no semaphore can have", function()
        for _, wrong in ipairs { "0", "1.5", "three" } do
            assert.equal(125, commands.run({ "resize", fixture.path(), wrong }).status)
        end
    end)
end)

describe("zklock revoke", function()
    after_each(fixture.clean)

    it("asks the holders, of each kind of lock", function()
        local revoked = {}
        local function options(name)
            return { on_revoke = function()
                revoked[#revoked + 1] = name
            end }
        end
        local client = fixture.client()
        local mutex, read, slots = fixture.path(), fixture.path(), fixture.path()
        local one, two = client:mutex(mutex, options "mutex"), client:rwlock(read, options "read").read
        local three = client:semaphore(slots, 2, options "semaphore")
        assert(one:acquire(20) and two:acquire(20) and three:acquire(20))
        for index, path in ipairs { mutex, read, slots } do
            assert.equal(1, json_of("revoke", "--json", path).asked)
            fixture.pump_until(client, function()
                return revoked[index]
            end)
        end
        assert.same({ "mutex", "read", "semaphore" }, revoked)
    end)

    it("names the holders before it asks, and what zklock run does by default; the holder keeps its name", function()
        local path = fixture.path()
        local holder = commands.start { "run", "--identity", "web3", path, "-c", "echo begun; read -r line" }
        assert.equal("begun", holder:line())
        for _ = 1, 2 do
            local _, errors = output_of("revoke", path)
            assert.truthy(errors:find("asking web3", 1, true) and errors:find("to release " .. path, 1, true), errors)
            assert.truthy(errors:find("a zklock run ignores that, unless it has --on-revoke stop", 1, true), errors)
            eventually(function()
                local contender = json_of("who", "--json", path).contenders[1]
                return contender.revoked and contender.identity == "web3", contender.identity
            end)
        end
        assert.truthy(output_of("who", path):find("web3 (asked to release)", 1, true))
        holder:tell "end"
        assert.equal(0, holder:finish().status)
    end)

    it("says when nobody holds", function()
        local path = fixture.path()
        local _, errors = output_of("revoke", path)
        assert.equal(("zklock: there is no node %s: nobody holds this lock\n"):format(path), errors)
        assert(fixture.client():create(path))
        _, errors = output_of("revoke", path)
        assert.equal(("zklock: nobody holds %s\n"):format(path), errors)
    end)
end)

describe("zklock break", function()
    after_each(fixture.clean)

    it("only says what it would do, without --yes", function()
        local path = fixture.path()
        local node = fixture.join(path, nil, "web3:4711")
        fixture.join(path, nil, "web4:1")
        local result = commands.run { "break", path, "--node", "0" }
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("would delete " .. node .. " (web3:4711", 1, true), result.errors)
        assert.truthy(result.errors:find("two may work at the same time", 1, true), result.errors)
        assert.equal(2, #fixture.children(path))
    end)

    it("deletes the node of that number or name, and the next contender holds", function()
        local path = fixture.path()
        local first, second = fixture.join(path), fixture.join(path)
        local object = json_of("break", path, "--node", "0", "--yes", "--json")
        assert.same({ deleted = true, node = first, path = path }, object)
        output_of("break", path, "--node", second:match "[^/]*$", "--yes")
        assert.same({}, fixture.children(path))
    end)

    it("refuses a number that no contender, or more than one, has", function()
        local path = fixture.path()
        for _, name in ipairs { "-__WRIT__0000000005", "-__READ__0000000005" } do
            fixture.observer():create_all(path)
            assert(fixture.observer():create(path .. "/_c_" .. fixture.UUID .. name, "", { ephemeral = true }))
        end
        for _, node in ipairs { "7", "5" } do
            assert.equal(125, commands.run({ "break", path, "--node", node, "--yes" }).status)
        end
        assert.equal(2, #fixture.children(path))
    end)
end)

describe("zklock watch", function()
    after_each(fixture.clean)

    it("writes a line of JSON for each change, until a signal ends it", function()
        local one, two = fixture.path(), fixture.path()
        local watch = commands.start { "watch", one, two }
        local function change()
            return assert(dkjson.decode(watch:line()))
        end
        -- The lock exists at the first reading, or comes after it.
        local first = fixture.join(one, nil, "web3:4711")
        local object = change()
        while object.event ~= "joined" do
            object = change()
        end
        assert.same({ one, "web3:4711", true }, { object.path, object.contender.identity, object.contender.holder })
        fixture.join(one, nil, "web4:1")
        assert.equal("web4:1", change().contender.identity)
        assert(fixture.observer():delete(first))
        assert.same({ "left", "holds" }, { change().event, change().event })
        fixture.join(two, nil, "web5:1")
        object = change()
        while object.event ~= "joined" do
            object = change()
        end
        assert.equal(two, object.path)
        watch:signal "TERM"
        assert.equal(143, watch:finish().status)
    end)
end)

describe("output that cannot be written", function()
    after_each(fixture.clean)

    it("because the disk is full is reported, and is no success", function()
        local path = fixture.path()
        fixture.join(path)
        for _, case in ipairs {
            { 125, "ls", path }, { 125, "who", "--json", path }, { 125, "watch", path }, { 125, "--version" },
            { 125, "completion", "bash" }, { 2, "doctor", "--connect-timeout", "0.2", "--servers", "127.0.0.1:1", path }
        } do
            local code = table.remove(case, 1)
            local line = cluster.command_line(commands.words(case))
            local result = fixture.remember(program.run("full", { "sh", "-c", line .. " >/dev/full" })):finish()
            assert.equal(code, result.status, case[1])
            assert.truthy(result.errors:find("No space left on device", 1, true), case[1] .. result.errors)
        end
    end)

    it("because its reader wants no more is not reported", function()
        local line = cluster.command_line(commands.words { "completion", "bash" })
        local script = "exec 3> >(exit 0); wait $!; " .. line .. " >&3"
        local result = fixture.remember(program.run("closed", { "bash", "-c", script })):finish()
        assert.same({ 125, "" }, { result.status, result.errors })
    end)
end)

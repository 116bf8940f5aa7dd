--- `zklock top` in a terminal: what is on its screen, keys, sizes, and the terminal afterwards.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local terminals = require "spec.support.terminal"

--- Returns a text as a pattern that matches it.
local function escaped(text)
    return (text:gsub("%p", "%%%0"))
end

--- Opens a shell in a terminal, and starts `zklock top` in it. `options` as of commands.words. Returns the terminal.
local function open(path, options)
    local shell = terminals.open { "bash", "--norc", "--noprofile", "-i" }
    shell:type("cd " .. cluster.root)
    shell:type "clear; echo before $((40 + 2))"
    shell:await "before 42"
    shell:type(cluster.command_line(commands.words({ "top", path }, options)) .. "; echo code $?")
    shell:await "zklock top"
    return shell
end

--- Returns how many requests of each kind have passed a proxy: name -> number. Those that keep a session with watches alive are
-- left out, since their number depends on the time.
local function requests(link)
    local counts = link:counts()
    for _, name in ipairs { "ping", "sync", "multi", "replies", "bytes_up", "bytes_down" } do
        assert(counts[name])
        counts[name] = nil
    end
    return counts
end

--- Returns the age of the only holder on a screen in seconds.
local function age_on(shell)
    return tonumber(shell:screen():match " held +(%d+%.?%d*) s ") or 0
end

--- Waits until the terminal shows the shell again, with the code of `zklock top`, and echoes what is typed.
local function await_shell(shell, code)
    shell:await("\ncode " .. code)
    assert.truthy(shell:screen():find "before 42")
    assert.is_nil(shell:screen():find("q quit", 1, true))
    shell:type "echo echoed $((1 + 1))"
    shell:await "echo echoed .-\nechoed 2"
end

describe("zklock top", function()
    after_each(fixture.clean)

    it("shows locks, follows their changes, and puts the terminal back at the end", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/nightly", nil, "web3:4711")
        local shell = open(top)
        shell:await(escaped(top) .. "/nightly +mutex +held +%d+[%d.]* %a+ +%- +web3:4711")
        fixture.join(top .. "/nightly", nil, "web4:1")
        shell:await "1 locks, 1 held, 1 waiting"
        assert(fixture.observer():delete(node))
        shell:await(escaped(top) .. "/nightly +mutex +held +%d+[%d.]* %a+ +%- +web4:1")
        shell:key "q"
        await_shell(shell, 0)
    end)

    it("says that it does not see any more when it has lost its servers, and that it sees again", function()
        local link, path = fixture.proxy(), fixture.path()
        fixture.join(path, nil, "web3:4711")
        local shell = open(path, { servers = link.address })
        shell:await "mutex +held"
        link:refuse()
        link:cut()
        shell:await "NOT LIVE: as of %d+ s ago, .*mutex +held"
        link:accept()
        eventually(function()
            return not shell:screen():find("NOT LIVE", 1, true)
        end, 60, "the connection")
        shell:await "mutex +held"
    end)

    it("asks the servers for nothing while nothing changes, although the ages grow", function()
        local top = fixture.directory()
        fixture.join(top .. "/nightly", nil, "web3:4711")
        local link = fixture.proxy()
        local shell = open(top, { servers = link.address, variables = { "ZKLOCK_SESSION_TIMEOUT=60" } })
        shell:await "web3:4711"
        local read = requests(link)
        assert.is_true(read.getChildren + read.getChildren2 > 0 and read.getData > 0)
        -- The first reading may still go on, and a busy machine may lose the connection. After that nothing is asked.
        eventually(function()
            local age, before = age_on(shell), requests(link)
            eventually(function()
                return age_on(shell) >= age + 5
            end)
            for kind, count in pairs(requests(link)) do
                if count ~= before[kind] then
                    return false, kind
                end
            end
            return true
        end, 60)
        shell:key "q"
        await_shell(shell, 0)
    end)

    it("shows locks that are new, that end, and that are asked for, wherever they are below the path", function()
        local top = fixture.directory()
        local shell = open(top)
        local node = fixture.join(top .. "/deep/er/nightly", nil, "web3:4711")
        shell:await "/deep/er/nightly +mutex +held .- web3:4711"
        assert(fixture.observer():set(node, "__REVOKE__"))
        shell:await "/deep/er/nightly +mutex +held .- web3:4711 %(asked"
        assert(fixture.observer():delete(node))
        shell:await "/deep/er/nightly +free +free"
        for _, path in ipairs { "/deep/er/nightly", "/deep/er", "/deep" } do
            fixture.observer():delete(top .. path) -- or the server has, because it is a container
        end
        eventually(function()
            return not shell:screen():find("/deep", 1, true)
        end)
        shell:key "q"
        await_shell(shell, 0)
    end)

    it("sorts, chooses and filters by keys", function()
        local top = fixture.directory()
        fixture.join(top .. "/a", nil, "one")
        fixture.join(top .. "/b", nil, "two")
        fixture.join(top .. "/b", nil, "three")
        local shell = open(top)
        shell:await("> " .. escaped(top) .. "/a .-\n +" .. escaped(top) .. "/b ")
        shell:key "?"
        shell:await "r +ask the holders of the chosen lock to release it"
        shell:key "x"
        shell:await "PATH +KIND"
        shell:key "s"
        shell:await("order: waiting.-> " .. escaped(top) .. "/b .-\n +" .. escaped(top) .. "/a ")
        shell:key "Down"
        shell:await("\n> " .. escaped(top) .. "/a ")
        shell:key "/"
        shell:type "two"
        shell:await "1 locks, 1 held, 1 waiting.-filter: two"
        assert.is_nil(shell:screen():find(top .. "/a ", 1, true))
        shell:key "q"
        await_shell(shell, 0)
    end)

    it("shows the queue of the chosen lock, live, and deadlocks", function()
        local top = fixture.directory()
        fixture.join(top .. "/a", nil, "one")
        local node = fixture.join(top .. "/b", nil, "two")
        fixture.join(top .. "/b", nil, "one")
        local shell = open(top)
        shell:await "2 locks, 2 held, 1 waiting"
        fixture.join(top .. "/a", nil, "two")
        shell:await(("DEADLOCKS: 1%%. one holds %s/a and waits for .-/a +mutex +deadlock "):format(escaped(top)))
        shell:key "Enter"
        shell:await "\n0 +exclusive +holds +one .-\n1 +exclusive +waits for 0 +two "
        shell:key "Down"
        shell:await "IDENTITY[^\n]+\n1 +exclusive"
        shell:key "x"
        shell:await "PATH +KIND"
        shell:key "Down"
        shell:key "Enter"
        shell:await "\n0 +exclusive +holds +two .-\n1 +exclusive +waits for 0 +one "
        assert(fixture.observer():delete(node))
        shell:await "/b  mutex  held, 0 waiting.-\n1 +exclusive +holds +one "
        assert.is_nil(shell:screen():find("DEADLOCKS", 1, true))
        shell:key "x"
        shell:await "q quit"
        shell:key "q"
        await_shell(shell, 0)
    end)

    it("asks a holder to release, after a question", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/a", nil, "one")
        local shell = open(top)
        shell:await "> .- one"
        shell:key "r"
        shell:await("ask the holders of " .. escaped(top) .. "/a to release it%? y/n")
        shell:key "n"
        shell:await "q quit"
        assert.equal("one", (fixture.observer():get(node)))
        shell:key "r"
        shell:await "y/n"
        shell:key "y"
        shell:await "asked 1 holders"
        eventually(function()
            return fixture.observer():get(node) == "__REVOKE__"
        end)
        shell:key "q"
        await_shell(shell, 0)
    end)

    it("fits every size", function()
        local top = fixture.directory()
        for index = 1, 30 do
            fixture.join(("%s/lock-%02d"):format(top, index), nil, "holder")
        end
        local shell = open(top)
        shell:await "lock%-30"
        shell:resize(60, 10)
        shell:await "lock%-06[^\n]*\nq quit"
        assert.is_nil(shell:screen():find("lock-07", 1, true))
        shell:resize(100, 40)
        shell:await "lock%-30"
        shell:key "q"
        await_shell(shell, 0)
    end)

    it("puts the terminal back when a signal ends it", function()
        local shell = open(fixture.directory())
        shell:key "C-c"
        await_shell(shell, 130)
    end)

    it("needs a terminal, and one that is not dumb", function()
        local result = commands.run { "top" }
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("top needs a terminal", 1, true))
        local shell = terminals.open { "bash", "--norc", "--noprofile", "-i" }
        shell:type("cd " .. cluster.root)
        shell:type("TERM=dumb " .. cluster.command_line(commands.words { "top" }) .. "; echo code $?")
        shell:await "top needs a terminal whose cursor it can move.*code 125"
    end)
end)

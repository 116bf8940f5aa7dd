-- The local servers that specs rely on: what starts, disturbs and ends them, and the numbers that they begin with.

local socket = require("socket")
local cluster = require("spec.support.cluster")
local eventually = require("spec.support.eventually")
local files = require("spec.support.files")
local ports = require("spec.support.ports")
local proxy = require("spec.support.proxy")
local tool = require("spec.support.tool")
local zk = require("spec.support.zk")

local TOOL = tool.PATH
local shell, variables = tool.shell, tool.variables

-- Returns true if a process has these words in its command line.
local function runs(words)
    local output = cluster.run({"sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"})
    return output:find(words, 1, true) ~= nil
end

-- Runs a shell script as `shell` does. Its tool runs an action of the shell before each line with the code `line`, which has no
-- blanks at its beginning. In the action, $PPID is the process that runs the line. Script and action may keep files in the
-- directory $work.
local function before(line, action, script)
    return shell(("export line=%s action=%s\n"):format(cluster.quote(line), cluster.quote(action)) .. [[
        work=$(mktemp -d) real=$tool tool=$work/tool
        export work real
        cat >"$tool" <<'END'
#!/usr/bin/python3 -I
import linecache, os, runpy, sys
def trace(frame, event, _):
    here = frame.f_code.co_filename, frame.f_lineno
    if event == "line" and here[0] == os.environ["real"] and linecache.getline(*here).strip() == os.environ["line"]:
        os.system(': >"$work/reached"; ' + os.environ["action"])
    return trace
sys.settrace(trace)
runpy.run_path(os.environ["real"], run_name="__main__")
END
        chmod +x "$tool"
        ]] .. script .. [[

        status=$?
        [ -e "$work/reached" ] || { echo "the tool has no such line"; status=99; }
        rm -r "$work"
        exit $status]])
end

describe("tools/zookeeper #once", function()
    local server

    setup(function()
        server = cluster.start()
    end)

    teardown(function()
        server:stop()
    end)

    it("serves when start returns", function()
        assert.equal("standalone", server:mode())
        assert.equal(1, server:leader())
        assert.equal(0, server:watch_count())
        assert.equal(500, tonumber(server:ask("conf"):match("tickTime=(%d+)")))
    end)

    it("starts a server that answers few of the four-letter words", function()
        local few = cluster.start({options = {["4lw.commands.whitelist"] = "srvr"}})
        assert.equal("standalone", few:mode())
        few:stop()
    end)

    it("starts the version that --zookeeper names, and restart changes it", function()
        local version = server:version()
        local named = cluster.start({zookeeper = version})
        assert.equal(version, named:version())
        named:restart(1, version)
        assert.equal(version, named:version())
        for _, words in ipairs({{"start"}, {"restart", "1", "--dir", named.directory}}) do
            local output, status = cluster.run(cluster.words({TOOL}, words, {"--zookeeper", "9.8.7"}))
            assert.same({"tools/zookeeper: no server of version 9.8.7: tools/servers.sh fetches some into build/servers", 1},
                {output, status})
        end
        assert.equal(version, named:version())
        named:stop()
    end)

    it("prints number, process, port, mode and state of each server", function()
        local output = cluster.run({TOOL, "status", "--dir", server.directory})
        assert.equal(server:address():match("%d+$"), output:match("^1 %d+ (%d+) standalone running$"))
    end)

    it("says of a server whose directory is being removed that it has no port, not that it has another server's", function()
        local directory = files.make_directory()
        assert(os.execute(("cd %s && mkdir 1 2 && : >made && echo 39998 >1/port"):format(directory)))
        assert.equal("1 - 39998 - dead\n2 -  - dead", (cluster.run({TOOL, "status", "--dir", directory})))
        assert.equal("127.0.0.1:39998,127.0.0.1:", (cluster.run({TOOL, "connect-string", "--dir", directory})))
        local output, status = cluster.run({TOOL, "ask", "ruok", "2", "--dir", directory})
        assert.equal("tools/zookeeper: server 2 does not answer", output)
        assert.equal(1, status)
        assert(os.execute("rm -r " .. directory))
    end)

    it("protects its directory from other users", function()
        local mode = cluster.run({"stat", "-c", "%a", server.directory})
        assert.equal("700", mode)
    end)

    it("gives separate servers to two callers that start at the same moment", function()
        local output, status = shell("owner=" .. cluster.process_id() .. [[

            file=$(mktemp)
            "$tool" start --owner $owner >"$file" & "$tool" start --owner $owner; wait
            sed 's/^/OTHER_/' "$file"
            rm "$file"]])
        assert.equal(0, status, output)
        local found = variables(output)
        local mine, other = zk.connect(found.ZOOKEEPER), zk.connect(found.OTHER_ZOOKEEPER)
        assert(mine:create("/mine"))
        assert.same({nil, "no_node"}, {other:exists("/mine")})
        mine:close()
        other:close()
        for _, directory in ipairs({found.ZOOKEEPER_DIR, found.OTHER_ZOOKEEPER_DIR}) do
            assert.equal(0, select(2, cluster.run({TOOL, "stop", "--dir", directory})))
            assert.is_false(files.exists(directory))
        end
    end)

    it("gives no port of a server to another one while the server is down", function()
        local port = ports.free()
        local only = ("ZOOKEEPER_PORTS=%d-%d"):format(port, port)
        local output, status = shell("owner=" .. cluster.process_id() .. " export " .. only .. [[

            "$tool" start --owner $owner]])
        assert.equal(0, status, output)
        local found = variables(output)
        assert.equal("127.0.0.1:" .. port, found.ZOOKEEPER)
        local function call(...)
            local words = {TOOL, ...}
            words[#words + 1] = "--dir"
            words[#words + 1] = found.ZOOKEEPER_DIR
            assert.equal(0, select(2, cluster.run(words)))
        end
        call("kill", "1")
        output, status = cluster.run({"env", only, TOOL, "start"})
        assert.equal(1, status)
        assert.matches("no ports are free from " .. port .. " to " .. port, output)
        call("restart", "1")
        call("stop")
        output, status = cluster.run({"env", only, TOOL, "run", "--", "sh", "-c", "echo $ZOOKEEPER"})
        assert.same({"127.0.0.1:" .. port, 0}, {output, status})
    end)

    it("gives the port of servers away whose owner and watchdog were killed", function()
        local port = ports.free()
        local only = ("ZOOKEEPER_PORTS=%d-%d"):format(port, port)
        local output, status = shell("export " .. only .. [[

            sleep 600 >/dev/null 2>&1 & owner=$!
            found=$("$tool" start --owner $owner) && echo "$found" && eval "$found" || exit 1
            read -r watchdog _ <"$ZOOKEEPER_DIR/watchdog" && read -r server _ <"$ZOOKEEPER_DIR/1/pid"
            kill -9 $watchdog $server $owner
            while kill -0 $watchdog || kill -0 $server; do sleep 0.02; done 2>/dev/null
            "$tool" run -- sh -c 'echo $ZOOKEEPER'
            rm -r "$ZOOKEEPER_DIR"]])
        assert.equal(0, status, output)
        assert.equal("127.0.0.1:" .. port, output:match("[^\n]+$"))
    end)

    it("ends a restart whose server ends and leaves no log", function()
        local output, status = shell("owner=" .. cluster.process_id() .. [[

            eval "$("$tool" start --owner $owner)"
            printf '#!/bin/sh\nrm -r "%s/1"\n' "$ZOOKEEPER_DIR" >"$ZOOKEEPER_DIR/remove"
            chmod +x "$ZOOKEEPER_DIR/remove"
            echo "$ZOOKEEPER_DIR/remove" >"$ZOOKEEPER_DIR/1/command"
            "$tool" kill 1 --dir "$ZOOKEEPER_DIR"
            timeout 600 "$tool" restart 1 --dir "$ZOOKEEPER_DIR" 2>&1; status=$?
            "$tool" stop --dir "$ZOOKEEPER_DIR" >/dev/null 2>&1
            rm -rf "$ZOOKEEPER_DIR"
            exit $status]])
        assert.equal(1, status, output)
        assert.matches("server 1 ended", output)
    end)

    it("ends servers and removes their directory when the owner is killed with -9", function()
        local output, status = shell([[
            sleep 600 >/dev/null 2>&1 & owner=$!
            "$tool" start --owner $owner && kill -9 $owner]])
        assert.equal(0, status, output)
        local directory = variables(output).ZOOKEEPER_DIR
        eventually(function() return not files.exists(directory) and not runs(directory) end, 60, "the end of all")
    end)

    it("belongs to the program that called it, unless another owner is given", function()
        local output = shell([[export tool; exec lua5.4 -e 'os.execute(os.getenv("tool") .. " start")']])
        local directory = assert(variables(output).ZOOKEEPER_DIR, output)
        eventually(function() return not files.exists(directory) and not runs(directory) end, 60, "the end of all")
    end)

    it("runs a command with a server around it and exits with the command's status", function()
        local output, status = shell([["$tool" run -- sh -c 'echo "$ZOOKEEPER $ZOOKEEPER_DIR"; exit 7']])
        assert.equal(7, status)
        local address, directory = output:match("^(127%.0%.0%.1:%d+) (%S+)$")
        assert.truthy(address, output)
        assert.is_false(files.exists(directory))
        eventually(function() return not runs(directory) end, 60, "the end of all")
    end)

    for _, case in ipairs({{"TERM", 15}, {"INT", 2}, {"HUP", 1}, {"KILL", 9}}) do
        local signal, number = case[1], case[2]
        it("leaves nothing behind when run gets SIG" .. signal, function()
            -- A shell without job control makes its background jobs ignore SIGINT, and nohup SIGHUP. `env` undoes that.
            local output = shell([[
                file=$(mktemp)
                env --default-signal=INT,HUP,TERM setsid "$tool" run -- \
                    sh -c 'echo "$PPID $$ $ZOOKEEPER_DIR"; exec sleep 600' >"$file" 2>&1 </dev/null &
                until read -r pid command directory <"$file"; do
                    kill -0 $! 2>/dev/null || break
                    sleep 0.02
                done
                kill -]] .. signal .. [[ $pid
                wait $!
                echo "run: $?"
                kill -KILL $command 2>/dev/null
                echo "command: $?"
                cat "$file"
                rm "$file"]])
            local run, command, directory = output:match("run: (%d+)\ncommand: (%d)\n%d+ %d+ (/%S+)$")
            assert.truthy(directory, output)
            assert.equal(128 + number, tonumber(run))
            -- Only SIGKILL gives run no chance to end its command.
            assert.equal(signal == "KILL" and "0" or "1", command)
            eventually(function() return not files.exists(directory) and not runs(directory) end, 60, "the end of all")
        end)
    end

    it("ignores SIGINT if its caller does, and so does its command", function()
        local output, status = shell([[
            env --ignore-signal=INT "$tool" run -- sh -c '
                kill -INT $PPID && kill -INT $$ && "$0" status && exit 7' "$tool"]])
        assert.equal(7, status, output)
        assert.matches("standalone running$", output)
    end)

    it("passes a signal on that comes before run knows its command's process id", function()
        local output, status = before("while child.poll() is None:", "kill -TERM $PPID", [["$tool" run -- sleep 60]])
        assert.equal(143, status, output)
    end)

    it("neither run nor its command is ended by a SIGINT that the caller ignores, however early", function()
        local output, status = before("signal.pthread_sigmask(signal.SIG_SETMASK, mask)", "kill -INT $PPID",
            [[env --ignore-signal=INT "$tool" run -- sh -c 'exit 7']])
        assert.equal(7, status, output)
    end)

    -- A server that ends or begins may do so.
    describe("when a server resets the connection", function()
        local WRITE, READ = "connection.sendall(word.encode())", "while part := connection.recv(65536):"

        -- Asks such a server, and runs one of the tool's lines only after the reset. answer: Lua code for what the server does
        -- with `connection` before.
        local function ask(line, answer)
            return before(line, [[until [ -e "$work/reset" ]; do sleep 0.01; done]], [[
                mkdir "$work/1"
                lua5.4 -e '
                    local work, socket = os.getenv("work"), require("socket")
                    local server = assert(socket.bind("127.0.0.1", 0))
                    local file = assert(io.open(work .. "/1/port.new", "w"))
                    file:write((select(2, server:getsockname())), "\n")
                    file:close()
                    os.rename(work .. "/1/port.new", work .. "/1/port")
                    server:settimeout(100)
                    local connection = assert(server:accept())
                    connection:settimeout(100)
                    connection:setoption("linger", {on = true, timeout = 0})
                    ]] .. answer .. [[

                    connection:close()
                    assert(io.open(work .. "/reset", "w")):close()' &
                until [ -e "$work/1/port" ] || ! kill -0 $!; do sleep 0.02; done
                timeout 100 "$tool" ask srvr --dir "$work"]])
        end

        it("reports that there is no answer, if the reset comes instead of one", function()
            local output, status = ask(READ, [[connection:receive(4)]])
            assert.same({"tools/zookeeper: server 1 does not answer", 1}, {output, status})
        end)

        it("reports that there is no answer, if the reset comes before the question", function()
            local output, status = ask(WRITE, [[repeat socket.sleep(0.01) until io.open(work .. "/reached")]])
            assert.same({"tools/zookeeper: server 1 does not answer", 1}, {output, status})
        end)

        it("prints what comes before a reset in the middle of an answer, and fails", function()
            local output, status = ask(READ, [[connection:receive(4) connection:send("whole\nhal")]])
            local PROBLEM = "server 1 has broken off its answer, or not ended it in time"
            assert.same({"whole\nhal\ntools/zookeeper: " .. PROBLEM, 1}, {output, status})
        end)
    end)

    it("keeps port and data over kill and restart", function()
        local client = zk.connect(server.servers)
        assert(client:create("/kept", "data"))
        local address = server:address()
        server:kill()
        assert.is_nil(server:ask("ruok"))
        server:restart()
        assert.equal(address, server:address())
        assert.equal("data", client:get("/kept"))
        client:delete("/kept")
        client:close()
    end)

    it("holds a paused server's answers until it is resumed", function()
        local client = zk.connect(server.servers)
        server:pause()
        assert.truthy(cluster.run({TOOL, "status", "--dir", server.directory}):match("paused$"))
        local host, port = server:address():match("^(.*):(%d+)$")
        local connection = assert(socket.connect(host, tonumber(port)))
        connection:send("ruok")
        connection:settimeout(0.3)
        assert.same({nil, "timeout"}, {(connection:receive(4)), (select(2, connection:receive(4)))})
        server:resume()
        connection:settimeout(60)
        assert.equal("imok", connection:receive(4))
        connection:close()
        assert.truthy(client:exists("/"))
        client:close()
    end)

    it("reports an error in one line", function()
        local function message_of(...)
            local output, status = cluster.run({"env", ...})
            assert.not_equal(0, status)
            return output
        end
        assert.matches("no \"no%-such%-java\"", message_of("ZOOKEEPER_JAVA=no-such-java", TOOL, "start"))
        assert.matches("no such directory: /nowhere", message_of(TOOL, "status", "--dir", "/nowhere"))
        assert.matches("set ZOOKEEPER_DIR", message_of("-u", "ZOOKEEPER_DIR", TOOL, "stop"))
        assert.matches("no server \"2\"", message_of(TOOL, "kill", "2", "--dir", server.directory))
        assert.matches("invalid choice: 'begin'", message_of(TOOL, "begin"))
        assert.matches("ClassNotFound", message_of("ZOOKEEPER_CLASSPATH=/nowhere", TOOL, "start"))
    end)
end)

describe("tools/zookeeper with three servers #once #long", function()
    local servers, client

    setup(function()
        servers = cluster.start({servers = 3, seed = {["/seeded/below"] = 41}})
        client = zk.connect(servers.servers)
    end)

    teardown(function()
        client:close()
        servers:stop()
    end)

    it("has one leader and two followers", function()
        local modes = {}
        for n = 1, 3 do
            modes[n] = servers:mode(n)
        end
        table.sort(modes)
        assert.same({"follower", "follower", "leader"}, modes)
        assert.equal("leader", servers:mode(servers:leader()))
    end)

    it("gives the seeded numbers", function()
        assert.equal("/seeded/below/x-0000000041", client:create("/seeded/below/x-", "", {sequential = true}))
    end)

    it("elects another leader when the leader is killed, and takes the old one back", function()
        local old = servers:leader()
        assert(client:create("/before"))
        servers:kill(old)
        servers:wait()
        assert.not_equal(old, servers:leader())
        assert.truthy(eventually(function() return client:exists("/before") end))
        servers:restart(old)
        assert.equal("follower", servers:mode(old))
        local returned = zk.connect(servers:address(old))
        assert.truthy(returned:exists("/before"))
        returned:close()
    end)

    it("ends a session through another server than its own", function()
        local leader = servers:leader()
        local victim = zk.connect(servers:address(leader))
        local path = assert(victim:create("/victim", "", {ephemeral = true}))
        local other = zk.connect(servers:address(leader % 3 + 1))
        other:sync()
        assert.is_true(other:kill_session(other:exists(path).ephemeralOwner))
        assert.same({nil, "no_node"}, {other:exists(path)})
        assert.same({nil, "session_expired"}, {victim:exists(path)})
        victim:close()
        other:close()
    end)

    it("can cut a follower off from its leader, but not from its clients", function()
        local leader = servers:leader()
        local follower = leader % 3 + 1
        local link = proxy.between(servers, follower, leader)
        assert.equal(leader, servers:leader())
        local cut_off = zk.connect(servers:address(follower))
        local outside = zk.connect(servers:address(leader))
        assert(cut_off:create("/cut-off"))
        link:stall()
        assert(outside:set("/cut-off", "new"))
        assert.equal("", (cut_off:get("/cut-off")))
        assert.is_true(cut_off:ping())
        link:resume()
        eventually(function() return cut_off:get("/cut-off") == "new" end)
        cut_off:close()
        outside:close()
        link:stop()
        assert.equal("follower", servers:mode(follower))
    end)

    it("does not serve without a majority", function()
        servers:kill(1)
        servers:kill(2)
        eventually(function() return not servers:mode(3) end)
        assert.is_nil(servers:leader())
        servers:restart("all")
        assert.truthy(servers:leader())
    end)
end)

describe("seeds of tools/zookeeper #once", function()
    it("makes the next sequential child get the given number, up to the last possible number", function()
        local server = cluster.start({seed = {["/locks/near"] = 2147483646, ["/past"] = -2147483648, ["/zero"] = 0}})
        local client = zk.connect(server.servers)
        local sequential = {sequential = true}
        assert.equal("/locks/near/x-2147483646", client:create("/locks/near/x-", "", sequential))
        assert.equal("/locks/near/x-2147483647", client:create("/locks/near/x-", "", sequential))
        assert.same({nil, "node_exists"}, {client:create("/locks/near/x-", "", sequential)})
        assert.equal("/past/x--2147483648", client:create("/past/x-", "", sequential))
        assert.equal("/zero/x-0000000000", client:create("/zero/x-", "", sequential))
        assert.same({"locks", "past", "zero", "zookeeper"}, client:children("/"))
        server:restart()
        assert.equal("/past/x--2147483647", client:create("/past/x-", "", sequential))
        client:close()
        server:stop()
    end)

    it("makes the next transaction follow the given number", function()
        local server = cluster.start({zxid = "00200000fffffff0", seed = {["/locks"] = 7}})
        local client = zk.connect(server.servers)
        assert.equal("/locks/x-0000000007", client:create("/locks/x-", "", {sequential = true}))
        local stat = client:exists("/locks/x-0000000007")
        assert.equal("00200000", stat.czxid:sub(1, 8))
        assert.is_true(tonumber(stat.czxid:sub(9), 16) > 0xfffffff0)
        client:close()
        server:stop()
    end)

    it("refuses an invalid path, number or zxid", function()
        local function assert_refused(option, values)
            for _, value in ipairs(values) do
                assert.equal(2, select(2, cluster.run({TOOL, "start", option .. "=" .. value})), value)
            end
        end
        assert_refused("--seed-zxid", {"", "x", "11112222333344445"})
        assert_refused("--seed-sequence", {"locks=1", "/locks", "/locks/=1", "/a//b=1", "/locks=2147483648", "/locks=1.5"})
    end)
end)

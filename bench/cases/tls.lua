--- tls: a whole cycle without TLS, with the option `tls`, and with stunnel beside the program, all against the same server.
--
-- In each round every way is measured once, one after the other; ratios are of the same round.

local compare = require "compare"
local contestants = require "contestants"
local lib = require "lib"
local report = require "report"
local socket = require "socket"

local NAME = "zookeeper.example"

local function run(...)
    local command = string.format(...)
    assert(os.execute("(" .. command .. ") >/dev/null 2>&1"), command)
end

--- Returns a port that was free a moment ago.
local function free_port()
    local listener = assert(socket.bind("127.0.0.1", 0))
    local _, port = listener:getsockname()
    listener:close()
    return math.tointeger(tonumber(port))
end

--- Makes an authority and a certificate for both sides: ca.pem, pair.pem, pair.key, both.pem.
local function make_certificates(directory)
    local key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    run("mkdir -p %s && cd %s && openssl req -x509 %s -days 2 -subj /CN=ca -keyout ca.key -out ca.pem", directory, directory, key)
    run("cd %s && openssl req %s -subj /CN=pair -keyout pair.key -out pair.csr && echo subjectAltName=DNS:%s >pair.ext", directory,
        key, NAME)
    run("cd %s && openssl x509 -req -in pair.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile pair.ext -out pair.pem",
        directory)
    run("cd %s && cat pair.key pair.pem >both.pem", directory)
end

--- Starts a stunnel to an address. Returns its own address and a function that ends it.
local function start_stunnel(directory, to)
    local address = "127.0.0.1:" .. free_port()
    local file = assert(io.open(directory .. "/stunnel.conf", "w"))
    file:write(("foreground = yes\npid =\nsyslog = no\noutput = %s/log\n[zookeeper]\nclient = yes\naccept = %s\nconnect = %s\n" ..
        "CAfile = %s/ca.pem\ncert = %s/pair.pem\nkey = %s/pair.key\nverifyChain = yes\ncheckHost = %s\n"):format(
        directory, address, to, directory, directory, directory, NAME))
    file:close()
    local pipe = assert(io.popen(("stunnel4 %s/stunnel.conf >/dev/null 2>&1 & echo $!"):format(directory)))
    local pid = math.tointeger(tonumber(pipe:read("l")))
    pipe:close()
    for _ = 1, 100 do
        if lib.is_open(address) then
            break
        end
        socket.sleep(0.1)
    end
    return address, function()
        run("kill %d", pid)
    end
end

return function(settings)
    local rounds, count = settings.rounds or (settings.quick and 3 or 12), settings.quick and 500 or 3000
    report.title("TLS: µs a cycle, without contention; medians of %d cycles, median of %d rounds (min..max)", count, rounds)
    if not os.execute("command -v openssl >/dev/null && command -v stunnel4 >/dev/null") then
        report.say("missing: openssl or stunnel4")
        return
    end
    local directory = settings.scratch .. "/tls"
    make_certificates(directory)
    local port = free_port()
    -- Java's second compiler, which servers in production have and tools/zookeeper leaves out, uses the processor's instructions
    -- for AES.
    local cluster = lib.cluster(settings, "--timeout", 120, "--java-option", "-Dznode.container.checkIntervalMs=60000",
        "--java-option", "-XX:TieredStopAtLevel=4", "--option", "secureClientPort=" .. port,
        "--option", "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "--option", "ssl.keyStore.location=" .. directory .. "/both.pem", "--option", "ssl.keyStore.type=PEM",
        "--option", "ssl.trustStore.location=" .. directory .. "/ca.pem", "--option", "ssl.trustStore.type=PEM")
    local secure = "127.0.0.1:" .. port
    local tunnel, stop = start_stunnel(directory, secure)
    local peer = settings.bench .. "/peers/zklock/contestant"
    local ways = {
        { name = "without TLS", servers = cluster.servers, command = { peer } },
        { name = "option tls", servers = secure, command = { "env", "BENCH_TLS=" .. directory, peer } },
        { name = "stunnel", servers = tunnel, command = { peer } }
    }
    for _, way in ipairs(ways) do -- the server warms up
        contestants.run(way, "cycle", way.servers, "/bench-tls-warm-up", count)
    end
    local values = compare.collect(ways, rounds, { "cycle" }, function(way)
        return { cycle = contestants.run(way, "cycle", way.servers, "/bench-tls", count).cycle_us }
    end)
    stop()
    cluster.run("stop")
    local rows = { { "", "cycle, µs", "ratio to the cycle without TLS" } }
    for index, way in ipairs(ways) do
        local its = values[way.name].cycle
        rows[index + 1] = { way.name, lib.spread(its, "%.0f"), lib.spread(lib.ratios(its, values["without TLS"].cycle), "%.2f") }
    end
    report.columns(rows)
end

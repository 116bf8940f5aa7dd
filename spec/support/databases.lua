--- support.databases: a PostgreSQL or a MariaDB for specs, on a socket of its own, which ends with the process that started it.
--
--     local server = databases.start "postgresql"                     -- or "mariadb"
--     local session = server:session()                                -- of psql, or of the client mariadb
--     session:run "CREATE TABLE stock (item bigint, amount bigint)"
--     session:run "SELECT 1, 2"                                       --> { "1|2" }
--     session:prepare("write", "UPDATE stock SET amount = $2 WHERE item = $1")
--     session:execute("write", { "7", "5" })                          --> 0, the number of rows, and {}; or nil and the error
--     server:stop()
--
-- Needs Debian's postgresql or mariadb-server-core and mariadb-client-core: tools/setup.sh databases.

local cluster = require "spec.support.cluster"
local daemon = require "spec.support.daemon"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local program = require "spec.support.program"

local databases = {}
local Server, Session = {}, {}
Server.__index, Session.__index = Server, Session

--- Seconds for the making of a database and the start of its server, on a busy machine.
local START_TIMEOUT = 400

--- What a client prints when it has executed all statements before.
local END = "-- end --"

--- Runs a shell command and returns its output; raises what is missing if the command fails.
local function find(command, what)
    local output, status = cluster.run { "sh", "-c", command }
    assert(status == 0 and output ~= "", what .. " is not installed: tools/setup.sh databases")
    return output
end

-- The two kinds. `server` is a shell script that makes the database in ./data and becomes the server; `stop` the signal that ends
-- it at once; `ready` a line of its log; `client` the words of its client; `finish` makes the client print END. `executing` returns
-- the statements that execute a prepared statement and print "UPDATE n".
local KINDS = {
    postgresql = {
        server = [[
            "$bin/initdb" -D data -U zklock --auth=trust --no-sync --encoding=UTF8 --locale=C &&
            exec "$bin/postgres" -D data -k "$PWD" -c listen_addresses= -c fsync=off]],
        bin = function()
            return find("ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1", "PostgreSQL")
        end,
        stop = "QUIT",
        ready = "database system is ready to accept connections",
        client = function(server)
            -- Not /usr/bin/psql, which chooses a version by the system's servers.
            return { server.bin .. "/psql", "-X", "-A", "-t", "-h", server.directory, "-U", "zklock", "postgres" }
        end,
        prepare = "PREPARE %s AS %s;",
        executing = function(name, values)
            return ("EXECUTE %s(%s);"):format(name, values)
        end,
        finish = "\\echo '" .. END .. "'",
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    },
    mariadb = {
        server = [[
            mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal &&
            exec "$bin" --no-defaults --datadir="$PWD/data" --socket="$PWD/socket" --pid-file="$PWD/pid" --skip-networking \
                --innodb-flush-log-at-trx-commit=0]],
        bin = function()
            return find("PATH=$PATH:/usr/sbin; command -v mariadb >&2 && command -v mariadb-install-db >&2 && command -v mariadbd",
                "MariaDB"):match("[^\n]+$")
        end,
        stop = "KILL",
        ready = "ready for connections",
        client = function(server)
            return { "mariadb", "--no-defaults", "--socket=" .. server.directory .. "/socket", "--user=root", "--batch", "--raw",
                "--skip-column-names", "--unbuffered", "--force", "test" }
        end,
        prepare = "PREPARE %s FROM '%s';",
        executing = function(name, values)
            return ("EXECUTE %s USING %s; SELECT CONCAT('UPDATE ', ROW_COUNT());"):format(name, values)
        end,
        finish = "SELECT '" .. END .. "';",
        -- Not INNODB_TRX: it shows nothing new to a session that reads it more often than ten times a second.
        waiting = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = " ..
            "'INNODB_ROW_LOCK_CURRENT_WAITS'"
    }
}

--- Makes a database and starts its server, as nobody if this process runs as root, which both servers refuse. Returns when the
-- server is ready. `kind`: "postgresql" or "mariadb".
function databases.start(kind)
    local self = setmetatable({ kind = assert(KINDS[kind]) }, Server)
    self.bin = self.kind.bin()
    self.directory = files.make_directory()
    -- Shells ignore SIGQUIT in what they start in the background.
    local words = { "env", "--default-signal=QUIT", "sh", "-c", "cd \"$1\" && bin=$2\n" .. self.kind.server, "sh",
        self.directory, self.bin }
    if cluster.run { "id", "-u" } == "0" then
        local _, status = cluster.run { "chown", "nobody:nogroup", self.directory }
        assert(status == 0)
        for index, word in ipairs { "setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups" } do
            table.insert(words, index, word)
        end
    end
    self.daemon = daemon.start(words, { directory = self.directory, signal = self.kind.stop })
    eventually(function()
        local log = self.daemon:output()
        return log:find(self.kind.ready, 1, true), log
    end, START_TIMEOUT, kind)
    return self
end

--- Ends the server and removes its files. A second call does nothing.
function Server:stop()
    self.daemon:stop()
end

--- Returns a new session, which lives for twenty minutes at most. session:stop() ends it.
function Server:session()
    local words = { "sh", "-c", "exec \"$@\" 2>&1", "sh" }
    for _, word in ipairs(self.kind.client(self)) do
        words[#words + 1] = word
    end
    return setmetatable({ kind = self.kind, program = program.run(words[5], words) }, Session)
end

--- Sends statements. session:answer() then returns what they print.
function Session:send(sql)
    self.program:tell(sql .. (sql:find(";%s*$") and "\n" or ";\n") .. self.kind.finish)
end

--- Returns the lines that the statements sent before have printed; nil and the error's first line if one has failed.
function Session:answer()
    local lines, failure = {}, nil
    for line in function() return self.program:line() end do
        if line == END then
            if failure then
                return nil, failure
            end
            return lines
        end
        failure = failure or line:match("^ERROR.*")
        lines[#lines + 1] = line
    end
    error("the client has ended: " .. table.concat(lines, "\n"))
end

--- Executes statements. Returns as session:answer().
function Session:run(sql)
    self:send(sql)
    return self:answer()
end

--- Prepares a statement for this session.
function Session:prepare(name, sql)
    assert(not sql:find("'", 1, true), "a text in quotes cannot be prepared here")
    assert(self:run(self.kind.prepare:format(name, sql)))
end

--- Sends the execution of a prepared statement. `values`: its parameters, in SQL, in their order.
function Session:send_execution(name, values)
    self:send(self.kind.executing(name, table.concat(values, ", ")))
end

--- Returns the number of rows that the execution sent before has updated, and the lines that it has printed; nil and the error if
-- it has failed.
function Session:updated()
    local lines, failure = self:answer()
    if not lines then
        return nil, failure
    end
    return assert(tonumber(table.remove(lines):match("^UPDATE (%d+)$"))), lines
end

--- Executes a prepared statement. Returns as session:updated().
function Session:execute(name, values)
    self:send_execution(name, values)
    return self:updated()
end

--- Waits until a statement of another session waits for a row that a transaction has locked.
function Session:await_waiting()
    eventually(function()
        return assert(self:run(self.kind.waiting))[1] == "1"
    end, nil, "a statement that waits")
end

function Session:stop()
    self.program:stop()
end

return databases

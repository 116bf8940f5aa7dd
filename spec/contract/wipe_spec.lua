--- A mutex whose server was wiped, or restored from a backup, behind the same address. Sequence numbers and transaction ids begin
-- again, and conclusions from the old data do not count.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local zk = require "spec.support.zk"

--- Seconds of the sessions: a restored server must not end one before the other client has made all its turns.
local SESSION = 300

--- The sequence number that both clients reach, and the path on which they reach it.
local NUMBER = 49
local PATH = "/jobs/nightly"

describe("a mutex whose server loses its data while a client stays #once", function()
    local server, observer

    before_each(function()
        server = cluster.start({ options = { maxSessionTimeout = 1000 * SESSION } })
    end)

    after_each(function()
        fixture.clean()
        if observer then
            observer:close()
            observer = nil
        end
        server:stop()
    end)

    --- Stops the server, changes its data by a shell command, and restarts it; `$DATA` is the data directory.
    local function change_data(command)
        server:kill()
        local data = cluster.quote(server.directory .. "/1/data")
        assert.equal(0, select(2, cluster.run({ "sh", "-c", "DATA=" .. data .. "; set -e; " .. command })))
        server:restart()
    end

    local function last_zxid()
        return tonumber(server:ask("srvr"):match("Zxid: 0x(%x+)"), 16)
    end

    local function number_of(lock)
        return tonumber(lock:node():match("(%d+)$"))
    end

    --- Acquires and releases until an acquisition has that number; that acquisition is kept if `hold`.
    local function turns_until(lock, number, hold)
        repeat
            assert(lock:acquire(20))
            local reached = number_of(lock)
            if reached < number or not hold then
                assert(lock:release())
            end
        until reached >= number
    end

    --- Writes elsewhere until the server's transaction id is higher than `zxid`.
    local function pad(zxid)
        observer = assert(zk.connect(server.servers))
        assert(observer:create("/elsewhere"))
        while last_zxid() <= zxid do
            assert(observer:set("/elsewhere", "x"))
        end
    end

    --- A server that is starting may read half of a connection's first request and no more. The client gives up such a connection
    -- after two thirds of a session.
    local function until_connected(client, sessions)
        eventually(function()
            return client:state() == "connected" and client:stats().sessions == sessions
        end, SESSION)
    end

    --- The first client has had the number; the other client holds by the same number in the new data. The first is not granted.
    local function neither_gets_in(client, lock, sessions)
        local zxid = last_zxid()
        return function()
            local other = fixture.client({ session_timeout = SESSION }, server.servers):mutex(PATH)
            turns_until(other, NUMBER, true)
            assert.equal(NUMBER, number_of(other))
            pad(zxid)
            until_connected(client, sessions)
            local _, _, code = lock:acquire(1)
            assert.is_true(other:held())
            assert.is_false(lock:held())
            assert.equal("timeout", code)
            assert(other:release())
            assert(lock:acquire(20))
        end
    end

    it("is not granted by what was known of the old data", function()
        local client = fixture.client({ session_timeout = SESSION }, server.servers)
        local lock = client:mutex(PATH)
        turns_until(lock, NUMBER)
        local rest = neither_gets_in(client, lock, 2)
        change_data("rm -rf \"$DATA/version-2\"")
        rest()
    end)

    it("is not granted by it either if the session is in the restored backup, and continues", function()
        local client = fixture.client({ session_timeout = SESSION }, server.servers)
        local lock = client:mutex(PATH)
        turns_until(lock, 3)
        change_data("cp -r \"$DATA/version-2\" \"$DATA/backup\"")
        until_connected(client, 1)
        turns_until(lock, NUMBER)
        local rest = neither_gets_in(client, lock, 1)
        change_data("rm -rf \"$DATA/version-2\"; mv \"$DATA/backup\" \"$DATA/version-2\"")
        rest()
    end)
end)

--- The Java program of docs/from/curator.md, and the Python of docs/from/kazoo.md. They run as they are printed there, and wait for
-- a lock of zklock.

local cluster = require "spec.support.cluster"
local documentation = require "spec.support.documentation"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

--- Leads once.
local SELECTOR = [[
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.leader.*;
import org.apache.curator.retry.RetryOneTime;

public class Selector {
    public static void main(String[] arguments) throws Exception {
        try (var client = CuratorFrameworkFactory.newClient(arguments[0], 60000, 60000, new RetryOneTime(100))) {
            client.start();
            var over = new CountDownLatch(1);
            var selector = new LeaderSelector(client, "PATH", new LeaderSelectorListenerAdapter() {
                public void takeLeadership(CuratorFramework leading) {
                    System.out.println("Java leads");
                    over.countDown();
                }
            });
            selector.start();
            over.await();
            selector.close();
        }
    }
}
]]

--- Holds the lock until the other program waits for it. Checks what that program prints when it has got the lock.
local function take_turns(path, name, words, printed)
    local mutex = fixture.client({ session_timeout = 60 }):mutex(path)
    assert(mutex:acquire(20))
    local other = fixture.remember(program.run(name, words))
    eventually(function()
        return #assert(mutex:contenders(20)) == 2
    end)
    assert.is_true(mutex:held())
    assert(mutex:release())
    local result = other:finish()
    assert.same({ printed, 0 }, { result.output, result.status }, result.errors)
end

describe("docs/from/curator.md #once", function()
    after_each(fixture.clean)

    --- Returns the words that run a Java program.
    local function java(source)
        local directory, name = fixture.temporary_directory(), source:match "public class (%w+)" .. ".java"
        files.write(directory .. "/" .. name, source)
        return { "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp",
            cluster.run { "spec/foreign/run", "classpath" }, directory .. "/" .. name, fixture.servers() }
    end

    --- Returns the page's program, with a session that lives on while a busy machine starts Java, and the path that it locks.
    local function turn()
        local source, changed = documentation.block_of("docs/from/curator.md", "java"):gsub("10000, 10000", "60000, 60000")
        assert.equal(1, changed)
        return source .. "\n", source:match('InterProcessMutex%(client, "([^"]+)"%)')
    end

    it("has a Java program that takes turns with zklock", function()
        local source, path = turn()
        take_turns(path, "Turn", java(source), "Java is inside\n")
    end)

    it("says that a LeaderSelector and zklock exclude each other", function()
        local path = fixture.path() -- client:leader holds the mutex of its path (leader_spec.lua)
        take_turns(path, "Selector", java(SELECTOR:gsub("PATH", path)), "Java leads\n")
    end)

    it("has a mutex in Java whose tokens are those of zklock", function()
        local source, path = turn()
        local imports, class = documentation.block_of("docs/from/curator.md", "java", 2):match "^(.-)(class .*)$"
        local count
        source, count = source:gsub("new InterProcessMutex", "new TokenMutex")
        assert.equal(1, count)
        source, count = source:gsub('println%("Java is inside"%)', "println(mutex.token())")
        assert.equal(1, count)
        local lock = fixture.client({ session_timeout = 60 }):mutex(path)
        local function token()
            assert(lock:acquire(20))
            local text = assert(lock:token())
            assert(lock:release())
            return text
        end
        local before = token()
        local result = fixture.remember(program.run("Turn", java(imports .. source .. class .. "\n"))):finish()
        assert.equal(0, result.status, result.errors)
        local between = result.output:match "^(%d+%-0000000000)\n$"
        assert.equal(#before, #assert(between, result.output))
        assert.is_true(before < between and between < token())
    end)
end)

describe("docs/from/kazoo.md #once", function()
    after_each(fixture.clean)

    it("has a lock of kazoo that takes turns with zklock", function()
        local source = documentation.block_of("docs/from/kazoo.md", "python")
        take_turns(source:match('client%.Lock%("([^"]+)"'), "kazoo", { "/usr/bin/python3", "-B", "-c", ([[
import sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1])
client.start(20)
%s
with lock:
    print("Python is inside")
client.stop()
]]):format(source), fixture.servers() }, "Python is inside\n")
    end)
end)

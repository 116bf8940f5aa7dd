--- The Java program of docs/from/curator.md, and the Python of docs/from/kazoo.md. They run as they are printed there, and wait for
-- a lock of zklock.

local cluster = require "spec.support.cluster"
local documentation = require "spec.support.documentation"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

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

    it("has a Java program that takes turns with zklock", function()
        local source = documentation.block_of("docs/from/curator.md", "java")
        local directory = files.make_directory()
        fixture.on_clean(function()
            cluster.run { "rm", "-rf", directory }
        end)
        files.write(directory .. "/Turn.java", source .. "\n")
        take_turns(source:match('InterProcessMutex%(client, "([^"]+)"%)'), "Turn", { "java", "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC", "-Xmx256m", "-cp", cluster.run { "spec/foreign/run", "classpath" }, directory .. "/Turn.java",
            fixture.servers() }, "Java is inside\n")
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

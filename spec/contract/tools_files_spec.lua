--- support.files: what specs read of files.

local files = require "spec.support.files"

describe("files for specs #once", function()
    local open = io.open

    after_each(function()
        io.open = open -- luacheck: ignore 122
    end)

    it("what /proc has of a process that ends before it is read is empty, like that of a process that has ended", function()
        local pipe = io.popen("sleep 100 >/dev/null & echo $!; wait") -- the shell reaps it
        local path = ("/proc/%d/stat"):format(pipe:read("*n"))
        assert.truthy(files.read(path):find("^%d+ %("))
        io.open = function(...) -- luacheck: ignore 122
            local file = open(...)
            assert(os.execute("kill -KILL " .. path:match("%d+")))
            pipe:close()
            return file
        end
        assert.equal("", files.read(path))
        io.open = open -- luacheck: ignore 122
        assert.equal("", files.read(path))
    end)

    it("a file that cannot be read raises", function()
        assert.error_matches(function()
            files.read("/")
        end, "directory")
    end)
end)

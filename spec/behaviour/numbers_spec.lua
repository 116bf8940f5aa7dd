local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

after_each(fixture.clean)

-- The C client numbers its requests, starting at time(). docs/design.md describes what it does at -8, -4 and -2.
describe("the numbers of requests", function()
    it("skip those with a special meaning to the C client: nothing is lost, no answer is wrong #once #real", function()
        local directory = files.make_directory()
        local run
        finally(function()
            if run then
                run:stop()
            end
            os.execute("rm -rf " .. directory)
        end)
        local library = directory .. "/first_time.so"
        assert(os.execute("cc -shared -fPIC -O1 -D_GNU_SOURCE -o " .. library .. " spec/support/first_time.c -ldl"))
        run = program.run("numbered", { "env", "LD_PRELOAD=" .. library, "FIRST_TIME=-2500", program.interpreter(),
            "spec/programs/numbered.lua", fixture.servers(), fixture.directory(), 3, 90 })
        local result = run:finish()
        assert.equal(0, result.status, result.errors)
        local requests, connections = result.output:match("^(%d+) requests, (%d+) connections")
        assert.is_true(tonumber(requests) > 2500, result.output)
        assert.equal(3, tonumber(connections), result.output)
    end)
end)

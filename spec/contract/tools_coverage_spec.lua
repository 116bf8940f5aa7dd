--- tools/linehook.c: the lines of lua/zklock/ that a program runs.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

describe("tools/linehook.c #once", function()
    it("writes each line that has run, of as many files as there are", function()
        local directory = files.make_directory()
        local output, status = cluster.run { "sh", "-ec", [[
            gcc -O2 -fPIC -shared -Wl,-z,nodelete $(pkg-config --cflags lua5.4) -o "$0/linehook.so" tools/linehook.c
            mkdir -p "$0/lua/zklock" "$0/report"
            for number in $(seq 200); do printf 'local a = 1\n\nreturn a\n' >"$0/lua/zklock/$number.lua"; done
            ZKLOCK_COVERAGE=$0/report lua5.4 -e '
                local directory = arg[1]
                assert(package.loadlib(directory .. "/linehook.so", "luaopen_linehook"))()
                for number = 1, 200 do dofile(("%s/lua/zklock/%d.lua"):format(directory, number)) end' - "$0" </dev/null
            cat "$0"/report/*]], directory }
        cluster.run { "rm", "-r", directory }
        assert.equal(0, status, output)
        local expected = {}
        for number = 1, 200 do
            expected[#expected + 1] = ("zklock/%d.lua 1\nzklock/%d.lua 3"):format(number, number)
        end
        assert.equal(table.concat(expected, "\n"), output)
    end)
end)

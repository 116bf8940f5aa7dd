--- tools/private_names.lua: names that begin with "_" are used only by the module that sets them.

local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local files = require "spec.support.files"

describe("tools/private_names.lua #once", function()
    --- Returns what it prints of files with these texts, by their paths, and the exit status.
    local function check(texts)
        local directory, paths = files.make_directory(), {}
        for path, text in pairs(texts) do
            cluster.run { "mkdir", "-p", directory .. "/" .. path:match("^(.*)/") }
            files.write(directory .. "/" .. path, text)
            paths[#paths + 1] = path
        end
        local script = 'lint=$PWD/tools/private_names.lua && cd "$1" && shift && lua5.4 "$lint" "$@"'
        local output, status = cluster.run { "sh", "-c", script, "sh", directory, compat.unpack(paths) }
        cluster.run { "rm", "-r", directory }
        return output, status
    end

    it("names a field and a method of another module", function()
        local output, status = check {
            ["lua/m/one.lua"] = "local one = { _field = 1 }\nfunction one:_method() return self._field end",
            ["lua/m/two.lua"] = 'print("_field", two) -- one._field\nprint(one._field)\none:_method()'
        }
        assert.equal("lua/m/two.lua:2: _field belongs to another module\nlua/m/two.lua:3: _method belongs to another module",
            (output:gsub("\n$", "")))
        assert.equal(1, status)
    end)

    it("takes a file and the folder of its name for one module, and knows all ways to set a field", function()
        assert.same({ "", 0 }, { check {
            ["lua/m/one.lua"] = "one._a, one._b = 1, 2\none.part._c = { _d = one._a == 1 }",
            ["lua/m/one/part.lua"] = "print(one._a, one._b, one._c, one._d)\nfunction one._e(other) return other:_e() end"
        } })
        assert.equal(1, (select(2, check {
            ["lua/m/one.lua"] = "print(one._a == 1, one._a)",
            ["lua/m/two.lua"] = "one._a = 1"
        })))
    end)
end)

--- tools/build.sh, in a directory with only itself and a cmake that writes down how it is called.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local CMAKE = [[
#!/bin/sh
case $1 in
--build) echo "build $*" | sed 's/--build //; s/ -j [0-9]*//' ;;
*)
    for word; do
        case $word in -DZKLOCK_LUA=*) luas=${word#*=} ;; esac
    done
    echo "configure $luas"
    mkdir -p build/lua && : >build/lua/Makefile && echo "ZKLOCK_LUA:STRING=$luas" >build/lua/CMakeCache.txt
    ;;
esac >>"$CALLS"
]]

describe("tools/build.sh #once", function()
    local directory

    before_each(function()
        directory = files.make_directory()
        assert(os.execute(("mkdir %s/tools %s/bin && cp tools/build.sh %s/tools"):format(directory, directory, directory)))
        files.write(directory .. "/bin/cmake", CMAKE)
        assert(os.execute("chmod +x " .. directory .. "/bin/cmake"))
    end)

    after_each(function()
        os.execute("rm -rf " .. directory)
    end)

    --- Returns how cmake is called for these variants, one call a line.
    local function calls_for(variants)
        files.write(directory .. "/calls", "")
        local output, status = cluster.run({ "sh", "-c", ("cd %s && PATH=$PWD/bin:$PATH CALLS=$PWD/calls tools/build.sh %s"):format(
            directory, variants) })
        assert.equal(0, status, output)
        return files.read(directory .. "/calls")
    end

    it("asks only for the Luas that were asked for, now or before", function()
        assert.equal("configure 5.4\nbuild build/lua --target module-5.4\n", calls_for "5.4")
        assert.equal("build build/lua --target module-5.4\n", calls_for "5.4")
        assert.equal("configure 5.4;luajit\nbuild build/lua --target module-luajit\n", calls_for "luajit")
        assert.equal("build build/lua --target module-5.4 module-luajit\n", calls_for "5.4 luajit")
    end)

    it("makes all modules in one build, and other variants in theirs, with the targets that were asked for", function()
        assert.equal("configure 5.1;5.4\nbuild build/lua --target module-5.1 module-5.4\n" ..
            "configure none\nbuild build/c --target simulate scenes\n", calls_for "5.1 c:simulate,scenes 5.4")
    end)
end)

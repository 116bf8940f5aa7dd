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
    mkdir -p build/lua && echo "ZKLOCK_LUA:STRING=$luas" >build/lua/CMakeCache.txt
    [ ! -e fails ] || exit 1
    case $CMAKE_GENERATOR in
    Ninja) : >build/lua/build.ninja ;;
    *) : >build/lua/Makefile ;;
    esac
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

    --- Returns how cmake is called for these variants, one call a line, and the exit status.
    local function build(variants, environment)
        files.write(directory .. "/calls", "")
        local _, status = cluster.run({ "sh", "-c", ("cd %s && %s PATH=$PWD/bin:$PATH CALLS=$PWD/calls tools/build.sh %s"):format(
            directory, environment or "", variants) })
        return files.read(directory .. "/calls"), status
    end

    local function calls_for(variants, environment)
        local calls, status = build(variants, environment)
        assert.equal(0, status)
        return calls
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

    it("configures again after a configuration that failed", function()
        files.write(directory .. "/fails", "")
        local calls, status = build "5.4"
        assert.equal("configure 5.4\n", calls)
        assert.not_equal(0, status)
        os.remove(directory .. "/fails")
        assert.equal("configure 5.4\nbuild build/lua --target module-5.4\n", calls_for "5.4")
    end)

    it("uses Ninja where it is installed, unless another generator is asked for", function()
        files.write(directory .. "/bin/ninja", "#!/bin/sh\n")
        assert(os.execute("chmod +x " .. directory .. "/bin/ninja"))
        calls_for("5.4", "CMAKE_GENERATOR='Unix Makefiles'")
        assert.equal("build/lua/Makefile", (cluster.run({ "sh", "-c", "cd " .. directory .. " && ls build/lua/[Mb]*" })))
        os.remove(directory .. "/build/lua/Makefile")
        calls_for("5.4", "CMAKE_GENERATOR=")
        assert.equal("build/lua/build.ninja", (cluster.run({ "sh", "-c", "cd " .. directory .. " && ls build/lua/[Mb]*" })))
    end)
end)

-- tools/check.sh runs the suites that belong to a file, tools/specs.sh the named specs, and tools/test.sh loses no suite.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local unpack = table.unpack or unpack

-- Runs a shell script in the project's directory.
local function shell(script)
    return cluster.run({ "bash", "-c", "cd " .. cluster.quote(cluster.root) .. " && " .. script })
end

-- Returns the suites that tools/check.sh would run for a file: name -> command.
local function plan(file, lua)
    local output, status = shell(("LUA=%s tools/check.sh --list %s"):format(lua or "lua5.4", file))
    assert.equal(0, status, output)
    local found = {}
    for line in output:gmatch("[^\n]+") do
        local name, command = line:match("^(.*): (.-)$")
        found[name] = command
    end
    return found
end

-- Returns true if one of the commands contains these words.
local function has(commands, words)
    for _, command in pairs(commands) do
        if command:find(words, 1, true) then
            return true
        end
    end
    return false
end

-- Runs suites with tools/test.sh, in a new directory: { name, counter, command }.
local function run(suites)
    local root, directory = shell("pwd; mktemp -d"):match "(.-)\n([^\n]*)"
    local file = assert(io.open(directory .. "/CTestTestfile.cmake", "w"))
    for _, suite in ipairs(suites) do
        file:write(('add_test([==[%s]==] %s/tools/suite [==[%s]==] %s [==[%s]==])\n'):format(suite[1], root, unpack(suite)))
        file:write(("set_tests_properties([==[%s]==] PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 60)\n"):format(suite[1]))
    end
    file:close()
    local output, status = shell("tools/test.sh --in " .. directory)
    shell(("rm -rf %s %s-logs"):format(directory, directory))
    return output, status
end

describe("make check #once", function()
    it("builds the requested Lua, also LuaJIT, and runs contract specs with it", function()
        for lua, variant in pairs({ ["lua5.1"] = "5.1", ["lua5.4"] = "5.4", ["lua5.5"] = "5.5", luajit = "luajit" }) do
            local commands = plan("spec/contract/wipe_spec.lua", lua)
            assert.equal("tools/build.sh " .. variant, commands.build)
            assert.is_true(has(commands, ("tools/specs.sh real --lua %s spec/contract/wipe_spec.lua"):format(lua)))
        end
    end)

    it("refuses an unknown Lua, and does not use another one", function()
        local output, status = shell("make --no-print-directory check LUA=jit FILE=README.md")
        assert.not_equal(0, status)
        assert.matches("no such Lua: jit", output, 1, true)
    end)

    it("runs nginx specs with LuaJIT, whatever Lua is requested", function()
        for _, name in ipairs({ "examples", "faults", "requests" }) do
            local file = ("spec/contract/openresty_%s_spec.lua"):format(name)
            local commands = plan(file, "lua5.4")
            assert.equal("tools/build.sh luajit", commands.build)
            assert.is_true(has(commands, "tools/specs.sh real --lua luajit --tags=nginx " .. file))
        end
    end)

    it("runs specs tagged #real on real servers, with the module for them", function()
        local commands = plan("spec/behaviour/numbers_spec.lua", "lua5.3")
        assert.equal("tools/build.sh 5.3 c:virtual-lua5.3", commands.build)
        assert.is_true(has(commands, "tools/specs.sh real --lua lua5.3 --tags=real spec/behaviour/numbers_spec.lua"))
        commands = plan("spec/behaviour/key_spec.lua")
        assert.equal("tools/build.sh c:virtual-lua5.4", commands.build)
        assert.is_false(has(commands, "specs.sh real"))
    end)

    it("builds one module in virtual time after a change of the engine", function()
        local commands = plan("csrc/lock/permits.c", "lua5.2")
        assert.truthy(commands.build:find("virtual-lua5.2", 1, true))
        assert.equal(1, select(2, commands.build:gsub("virtual%-", "")))
        assert.is_nil(commands.build:find("test_system", 1, true))
        for _, words in ipairs({ "specs.sh virtual --lua lua5.2 spec/behaviour", "build/c/unit/test_lease", "simulate --seeds" }) do
            assert.is_true(has(commands, words), words)
        end
    end)

    local BELONGS = {
        ["spec/conformance/cases_acl.c"] = { "build/c/conformance_simulated", "build/c/conformance_real", "same_programs" },
        ["spec/conformance/world.h"] = { "build/c/conformance_simulated", "build/c/conformance_real", "same_programs" },
        ["spec/unit/fake_server.c"] = { "tools/fuzz.sh 3 fuzz_api fuzz_server" },
        ["tools/locale.sh"] = { "spec/behaviour/token_spec.lua", "build/c/unit/test_token" },
        ["spec/unit/fuzz_names.c"] = { "tools/fuzz.sh 3 fuzz_names" },
        ["spec/unit/real_server.h"] = { "build/c/unit/test_client", "build/c/unit/test_system", "build/c/unit/test_lua_memory" },
        ["spec/unit/real_client.h"] = { "build/c/unit/test_numbers", "build/c/unit/test_shortage" },
        ["spec/campaign/schedule.lua"] = { "spec/campaign/run --size short", "spec/campaign/checker_spec.lua" },
        ["spec/campaign/programs/turns.lua"] = { "spec/campaign/run --size short" },
        ["spec/campaign/programs/curator.lua"] = { "spec/campaign/run --size full" },
        ["spec/programs/sorter.lua"] = { "--tags=real spec/behaviour/multi_order_spec.lua" },
        ["spec/foreign/contender.go"] = { "spec/contract/foreign_spec.lua" },
        ["spec/support/daemon.lua"] = { "spec/contract/docs_fencing_spec.lua", "--lua luajit --tags=nginx" },
        ["spec/support/databases.lua"] = { "spec/contract/docs_fencing_spec.lua" },
        ["docs/fencing.md"] = { "spec/contract/docs_fencing_spec.lua", "spec/behaviour/token_spec.lua", "docs_code_spec.lua" },
        ["spec/support/nginx.lua"] = { "--lua luajit --tags=nginx", "openresty_faults_spec.lua" },
        ["examples/bank.lua"] = { "--filter='the example bank ' spec/contract/examples_spec.lua" },
        ["examples/common.lua"] = { "tools/specs.sh real --lua lua5.4 spec/contract/examples_spec.lua" },
        ["examples/recipes/mutex.lua"] = { "tools/specs.sh real --lua lua5.4 spec/contract/examples_spec.lua" },
        ["examples/seckill/shop.lua"] = { "--tags=nginx spec/contract/openresty_examples_spec.lua" },
        ["examples/stock/buyer.lua"] = { "tools/demo.sh" },
        ["lua/zklock/adapters/openresty.lua"] = { "--lua luajit --tags=nginx", "openresty_faults_spec.lua" },
        ["lua/zklock/adapters/openresty/pump.lua"] = { "--lua luajit --tags=nginx", "openresty_faults_spec.lua" },
        ["lua/zklock/adapters/luv.lua"] = { "spec/contract/loops_waits_spec.lua", "specs.sh virtual" },
        ["lua/zklock/testing/locks.lua"] = { "tools/specs.sh testing --lua", "specs.sh virtual", "docs_code_spec.lua" },
        ["rockspec/zklock-scm-1.rockspec"] = { "spec/contract/packaging_spec.lua", "tools/test-rock.sh" },
        ["lua/zklock/ui/server.lua"] = { "spec/contract/command_ui_spec.lua", "spec/contract/command_ui_server_spec.lua" },
        ["VERSION"] = { "spec/contract/packaging_spec.lua" },
        ["tools/faultproxy.lua"] = { "spec/contract/tools_proxy_spec.lua" },
        ["README.md"] = { "spec/contract/docs_api_spec.lua", "tools/lint.sh docs" }
    }
    for file, expected in pairs(BELONGS) do
        it("runs more than static checks for " .. file, function()
            local commands = plan(file)
            assert.truthy(commands.build, "nothing is built")
            for _, words in ipairs(expected) do
                assert.is_true(has(commands, words), words)
            end
        end)
    end

    it("starts databases for the page with SQL only", function()
        assert.is_false(has(plan("docs/faq.md"), "docs_fencing_spec.lua"))
    end)

    it("does not touch the results of make test", function()
        local output, status = shell([[
            copy=$(mktemp -d)
            trap 'rm -rf "$copy"' EXIT
            mkdir -p "$copy/build/test-logs" && cp -r tools "$copy" && cd "$copy" || exit
            touch build/test-logs/{lint.begun,lint.result}
            tools/check.sh tools/setup.sh && ls build/test-logs | xargs echo left:]])
        assert.equal(0, status, output)
        assert.matches("1 passed, 0 failed\nleft: lint.begun lint.result", output, 1, true)
    end)
end)

describe("make test #once", function()
    it("runs each contract, and the C unit tests under both sanitizers", function()
        local directory = files.make_directory()
        local output, status = shell(("cmake -S . -B %s -DZKLOCK_SUITES=ON"):format(directory))
        assert.equal(0, status, output)
        local suites, wanted = files.read(directory .. "/CTestTestfile.cmake"), {}
        cluster.run({ "rm", "-r", directory })
        for command, properties in suites:gmatch "\nadd_test(%b())\nset_tests_properties(%b())" do
            if properties:find('LABELS "[%w-]+;must;all"') then
                for word in command:gmatch "[%w_./-]+" do
                    wanted[word] = true
                end
            end
        end
        for _, path in ipairs(files.find("spec/contract", "_spec.lua")) do
            assert.is_true(wanted[path], path)
        end
        for _, path in ipairs(files.find("spec/unit", ".c")) do
            local name = path:match "/(test_[%w_]+)%.c$"
            for _, variant in ipairs(name and { "c-tsan", name ~= "test_numbers" and "c-asan" or nil } or {}) do
                assert.is_true(wanted[("build/%s/unit/%s"):format(variant, name)], name)
            end
        end
    end)
end)

describe("tools/specs.sh #once", function()
    it("reports a spec that does not exist, in place of taking it for an option", function()
        local output, status = shell("tools/specs.sh real --filter=x spec/contract/nothing_spec.lua")
        assert.same({ "tools/specs.sh: no such file or directory: spec/contract/nothing_spec.lua", 2 }, { output, status })
    end)
end)

describe("the counts of suites #once", function()
    it("end with the numbers of passed and failed tests, and fail if one has failed", function()
        local output, status = run { { "yes", "status", "true" }, { "no", "status", "false" } }
        assert.equal(1, status)
        assert.matches("not ok: no\n", output, 1, true)
        assert.matches("\n1 passed, 1 failed$", output)
        output, status = run { { "yes", "status", "true" } }
        assert.equal(0, status, output)
        assert.matches("\n1 passed, 0 failed$", output)
    end)

    it("are what busted, cmocka and our own programs print", function()
        local output, status = run {
            { "busted", "busted", "echo '12 successes / 0 failures / 0 errors / 1 pending : 0.5 seconds'" },
            { "cmocka", "cmocka", "echo '[  PASSED  ] 27 test(s).'" },
            { "ours", "ours", "echo 300 passed, 0 failed" }
        }
        assert.equal(0, status, output)
        assert.matches("\n339 passed, 0 failed$", output)
        output, status = run {
            { "busted", "busted", "echo '1 success / 2 failures / 3 errors / 0 pending : 0.5 seconds'; false" },
            { "cmocka", "cmocka", "echo '[  PASSED  ] 1 test(s).'; echo '[  FAILED  ] 4 test(s), listed below:'; false" },
            { "ours", "ours", "echo 1 passed, 5 failed" }
        }
        assert.equal(1, status)
        assert.matches("\n3 passed, 14 failed$", output)
    end)

    it("count a suite as failed if it is killed, fails though its tests pass, or tests nothing", function()
        local output, status = run {
            { "yes", "status", "true" }, { "lost", "status", "kill -9 $$" }, { "unsure", "ours", "echo 5 passed, 0 failed; false" },
            { "idle", "ours", "true" }
        }
        assert.equal(1, status)
        assert.matches("not ok: lost\n", output, 1, true)
        assert.matches("not ok: unsure\n", output, 1, true)
        assert.matches("not ok: idle\n    -- nothing was tested", output, 1, true)
        assert.matches("\n6 passed, 3 failed$", output)
    end)

    it("name what a suite has left out, and count it neither as passed nor as failed", function()
        local spec = os.tmpname() .. "_spec.lua"
        local file = assert(io.open(spec, "w"))
        file:write([[
describe("a browser", function()
    it("is there", function() pending "needs a browser" end)
    pending("is not for this Lua")
end)
]])
        file:close()
        local output, status = run {
            { "yes", "status", "true" },
            { "tool", "status", "left_out 'the tool' 'this system has none'" },
            { "specs", "busted", "lua5.4 $(command -v busted) --output=plainTerminal " .. spec }
        }
        os.remove(spec)
        assert.equal(0, status, output)
        local last = "\nleft out: a browser is there: needs a browser\nleft out: the tool: this system has none\ntook [^\n]*\n"
        assert.matches(last .. "1 passed, 0 failed$", output)
        assert.is_nil(output:find("left out: [^\n]*this Lua"))
    end)

    it("fail if no suite has run", function()
        local output, status = run {}
        assert.equal(1, status)
        assert.matches("\n0 passed, 1 failed$", output)
    end)
end)

describe("tools/lint.sh #once", function()
    --- Runs a check whose analyser finds something, and is of this version.
    local function layout(version)
        return shell(([[
            copy=$(mktemp -d)
            trap 'rm -rf "$copy"' EXIT
            mkdir "$copy/tools" && cp tools/lint.sh "$copy/tools" && cd "$copy" && git init -q && echo >some.c || exit
            printf '#!/bin/sh\n[ "$1" = --version ] && echo Ubuntu clang-format version %s || { echo "a finding"; false; }\n' \
                >tools/clang-format
            chmod 755 tools/clang-format
            PATH=$PWD/tools:$PATH tools/lint.sh layout]]):format(version))
    end

    it("fails if an analyser of the version that counts has found something", function()
        local output, status = layout "14.0.6-1"
        assert.matches("^a finding\nnot ok  layout .*\n0 passed, 1 failed$", output)
        assert.equal(1, status)
    end)

    it("shows what an analyser of another version has found, and does not count it", function()
        assert.same({ "a finding\nleft out: the verdict of lint layout: clang-format is 18.1.3, not 14\n0 passed, 0 failed", 0 },
            { layout "18.1.3" })
    end)
end)

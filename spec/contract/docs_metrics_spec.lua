--- Checks docs/metrics.md: it lists exactly the metrics and the alerts, and its Lua runs. Prometheus's promtool checks the page
-- that zklock.metrics makes, and runs the tests of the alert rules.

local cluster = require "spec.support.cluster"
local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local families = require "zklock.metrics.families"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local metrics = require "zklock.metrics"
local prometheus = require "spec.support.prometheus"
local zklock = require "zklock"

local none, read = documentation.none, docstrings.read_file

describe("docs/metrics.md", function()
    local page = read("docs/metrics.md")

    after_each(fixture.clean)

    --- Returns the first words in backticks of the rows of the tables in a page's section -> the row.
    local function rows_of(section, text)
        local found = {}
        for _, cells in ipairs(documentation.rows(text, section)) do
            for word in cells[1]:gmatch("`([%w_]+)`") do
                found[word] = cells
            end
        end
        return found
    end

    it("lists exactly the metrics, with their types", function()
        local listed, real, problems = rows_of("The metrics", page), {}, {}
        for _, family in ipairs(families.LIST) do
            real[family.name] = true
            if listed[family.name] and listed[family.name][2] ~= family.type then
                problems[#problems + 1] = family.name .. " is a " .. family.type
            end
        end
        none(problems)
        none(documentation.differences("docs/metrics.md", listed, "zklock.metrics.families", real))
    end)

    it("lists exactly the alerts of docs/alerts.yml", function()
        local real = {}
        for name in read("docs/alerts.yml"):gmatch("%- alert: (%w+)") do
            real[name] = true
        end
        assert.truthy(next(real))
        local listed = rows_of("The rules", read("docs/operate/alerts.md"))
        none(documentation.differences("docs/operate/alerts.md", listed, "docs/alerts.yml", real))
    end)

    it("names only existing metrics, as do all other pages, the alerts and the dashboard", function()
        local problems, pages = {}, documentation.pages()
        for _, path in ipairs { "docs/alerts.yml", "docs/grafana.json" } do
            pages[#pages + 1] = path
        end
        for _, path in ipairs(pages) do
            for name in read(path):gmatch("%f[%w_]zklock_%a[%w_]*") do
                local base = name:gsub("_bucket$", ""):gsub("_sum$", ""):gsub("_count$", "")
                if not families.by_name[name] and not families.by_name[base] and name ~= "zklock_metrics" then
                    problems[#problems + 1] = path .. ": " .. name
                end
            end
        end
        none(problems)
    end)

    it("has Lua that runs", function()
        local environment = setmetatable({ client = fixture.client({}, fixture.servers()), metrics = metrics, zklock = {
            path = function(_, key)
                return zklock.path(fixture.directory(), key)
            end
        } }, { __index = _G })
        local ran = 0
        for _, block in ipairs(documentation.code_blocks(page)) do
            if block.language == "lua" then
                ran = ran + 1
                assert(documentation.load_block(block.text, "=docs/metrics.md:" .. block.line, environment))()
            end
        end
        assert.equal(2, ran)
    end)
end)

describe("promtool", function()
    after_each(fixture.clean)

    it("finds no fault in the page", function()
        local client = fixture.client()
        assert(client:mutex(fixture.path(), { metrics = 'odd "name" \\' }):with_lock(function() end, 10))
        local output, status = prometheus.tool({ "check", "metrics" }, metrics.text(client, { ensemble = "main" }))
        assert.same({ "", 0 }, { output, status })
        output, status = prometheus.tool({ "check", "metrics" }, "# TYPE wrongTotal counter\nwrongTotal 1\n")
        assert.is_true(status ~= 0, output)
    end)

    it("finds no fault in the alert rules, each of which fires in a test", function()
        local output, status = prometheus.tool { "check", "rules", "--lint-fatal", "docs/alerts.yml" }
        assert.equal(0, status, output)
        local tests, rules, tested = read("spec/support/alerts_test.yml"), read("docs/alerts.yml"), 0
        for name in rules:gmatch("%- alert: (%w+)") do
            tested = tested + 1
            assert.truthy(tests:find("alertname: " .. name .. "\n        exp_alerts:", 1, true), name .. " fires in no test")
        end
        assert.equal(17, tested)
        local directory = files.make_directory()
        fixture.on_clean(function()
            cluster.run({ "rm", "-rf", directory })
        end)
        local function run(changed)
            files.write(directory .. "/alerts.yml", changed)
            files.write(directory .. "/alerts_test.yml", tests)
            output, status = prometheus.tool { "test", "rules", directory .. "/alerts_test.yml" }
            return status
        end
        assert.equal(0, run(rules), output)
        assert.is_true(run((rules:gsub("> 0.1", "> 0.3"))) ~= 0, output) -- the tests notice a changed threshold
    end)
end)

--- tools/pictures.lua: the rules of the pictures; and what pictures say of the code and of measurements.

local broken_rules = require "tools.pictures"
local docstrings = require "tools.docstrings"
local files = require "spec.support.files"

local read = docstrings.read_file

--- Returns a text in which the first `from` has become `to`.
local function replaced(text, from, to)
    local first, last = text:find(from, 1, true)
    assert.is_truthy(first, from)
    return text:sub(1, first - 1) .. to .. text:sub(last + 1)
end

describe("the rules of the pictures", function()
    local picture = read("docs/pictures/states.svg")

    it("require what a screen reader reads, and colours for dark pages", function()
        assert.same({}, broken_rules(picture))
        for from, problem in pairs {
            ['<title id="title">'] = "has no title",
            ['<desc id="desc">'] = "has no desc",
            ['role="img"'] = "is not described by its title and desc",
            ["(prefers-color-scheme: dark)"] = "has no colours for dark pages"
        } do
            assert.same({ problem }, broken_rules(replaced(picture, from, "")))
        end
        assert.same({ "has no desc" }, broken_rules(replaced(picture, '<desc id="desc">', '<desc id="desc"></desc><desc>')))
    end)

    it("forbid references to something outside", function()
        for _, outside in ipairs { '<a xlink:href="x.html"/>', '<a href = "x.png"/>', "<style>@import 'x.css'</style>",
            "<style>text { fill: url(x.svg#y) }</style>", "<script>1</script>", '<g onclick="f()"/>', "http://example.org/" } do
            local problems = broken_rules(replaced(picture, "</svg>", outside .. "</svg>"))
            assert.matches("^refers to something outside: ", problems[1])
            assert.equal(1, #problems)
        end
    end)
end)

describe("the picture of the layers", function()
    it("names functions that exist", function()
        local sources, count = {}, 0
        for directory, ending in pairs { csrc = ".c", ["lua/zklock"] = ".lua" } do
            for _, path in ipairs(files.find(directory, ending)) do
                sources[#sources + 1] = read(path)
            end
        end
        local text = table.concat(sources)
        for name in read("docs/pictures/layers.svg"):gmatch 'class="code"[^>]*>[%w_]-:?([%w_]+)<' do
            assert.is_truthy(text:find("%f[%w_]" .. name .. "%f[^%w_]"), name)
            count = count + 1
        end
        assert.equal(7, count)
    end)
end)

describe("the picture of overselling", function()
    it("has the numbers that were measured", function()
        local rows = 0
        for sold, oversold in read("docs/pictures/oversell.txt"):gmatch "\nv%d [^\n]- +%d+ +(%d+) +(%d+) +%d+" do
            rows = rows + 1
            for _, name in ipairs { "oversell.svg", "oversell.zh.svg" } do
                local picture = read("docs/pictures/" .. name)
                assert.is_truthy(picture:find("%f[%d]" .. sold .. "%f[%D]"), sold)
                assert.is_truthy(oversold == "0" or picture:find("%f[%d]" .. oversold .. "%f[%D]"), oversold)
            end
        end
        assert.equal(3, rows)
    end)
end)

--- tools/pictures.lua: the pictures are what their programs draw, keep the rules, and can be read.

local broken_rules = require "tools.pictures.rules"
local canvas = require "tools.pictures.canvas"
local cluster = require "spec.support.cluster"
local docstrings = require "tools.docstrings"
local files = require "spec.support.files"

local read = docstrings.read_file

--- Runs the check in a copy of the pictures and their programs, after `change(directory)`. Returns what is printed, and the exit
-- status.
local function check(change)
    local directory = files.make_directory()
    finally(function()
        cluster.run({ "rm", "-r", directory })
    end)
    assert.same({ "", 0 }, { cluster.run({ "sh", "-c", 'mkdir -p "$0/docs" "$0/tools" && cp -r docs/pictures "$0/docs" && '
        .. 'cp -r tools/pictures tools/pictures.lua "$0/tools"', directory }) })
    change(directory .. "/docs/pictures/")
    return cluster.run({ "sh", "-c", "cd \"$0\" && lua5.4 tools/pictures.lua --check", directory })
end

--- Returns a text in which the first `from` has become `to`.
local function replaced(text, from, to)
    local first, last = text:find(from, 1, true)
    assert.is_truthy(first, from)
    return text:sub(1, first - 1) .. to .. text:sub(last + 1)
end

--- Replaces a text in a file.
local function replace(path, from, to)
    files.write(path, replaced(read(path), from, to))
end

describe("the check of the pictures #once", function()
    it("notices a picture that was changed by hand, one that is missing, and one whose source has changed", function()
        local output, status = check(function(directory)
            replace(directory .. "queue.svg", "</svg>", " </svg>")
            cluster.run({ "rm", directory .. "queue.zh.svg" })
            replace(directory .. "oversell.txt", "595", "596")
        end)
        assert.same({ table.concat({
            "docs/pictures/oversell.svg is older than its program: make pictures",
            "docs/pictures/oversell.zh.svg is older than its program: make pictures",
            "docs/pictures/queue.svg is older than its program: make pictures",
            "docs/pictures/queue.zh.svg is older than its program: make pictures"
        }, "\n"), 1 }, { output, status })
    end)
end)

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

describe("the programs of the pictures", function()
    for _, path in ipairs(files.find("tools/pictures", ".lua")) do
        local name = path:match "([^/]+)%.lua$"
        if files.exists(("docs/pictures/%s.svg"):format(name)) then
            it("draw the same in every Lua, in English and in Chinese: " .. name, function()
                local draw = require("tools.pictures." .. name)
                assert.equal(read(("docs/pictures/%s.svg"):format(name)), draw "en")
                assert.equal(read(("docs/pictures/%s.zh.svg"):format(name)), draw "zh")
            end)
        end
    end
end)

describe("the picture of the layers", function()
    it("names functions that exist", function()
        local sources, count = {}, 0
        for _, directory in ipairs { "csrc", "lua/zklock" } do
            for _, path in ipairs(files.find(directory, "")) do
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

describe("a picture's canvas", function()
    --- What is wrong with a picture that `draw(canvas)` draws.
    local function problems(draw)
        local c = canvas.new { language = "en", title = "t", desc = "d" }
        draw(c)
        c:text(20, 190, "the end")
        return c:problems()
    end

    it("accepts texts below each other, beside lines, in and beside boxes", function()
        assert.same({}, problems(function(c)
            local bottom = c:text(20, 20, "above")
            c:text(20, bottom, "below")
            c:line { 10, 10, 10, 100 }
            c:box(100, 20, 100, 40, { lines = { "inside" } })
        end))
    end)

    it("refuses texts that overlap, and texts outside of the picture", function()
        assert.same({ "the text 'two' overlaps 'one'" }, problems(function(c)
            c:text(20, 20, "one")
            c:text(30, 25, "two")
        end))
        assert.same({ "the text 'far' leaves the picture" }, problems(function(c)
            c:text(canvas.WIDTH - 20, 20, "far")
        end))
    end)

    it("refuses a text that is wider than its box", function()
        assert.same({ "the text 'wide words' crosses the border of a box" }, problems(function(c)
            c:box(100, 20, 40, 40, { lines = { "wide words" } })
        end))
    end)

    it("refuses a line through a text, whatever its direction", function()
        for _, line in ipairs { { 10, 30, 200, 30 }, { 25, 10, 25, 100 }, { 10, 10, 60, 60 }, { 60, 10, 10, 60 } } do
            assert.same({ "the text 'words' is crossed by a line" }, problems(function(c)
                c:text(20, 20, "words")
                c:line(line)
            end))
        end
    end)

    it("breaks lines at spaces, and between Chinese characters but not before their punctuation", function()
        local function lines(text, width)
            local c = canvas.new { language = "zh", title = "t", desc = "d" }
            c:text(20, 20, text, { width = width })
            local list = {}
            for index, line in ipairs(c.texts) do
                list[index] = line.text
            end
            return list
        end
        assert.same({ "one two", "three" }, lines("one two three", 60))
        assert.same({ "锁被释", "放。" }, lines("锁被释放。", 56))
        assert.same({ "持有者 A", "释放锁" }, lines("持有者 A 释放锁", 62))
    end)
end)

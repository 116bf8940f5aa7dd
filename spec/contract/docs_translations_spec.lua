--- Tests tools/translations.lua, which finds pages in Chinese whose originals have changed; and the code of these pages.

local cluster = require "spec.support.cluster"
local documentation = require "spec.support.documentation"
local docstrings = require "tools.docstrings"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local translations = require "tools.translations"

describe("the check of translations", function()
    local directory, page

    before_each(function()
        directory = files.make_directory()
        page = directory .. "/docs/zh/start.md"
        fixture.on_clean(function()
            cluster.run { "rm", "-rf", directory }
        end)
        cluster.run { "mkdir", "-p", directory .. "/docs/zh" }
        files.write(directory .. "/docs/start.md", "# Start\n")
        files.write(directory .. "/program.lua", "return 1\n")
        files.write(page, "# 入门\n\n<!-- original: ../start.md 0 -->\n<!-- original: ../../program.lua 0 -->\n\n正文。\n")
        assert.same({}, translations.check({ page }, true))
    end)

    after_each(fixture.clean)

    it("finds nothing after the hashes were written, and the page is the same otherwise", function()
        assert.same({}, translations.check { page })
        assert.equal("# 入门\n\n<!-- original: ../start.md X -->\n<!-- original: ../../program.lua X -->\n\n正文。\n",
            (files.read(page):gsub("%x%x%x%x%x+", "X")))
    end)

    it("names the page, and the original that has changed, with the command that shows the change", function()
        local hash = translations.originals(page)[1].hash
        files.write(directory .. "/docs/start.md", "# Start here\n")
        assert.same({ ("%s: look at it again, %s/docs/start.md has changed: git diff %s %s/docs/start.md"):format(page, directory,
            hash:sub(1, 12), directory) }, translations.check { page })
        assert.same({}, translations.check({ page }, true))
        assert.same({}, translations.check { page })
    end)

    it("names originals that do not exist, and pages without an original", function()
        cluster.run { "rm", directory .. "/program.lua" }
        local missing = { ("%s: there is no %s/program.lua"):format(page, directory) }
        assert.same(missing, translations.check { page })
        assert.same(missing, translations.check({ page }, true))
        files.write(page, "# 入门\n")
        assert.same({ page .. ": names no original" }, translations.check { page })
    end)

    it("fails as a command, and says how to note that a page fits", function()
        files.write(directory .. "/program.lua", "return 2\n")
        local output, status = cluster.run { "lua5.4", "tools/translations.lua", "check", page }
        assert.equal(1, status)
        assert.truthy(output:find(page .. ": look at it again", 1, true), output)
        cluster.run { "lua5.4", "tools/translations.lua", "write", page }
        assert.equal(0, select(2, cluster.run { "lua5.4", "tools/translations.lua", "check", page }))
    end)
end)

describe("the pages in Chinese", function()
    -- So what a spec does with the code of docs/tutorial.md holds for docs/zh/start.md.

    --- Returns code without remarks, which may be in Chinese, and without blanks at the ends of lines.
    local function bare(text, language)
        local remark = (language == "lua" or language == "nginx") and "%-%-[ >][^\n]*" or "#[^\n]*"
        return ("\n" .. text .. "\n"):gsub("\n" .. remark, ""):gsub("%s+" .. remark, ""):gsub("%s*\n", "\n")
    end

    --- Returns whether an original has a block: a page as a block of that language or a part of one, another file as a part.
    local function has_block(path, block)
        local text = docstrings.read_file(path)
        local candidates = path:find("%.md$") and documentation.code_blocks(text) or { { language = block.language, text = text } }
        for _, candidate in ipairs(candidates) do
            if candidate.language == block.language and
                bare(candidate.text, block.language):find(bare(block.text, block.language), 1, true) then
                return true
            end
        end
        return false
    end

    it("have the code of their originals, but for remarks, where no spec runs their Lua", function()
        local problems, compared = {}, 0
        for _, page in ipairs(translations.pages()) do
            for _, block in ipairs(documentation.code_blocks(docstrings.read_file(page))) do
                if not block.title and (block.language ~= "lua" or documentation.RUN_ELSEWHERE[page]) then
                    local found = false
                    for _, original in ipairs(translations.originals(page)) do
                        found = found or has_block(original.path, block)
                    end
                    problems[#problems + 1] = not found and ("%s:%d: no original has this block"):format(page, block.line) or nil
                    compared = compared + 1
                end
            end
        end
        documentation.none(problems)
        assert.is_true(compared >= 3, compared)
    end)
end)

--- Tests tools/site.lua, which prepares the pages for MkDocs and checks the site, on small pages; and the site in a browser.

local browser = require "spec.support.browser"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local ports = require "spec.support.ports"
local program = require "spec.support.program"
local site = require "tools.site"
local zklock = require "zklock"

describe("the pages of the site", function()
    it("have links that are relative to the page", function()
        assert.equal("codes.md", site.relative("reference/mutex.md", "reference/codes.md"))
        assert.equal("../guides.md", site.relative("reference/mutex.md", "guides.md"))
        assert.equal("reference/mutex.md#a", site.relative("index.md", "reference/mutex.md#a"))
        assert.equal("examples/bank.lua", site.normal("docs/reference/../../examples/./bank.lua"))
    end)

    it("have lists with a blank line before, and four columns for each level", function()
        local text = "Some:\n- a\n  more of a\n  - b\n\n    more of b\n- c\n\n1. d\n   ```\n  - no list\n   ```\nText.\n    code\n"
        local expected = "Some:\n\n- a\n    more of a\n    - b\n\n        more of b\n- c\n\n"
            .. "1. d\n    ```\n   - no list\n    ```\nText.\n    code\n"
        assert.equal(expected, site.lists(text))
    end)

    it("are left alone in blocks of code", function()
        local text = "Text\n\n```\nSome:\n- a\n  - b\n````\n  - c\n```\n"
        assert.equal(text, site.lists(text))
    end)
end)

describe("the check of columns", function()
    it("finds lines of code of more than 88 columns, of which a Chinese character takes two, and leaves prose alone", function()
        local long = ("x"):rep(88)
        assert.same({}, site.wide(("word "):rep(40) .. "\n\n```lua\n" .. long .. "\n```\n| " .. long .. " |\n"))
        assert.same({ { line = 4, columns = 89 } }, site.wide("a\n\n```lua\n" .. long .. "x\n```\n"))
        assert.same({}, site.wide("```text\n" .. long .. "x\n```\n"))
        assert.same({ { line = 2, columns = 90 } }, site.wide("  ```\n  " .. ("锁"):rep(44) .. "\n  ```\n"))
    end)
end)

describe("the check of the site", function()
    local function problems(pages)
        return site.problems(pages, function(path)
            return path == "style.css"
        end)
    end

    it("finds nothing wrong with links to files, places and other hosts", function()
        assert.same({}, problems {
            ["index.html"] = '<link rel="stylesheet" href="style.css"><a href="a/b.html#there">x</a> <a href="https://x/">y</a>',
            ["a/b.html"] = '<h2 id="there">x</h2> <a href="../index.html">x</a> <a href="..">x</a> <a href="#there">y</a>'
        })
    end)

    it("finds files and places that do not exist", function()
        assert.same({ "a/b.html: there is no ../c.html", "a/b.html: there is no place #nowhere", "index.html: there is no a",
            "index.html: there is no place a/b.html#gone" }, problems {
            ["index.html"] = '<a href="a/b.html#gone">x</a> <a href="a">x</a>',
            ["a/b.html"] = '<a href="../c.html">x</a> <a class="y" href="#nowhere">y</a>'
        })
    end)

    it("finds two sections of one name", function()
        assert.same({ "a.html: two headings 'x'" }, problems { ["a.html"] = "<h2>x</h2> <h2 id=y>x</h2> <h2>y</h2>" })
    end)

    it("finds everything that a browser would fetch from another host", function()
        for _, text in ipairs { '<script src="https://x/y.js"></script>', '<img alt="" src="//x/y.png">',
            '<link rel="preconnect" href="https://x">', '<source srcset="https://x/y.png 2x">',
            "<style>a { b: url(https://x/y) }</style>", '<style>@import "https://x/y.css"</style>',
            '<iframe title="z" src="http://x/"></iframe>' } do
            assert.equal(1, #site.foreign(text), text)
        end
        assert.same({}, site.foreign('<a class="b" href="https://x">y</a> <img src="y.png"> url(data:image/png;base64,x)'))
    end)
end)

--- What is searched for, a part of the address of a result, and what is marked there. Chinese has no blanks between words.
local SEARCHES = {
    { "fencing", "/fencing.html", "fencing" },
    { "lease", "#the-lease", "lease" },
    { "锁", "/zh/start.html", "锁" },
    { "超卖", "/zh/how-to.html", "超卖" },
    { "惊群", "/zh/principles.html", "惊群" },
    { "租约", "/zh/comparison.html", "租约" },
    { "羊群效应怎么办", "/zh/principles.html" },
    { "seckill超卖", "/zh/how-to.html" }
}

--- Types text into the site's search.
local function search(page, text)
    page:evaluate(([[(() => {
        const input = document.querySelector(".md-search__input");
        document.querySelector("#__search").checked = true;
        input.focus();
        input.value = "%s";
        input.dispatchEvent(new Event("keyup", { bubbles: true }));
        input.dispatchEvent(new Event("input", { bubbles: true }));
    })()]]):format(text))
end

describe("the site in a browser #once #long", function()
    after_each(fixture.clean)

    it("fits a narrow screen, finds pages, and fetches nothing from other hosts", function()
        local directory = files.make_directory()
        fixture.on_clean(function()
            cluster.run { "rm", "-rf", directory }
        end)
        local output, status = cluster.run { "env", "SITE_BUILD=" .. directory, "tools/docs.sh", "site" }
        assert.equal(0, status, output)
        assert.matches("url=" .. zklock.VERSION .. "/index.html", files.read(directory .. "/site/index.html"), 1, true)
        local port = ports.free()
        fixture.remember(program.run("http.server", { "/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1",
            "--directory", directory .. "/site", tostring(port) }))
        local address = ("http://127.0.0.1:%d/"):format(port)
        eventually(function()
            return select(2, cluster.run { "curl", "-sfo", "/dev/null", address }) == 0
        end)
        local page = fixture.remember(browser.start())
        page:call("Emulation.setDeviceMetricsOverride", { width = 360, height = 800, deviceScaleFactor = 1, mobile = true })
        page:open(address .. zklock.VERSION .. "/index.html")
        page:await [[document.title.endsWith("zklock") && document.querySelector(".md-version__list a") !== null]]
        assert.is_true(page:evaluate "document.scrollingElement.scrollWidth <= 360")
        for _, case in ipairs(SEARCHES) do
            search(page, "")
            page:await [[document.querySelector(".md-search-result__link") === null]]
            search(page, case[1])
            page:await(([[[...document.querySelectorAll(".md-search-result__link[href*='%s']%s")].some(
                (found) => found.textContent.toLowerCase().includes("%s"))]]):format(
                case[2], case[3] and " mark" or "", case[3] or ""))
        end
        page:open(address .. zklock.VERSION .. "/zh/comparison.html")
        page:await [[document.querySelector("[lang=zh-CN] table") !== null]]
        assert.is_true(page:evaluate "document.scrollingElement.scrollWidth <= 360")
        local fetched = page:evaluate [[performance.getEntriesByType("resource").map((entry) => entry.name).join("\n")]]
        for name in fetched:gmatch("[^\n]+") do
            assert.equal(address, name:sub(1, #address))
        end
        assert.same({}, page.problems)
    end)
end)

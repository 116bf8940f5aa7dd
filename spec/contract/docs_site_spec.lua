--- Tests tools/site.py, which prepares the pages for MkDocs and checks the site, on small pages; and the site in a browser.

local browser = require "spec.support.browser"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local ports = require "spec.support.ports"
local program = require "spec.support.program"
local zklock = require "zklock"

--- Returns what a function of tools/site.py returns for texts; a list as lines.
local function call(name, ...)
    return (cluster.run { "/usr/bin/python3", "-I", "-c", [=[
import runpy, sys
result = runpy.run_path("tools/site.py")[sys.argv[1]](*sys.argv[2:])
print(result if isinstance(result, str) else "\n".join(result), end="")
]=], name, ... })
end

describe("the pages of the site #once", function()
    after_each(fixture.clean)

    it("have lists with a blank line before, and four columns for each level", function()
        local text = "Some:\n- a\n  more of a\n  - b\n\n    more of b\n- c\n\n1. d\n   ```\n  - no list\n   ```\nText.\n    code"
        local expected = "Some:\n\n- a\n    more of a\n    - b\n\n        more of b\n- c\n\n"
            .. "1. d\n    ```\n   - no list\n    ```\nText.\n    code"
        assert.equal(expected, call("lists", text))
    end)

    it("are left alone in blocks of code", function()
        local text = "Text\n\n```\nSome:\n- a\n  - b\n````\n  - c\n```"
        assert.equal(text, call("lists", text))
    end)

    it("have no code of more than 88 columns, of which a Chinese character takes two; prose is left alone", function()
        local long = ("x"):rep(88)
        assert.equal("", call("wide", "a.md", ("word "):rep(40) .. "\n\n```lua\n" .. long .. "\n```\n| " .. long .. " |\n"))
        assert.equal("a.md:4: code of 89 columns, more than 88", call("wide", "a.md", "a\n\n```lua\n" .. long .. "x\n```\n"))
        assert.equal("", call("wide", "a.md", "```text\n" .. long .. "x\n```\n"))
        assert.equal("a.md:2: code of 90 columns, more than 88", call("wide", "a.md", "  ```\n  " .. ("锁"):rep(44) .. "\n  ```\n"))
    end)

    it("have links to files that exist", function()
        local directory = files.make_directory()
        fixture.on_clean(function()
            cluster.run { "rm", "-rf", directory }
        end)
        local output, status = cluster.run { "sh", "-ec", [[
            mkdir "$0/copy" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$0/copy" 2>/dev/null
            cd "$0/copy" && git init --quiet && printf '\n[a](../examples/none.lua) [b](../examples/bank.lua)\n' >>docs/faq.md
            echo '# New' >docs/new.md
            tools/site.py pages "$0/pages"]], directory }
        assert.same({ "docs/faq.md: the link to ../examples/none.lua leads to no page\n" ..
            "docs/new.md: not in the navigation of docs/mkdocs.yml", 1 }, { output, status })
        assert.truthy(files.read(directory .. "/pages/faq.md"):find("(examples/bank.lua.md)", 1, true))
        assert.truthy(files.read(directory .. "/pages/reference/mutex.md"):find("](codes.md)", 1, true))
    end)
end)

describe("the check of the site #once", function()
    --- Checks a site of these pages: path -> text. Returns the problems, a line each.
    local function problems(pages)
        local directory = files.make_directory()
        for path, text in pairs(pages) do
            cluster.run { "mkdir", "-p", (directory .. "/" .. path):match "^(.*)/" }
            files.write(directory .. "/" .. path, text)
        end
        local output, status = cluster.run { "tools/site.py", "check", directory }
        cluster.run { "rm", "-r", directory }
        assert.equal(output == "" and 0 or 1, status)
        return output
    end

    it("finds nothing wrong with links to files, places and other hosts", function()
        assert.equal("", problems {
            ["style.css"] = "",
            ["index.html"] = '<link rel="stylesheet" href="style.css"><a href="a/b.html#there">x</a> <a href="https://x/">y</a>',
            ["a/b.html"] = '<h2 id="there">x</h2> <a href="../index.html">x</a> <a href="..">x</a> <a href="#there">y</a>'
        })
    end)

    it("finds files and places that do not exist", function()
        assert.equal("a/b.html: there is no ../c.html\na/b.html: there is no place #nowhere\nindex.html: there is no d\n" ..
            "index.html: there is no place a/b.html#gone", problems {
            ["index.html"] = '<a href="a/b.html#gone">x</a> <a href="d">x</a>',
            ["a/b.html"] = '<a href="../c.html">x</a> <a class="y" href="#nowhere">y</a>'
        })
    end)

    it("finds two sections of one name", function()
        assert.equal("a.html: two headings 'x'", problems { ["a.html"] = "<h2>x</h2> <h2 id=y>x</h2> <h2>y</h2>" })
    end)

    it("finds everything that a browser would fetch from another host", function()
        for index, text in ipairs { '<script src="https://x/y.js"></script>', '<img alt="" src="//x/y.png">',
            '<link rel="preconnect" href="https://x">', '<source srcset="https://x/y.png 2x">',
            "<style>a { b: url(https://x/y) }</style>", '<style>@import "https://x/y.css"</style>',
            '<iframe title="z" src="http://x/"></iframe>' } do
            local name = index % 2 == 0 and "a.html" or "a.css"
            assert.matches("^" .. name .. ": fetches [htps:]*//x[^\n]*$", problems { [name] = text })
        end
        assert.equal("", problems { ["y.png"] = "",
            ["a.html"] = '<a class="b" href="https://x">y</a> <img src="y.png"> url(data:image/png;base64,x)' })
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

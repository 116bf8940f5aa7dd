--- Tests tools/site.lua, which prepares the pages for MkDocs and checks the site, on small pages.

local site = require "tools.site"

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

describe("the check of the site", function()
    local function problems(pages)
        return site.problems(pages, function(path)
            return path == "style.css"
        end)
    end

    it("finds nothing wrong with links to files, places and other hosts", function()
        assert.same({}, problems {
            ["index.html"] = '<link rel="stylesheet" href="style.css"><a href="a/b.html#there">x</a> <a href="https://x/">y</a>',
            ["a/b.html"] = '<h2 id="there">x</h2> <a href="../index.html">x</a> <a href="#there">y</a>'
        })
    end)

    it("finds files and places that do not exist", function()
        assert.same({ "a/b.html: there is no ../c.html", "a/b.html: there is no place #nowhere",
            "index.html: there is no place a/b.html#gone" }, problems {
            ["index.html"] = '<a href="a/b.html#gone">x</a>',
            ["a/b.html"] = '<a href="../c.html">x</a> <a class="y" href="#nowhere">y</a>'
        })
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

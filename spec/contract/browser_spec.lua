--- The live view in a real browser, in brief: it shows a queue, follows a release, opens a lock, and has no error. tools/browser/
-- has the rest. #once

local browser = require "spec.support.browser"
local commands = require "spec.support.commands"
local fixture = require "spec.support.fixture"

describe("the live view in chromium #once", function()
    after_each(fixture.clean)

    it("shows a queue and follows a release, without an error", function()
        local top = fixture.directory()
        local node = fixture.join(top .. "/a", nil, "<b>one</b>")
        fixture.join(top .. "/a", nil, "two")
        local process = commands.start { "ui", "--listen", "127.0.0.1:0", top }
        local url = assert(process:line())
        local page = fixture.remember(browser.start())
        page:open(url)
        page:await [[document.querySelector("#rows tr td.num").textContent === "1"]]
        page:await [[document.querySelector("#status").dataset.state === "live"]]
        assert.truthy(page:evaluate [[document.querySelector("#rows").textContent]]:find("<b>one</b>", 1, true))
        page:evaluate [[document.querySelector("#rows a").click()]]
        page:await [[document.querySelectorAll("#lanes .lane").length === 2]]
        assert(fixture.observer():delete(node))
        page:await [[document.querySelector("#queue-rows tr").textContent.includes("two")]]
        page:await [[document.querySelector("#ended-rows tr").textContent.includes("<b>one</b>")]]
        assert.same({}, page.problems)
    end)
end)

--- The live view in a real browser, in brief: it shows a queue, follows a release, opens a lock, and has no error. tools/browser/
-- has the rest. #once

local browser = require "spec.support.browser"
local commands = require "spec.support.commands"
local fixture = require "spec.support.fixture"

--- Starts a process that holds the lock as soon as it can. Its session does not depend on what the spec does meanwhile.
local function hold(path, identity)
    return commands.start({ "hold", "--session-timeout", "60", path }, { variables = { "ZKLOCK_IDENTITY=" .. identity } })
end

describe("the live view in chromium #once", function()
    after_each(fixture.clean)

    it("shows a queue and follows a release, without an error", function()
        if not browser.is_there() then
            return pending("needs chromium")
        end
        local page = fixture.remember(browser.start()) -- first: a busy machine may need minutes for that
        local top = fixture.directory()
        local first = hold(top .. "/a", "<b>one</b>")
        assert(first:line()) -- it holds
        hold(top .. "/a", "two")
        local process = commands.start { "ui", "--listen", "127.0.0.1:0", top }
        local url = assert(process:line())
        page:open(url)
        page:await [[document.querySelector("#rows tr td.num").textContent === "1"]]
        page:await [[document.querySelector("#status").dataset.state === "live"]]
        assert.truthy(page:evaluate [[document.querySelector("#rows").textContent]]:find("<b>one</b>", 1, true))
        page:evaluate [[document.querySelector("#rows a").click()]]
        page:await [[document.querySelectorAll("#lanes .lane").length === 2]]
        first:signal "TERM"
        page:await [[document.querySelector("#queue-rows tr").textContent.includes("two")
            && document.querySelector("#queue-rows tr .tag.hold")]]
        page:await [[document.querySelector("#ended-rows tr").textContent.includes("<b>one</b>")]]
        page:evaluate(('location.hash = "#/lock/" + encodeURIComponent("%s/never")'):format(top))
        page:await [[document.querySelector("#lock-tags").textContent.includes("no lock")]]
        page:await [[document.querySelector("#none").textContent.includes("There is no lock")]]
        assert.same({}, page.problems)
    end)
end)

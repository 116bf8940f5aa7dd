--- support.browser: Debian's chromium without a window, for smoke tests: opens a page and evaluates JavaScript in it.
--
-- It speaks the DevTools protocol over a pipe (--remote-debugging-pipe): JSON, each message ends with a zero byte. The tests of the
-- whole page are in tools/browser/, and use a driver that does more.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local json = require "dkjson"
local uv = require "luv"

local browser = {}

local Browser = {}
Browser.__index = Browser

--- Seconds after which a browser that does not answer hangs. On a busy machine it takes a minute to start.
local PATIENCE = 200

function browser.is_there()
    return select(2, cluster.run { "sh", "-c", "command -v chromium" }) == 0
end

--- Runs the loop until a condition holds.
local function run_until(condition, what)
    local late = false
    local timer = uv.new_timer()
    timer:start(PATIENCE * 1000, 0, function()
        late = true
    end)
    while not condition() and not late do
        uv.run "once"
    end
    timer:close()
    assert(not late, "the browser does not answer: " .. what)
end

--- Starts a browser with one page, which is empty.
function browser.start()
    local self = setmetatable({
        profile = files.make_directory(), number = 0, answers = {}, text = "", problems = {}, ended = false,
        to = uv.new_pipe(false), from = uv.new_pipe(false)
    }, Browser)
    -- Chromium leaves files in TMPDIR when a signal ends it.
    local arguments = { "TMPDIR=" .. self.profile, "chromium", "--headless=new", "--remote-debugging-pipe", "--disable-gpu",
        "--no-first-run", "--disable-extensions", "--disable-background-networking", "--user-data-dir=" .. self.profile }
    if cluster.run { "id", "-u" } == "0" then
        arguments[#arguments + 1] = "--no-sandbox"
    end
    self.process = assert(uv.spawn("env", { args = arguments, stdio = { nil, nil, nil, self.to, self.from } }, function()
        self.ended = true
    end))
    self.from:read_start(function(_, chunk)
        self.text = self.text .. (chunk or "")
        for message in self.text:gmatch "([^%z]*)%z" do
            self:take(assert(json.decode(message)))
        end
        self.text = self.text:match "([^%z]*)$"
    end)
    local target = self:call("Target.createTarget", { url = "about:blank" }).targetId
    self.session = self:call("Target.attachToTarget", { targetId = target, flatten = true }).sessionId
    self:call("Runtime.enable", {})
    self:call("Log.enable", {})
    return self
end

--- Takes a message: an answer, or an event. Errors of the page are remembered.
function Browser:take(message)
    if message.id then
        self.answers[message.id] = message
    elseif message.method == "Runtime.exceptionThrown" then
        local details = message.params.exceptionDetails
        self.problems[#self.problems + 1] = details.exception and details.exception.description or details.text
    elseif message.method == "Log.entryAdded" and message.params.entry.level == "error" then
        self.problems[#self.problems + 1] = message.params.entry.text
    end
end

--- Calls a method of the protocol, and returns its result.
function Browser:call(method, parameters)
    self.number = self.number + 1
    local number = self.number
    setmetatable(parameters, { __jsontype = "object" }) -- also if it is empty
    local message = { id = number, method = method, params = parameters, sessionId = self.session }
    self.to:write(json.encode(message) .. "\0")
    run_until(function()
        return self.answers[number] or self.ended
    end, method)
    local answer = assert(self.answers[number], "the browser has ended")
    self.answers[number] = nil
    assert(not answer.error, method .. ": " .. (answer.error and answer.error.message or ""))
    return answer.result
end

function Browser:open(url)
    self:call("Page.navigate", { url = url })
end

--- Returns the value of a JavaScript expression, which may be a promise.
function Browser:evaluate(expression)
    local result = self:call("Runtime.evaluate", { expression = expression, returnByValue = true, awaitPromise = true })
    assert(not result.exceptionDetails, expression)
    return result.result.value
end

--- Waits until an expression is true in the page.
function Browser:await(expression)
    local holds = self:evaluate(([[new Promise((done) => {
        const ends = performance.now() + %d, look = () => {
            let holds = false;
            try { holds = Boolean(%s); } catch {}
            if (holds || performance.now() > ends) done(holds); else setTimeout(look, 50);
        };
        look();
    })]]):format(PATIENCE * 900, expression))
    assert(holds, "does not become true: " .. expression .. "\nThe page: " .. self:evaluate "document.body.innerText")
end

function Browser:stop()
    if not self.stopped then
        self.stopped = true
        if not self.ended then
            self.process:kill "sigterm"
            run_until(function()
                return self.ended
            end, "its end")
        end
        self.to:close()
        self.from:close()
        self.process:close()
        uv.run "nowait"
        -- Its processes end after the first one, and write files until then.
        local others = { "pgrep", "-f", "--", "--user-data-dir=" .. self.profile:gsub("^/", "[/]") }
        eventually(function()
            return cluster.run(others) == ""
        end, PATIENCE, "no process of the browser")
        cluster.run { "rm", "-rf", self.profile }
    end
end

return browser

--- ui.app: the answers to HTTP requests, for any server: the page, its events, a table without JavaScript, login and revoke. No
-- I/O.
--
-- A request is a table: `method`, `query` (what follows the "?", or ""), `header` function(name in lower case), `body` of a POST.
-- An answer is a table: `status`, `headers` (list of { name, value }), `body`; or with `events`, the path of a lock or true for the
-- list: the server then sends the events of a viewer until the model stops.
--
-- There is one path, so the view works below any prefix: the query says what is asked for.

local core = require "zklock.core"
local json = require "dkjson"
local metrics = require "zklock.metrics"
local options = require "zklock.options"
local page = require "zklock.ui.page"
local sha256 = require "zklock.sha256"
local text = require "zklock.text"

local char, floor, format = string.char, math.floor, string.format
local concat, ipairs, os, pairs, setmetatable, tonumber = table.concat, ipairs, os, pairs, setmetatable, tonumber

local HTML, JSON, PLAIN = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"

--- Seconds for which a login is valid, and how many there may be at a time.
local LOGIN, LOGINS = 43200, 64

--- The command has LuaSocket, nginx need not.
local ngx = rawget(_G, "ngx")
local base64 = ngx and ngx.encode_base64 or require("mime").b64

--- The source of an inline element for a content security policy: its hash.
local function source_of(element)
    local content = page:match("<" .. element .. ">(.-)</" .. element .. ">")
    local hash = sha256(content):gsub("%x%x", function(digits)
        return char(tonumber(digits, 16))
    end)
    return format("'sha256-%s'", (base64(hash)))
end

local STYLE, SCRIPT = source_of "style", source_of "script"

local POLICY = format("default-src 'none'; script-src %s; style-src %s; connect-src 'self'; img-src data:; base-uri 'none'; " ..
    "form-action 'none'; frame-ancestors 'none'", SCRIPT, STYLE)

local TAG = format('"%s"', sha256(page):sub(1, 32))

local App = { POLICY = POLICY }
App.__index = App

--- Makes the answers of one model.
--
-- Settings:
--   * `hosts` list of names that a Host header may have, besides addresses and localhost
--   * `random` function() that returns a secret text, different each time; needed with `login` and `revoke`
--   * `login` true: a viewer must have sent a one-time token first (App:new_token)
--   * `on_login` function() that is called when a token was used
--   * `revoke` function(path) that asks the holders of a lock to release it, may wait, and returns how many were asked, or nil and
--     a message; nil: nobody may
--
---@param model table
---@param settings? table
---@return table
function App.new(model, settings)
    settings = settings or {}
    local hosts = {}
    for _, host in ipairs(settings.hosts or {}) do
        hosts[host:lower()] = true
    end
    local self = setmetatable({
        model = model, hosts = hosts, random = settings.random, login = settings.login or false, revoke = settings.revoke or false,
        on_login = settings.on_login, tokens = {}, logins = {}
    }, App)
    if self.revoke then
        self.revoke_token = self.random()
        model.revoke = self.revoke_token
    end
    return self
end

--- Makes a token for one login.
---@return string
function App:new_token()
    local token = self.random()
    self.tokens[sha256(token)] = true
    return token
end

-- Parts of requests ---------------------------------------------------------------------------------------------------

local function decode(value)
    return (value:gsub("+", " "):gsub("%%(%x%x)", function(digits)
        return char(tonumber(digits, 16))
    end))
end

--- Reads "a=1&b" into { a = "1", b = "" }.
local function read_query(query)
    local fields = {}
    for part in query:gmatch "[^&]+" do
        local name, value = part:match "^([^=]*)=?(.*)$"
        fields[decode(name)] = decode(value)
    end
    return fields
end

--- Whether a Host header names this server. A page of another site can make a browser send requests here under that site's name,
-- when the name's address changes; it cannot do so under an address.
function App:knows_host(host)
    host = (host or ""):lower():gsub(":%d+$", "")
    return host == "localhost" or host:find "^%d+%.%d+%.%d+%.%d+$" ~= nil or host:find "^%[[%x:.]+%]$" ~= nil
        or self.hosts[host] == true
end

--- Whether a browser says that a request was made by a page of another site. Older browsers send only the origin of the page.
-- Behind a proxy that is not the Host that arrives here, but must be a name that was given.
local function is_foreign(self, request)
    local site, origin = request.header "sec-fetch-site", request.header "origin"
    if site ~= nil and site ~= "same-origin" and site ~= "none" then
        return true
    elseif origin == nil then
        return false
    end
    local authority = origin:lower():match "^https?://([^/]+)$"
    return authority == nil
        or authority ~= request.header "host":lower() and not self.hosts[(authority:gsub(":%d+$", ""))]
end

-- Answers -------------------------------------------------------------------------------------------------------------

local function answer(status, kind, body, more)
    local headers = {
        { "Content-Type", kind }, { "X-Content-Type-Options", "nosniff" }, { "Referrer-Policy", "no-referrer" },
        { "Cross-Origin-Resource-Policy", "same-origin" }, { "X-Frame-Options", "DENY" },
        { "Content-Security-Policy", kind == HTML and POLICY or "default-src 'none'; frame-ancestors 'none'" }
    }
    local fields = more or { ["Cache-Control"] = "no-store" }
    for name, value in pairs(fields) do
        headers[#headers + 1] = { name, value }
    end
    return { status = status, headers = headers, body = body }
end

local function refuse(status, message, more)
    return answer(status, PLAIN, message .. "\n", more)
end

--- Whether the viewer has logged in.
local function has_login(self, request)
    if not self.login then
        return true
    end
    local cookie = (request.header "cookie" or ""):match "zklock_ui=(%x+)"
    local login = cookie and self.logins[sha256(cookie)]
    return login ~= nil and login > core.now()
end

local function log_in(self, request)
    local token = sha256(options.trimmed(request.body or ""))
    if not self.tokens[token] then
        return refuse(403, "this token is not valid, or was used before")
    end
    self.tokens[token] = nil
    local now, count, oldest = core.now(), 0, nil
    for login, ends in pairs(self.logins) do
        if ends <= now then
            self.logins[login] = nil
        else
            count = count + 1
            oldest = (not oldest or ends < self.logins[oldest]) and login or oldest
        end
    end
    if count >= LOGINS then
        self.logins[oldest] = nil
    end
    local cookie = self.random()
    self.logins[sha256(cookie)] = now + LOGIN
    if self.on_login then
        self.on_login()
    end
    return answer(204, PLAIN, "", {
        ["Cache-Control"] = "no-store",
        ["Set-Cookie"] = format("zklock_ui=%s; HttpOnly; SameSite=Strict; Path=/; Max-Age=%d", cookie, LOGIN)
    })
end

local function ask_to_release(self, request)
    if not self.revoke then
        return refuse(403, "this server only shows locks: it was started without --allow-revoke")
    elseif sha256(request.header "x-zklock-token" or "") ~= sha256(self.revoke_token) then
        return refuse(403, "the token of the page is missing or wrong: load the page again")
    end
    local fields = read_query(request.body or "")
    local path = fields.lock or ""
    if fields.confirm ~= path or not self.model.locks[path] then
        return refuse(400, "the request names no lock that is shown, or does not confirm it")
    end
    local asked, message = self.revoke(path)
    if not asked then
        return refuse(502, message)
    end
    return answer(200, JSON, json.encode { path = path, asked = asked } .. "\n")
end

--- The locks as a table of HTML, for browsers without JavaScript. It reloads itself.
local function table_page(self)
    local list, frame = self.model:list()
    local rows = {}
    for index, lock in ipairs(list) do
        local holders = lock.holders == 0 and "free" or concat(lock.names, ", ")
        if lock.more > 0 then
            holders = format("%s, %d more", holders, lock.more)
        end
        rows[index] = format("<tr><td>%s<td>%s<td>%s<td>%s<td>%d", text.html(text.clean(lock.path, 4096)),
            text.html(lock.kind or "-"),
            text.html(holders), lock.since and text.html(text.duration(frame.now - lock.since)) or "-", lock.waiters)
    end
    local status = frame.state == "connected" and not frame.problem and ""
        or format("<p class=\"notice bad\">ZooKeeper: %s. %s", text.html(frame.state), text.html(frame.problem or ""))
    return answer(200, HTML, format([[<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>zklock</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5">
<style>%s</style><main class="plain"><h1>Locks</h1>%s<p>%d locks, as of %s UTC.%s
<table><thead><tr><th>Lock<th>Kind<th>Held by<th>For<th>Waiting<tbody>%s</table></main>]],
        page:match "<style>(.-)</style>", status, #list, os.date("!%Y-%m-%d %H:%M:%S", floor(frame.read_at or frame.now)),
        frame.read_at and "" or " Nothing has been read yet.", concat(rows)))
end

--- The page. It is the same for all, and has no data.
local function get_page(request)
    local is_known = request.header "if-none-match" == TAG
    return answer(is_known and 304 or 200, HTML, is_known and "" or page, { ETag = TAG, ["Cache-Control"] = "no-cache" })
end

--- Answers with the data for the page.
local function get(self, fields)
    if fields.table then
        return table_page(self)
    elseif fields.metrics then
        return answer(200, metrics.CONTENT_TYPE, self.model:metrics())
    elseif fields.history then
        return answer(200, JSON, self.model:history(fields.lock or ""))
    elseif self.model.viewer_count >= self.model.VIEWERS then -- the header is for the page, which may only ask by HEAD
        return refuse(503, "there are too many viewers", { ["Cache-Control"] = "no-store", ["X-Zklock"] = "full" })
    end
    local response = answer(200, "text/event-stream", nil, { ["Cache-Control"] = "no-store", ["X-Accel-Buffering"] = "no" })
    response.events = fields.lock or true
    return response
end

--- Answers a request.
---@param request table see above
---@return table # answer
function App:respond(request)
    local reads, fields = request.method == "GET" or request.method == "HEAD", read_query(request.query)
    if not self:knows_host(request.header "host") then
        return refuse(421, "this server does not have the name that the request gives it (Host); see --host")
    elseif reads and not (fields.events or fields.table or fields.history or fields.metrics) then
        return get_page(request)
    elseif not reads and (request.method ~= "POST" or not (self.login or self.revoke)) then
        return refuse(405, "only GET", { Allow = "GET, HEAD" })
    elseif is_foreign(self, request) then
        return refuse(403, "requests of other sites are refused")
    elseif not reads and fields.login and self.login then
        return log_in(self, request)
    elseif not has_login(self, request) then
        return refuse(401, "open the address with the token that zklock ui has printed")
    elseif reads then
        return get(self, fields)
    elseif fields.revoke then
        return ask_to_release(self, request)
    end
    return refuse(404, "there is nothing here")
end

return App

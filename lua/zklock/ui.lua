--- ui: the live view of locks, served by nginx. The command `zklock ui` serves the same page without nginx.
--
-- docs/live-view.md describes the page, its limits and its safety. The files: ui/model.lua has what all viewers see,
-- ui/history.lua the lanes, ui/page.lua the page, ui/app.lua the answers to requests; ui/server.lua and ui/nginx.lua serve them.
-- inspect/tree.lua sends the requests to ZooKeeper. tools/browser/ has the tests in a browser.

local node = require "zklock.node"
local options = require "zklock.options"

---@class zklock.ui
local ui = {}

--- Returns a check of a list that is not empty, as of zklock.options.
local function list_of(expected, problem_of)
    return function(value)
        local fits = type(value) == "table" and value[1] ~= nil
        for _, item in ipairs(fits and value or {}) do
            fits = fits and not problem_of(item)
        end
        return fits, fits and value or expected
    end
end

local SCHEMA = {
    paths = { list_of("a list of paths of ZooKeeper", node.read_problem) },
    hosts = { list_of("a list of names", function(host)
        return type(host) ~= "string"
    end) },
    client = { function(value)
        local fits = type(value) == "table" and type(value.pollfd) == "function"
        return fits, fits and value or "a client"
    end }
}

---@class zklock.ViewOptions
---@field paths string[] the locks at these paths and below them are shown
---@field client? zklock.Client the client that reads; default: the only open client of zklock.shared in this worker
-- names under which browsers reach this location, in addition to the server's first `server_name`, addresses and localhost.
-- Requests with other names (Host) are refused.
---@field hosts? string[]

--- Answers an nginx request with the live view of locks: for content_by_lua*. One location is enough: the page asks for its events
-- by the same path. It only reads, and sends ZooKeeper the same requests for any number of viewers. Who may look is up to nginx
-- (`allow`, `auth_basic`).
--
-- Raises an error when called outside a request of nginx, or there is no dkjson.
--
---@param settings zklock.ViewOptions
function ui.serve(settings)
    local read, wrong = options.read(settings, SCHEMA)
    if read and not read.paths then
        wrong = "option 'paths' is missing: a list of paths of ZooKeeper"
    elseif read and not rawget(_G, "ngx") then
        wrong = "there is no nginx here; the command `zklock ui` needs none"
    elseif read and not pcall(require, "dkjson") then
        wrong = "the live view needs the module dkjson: install the rock dkjson or Debian's package lua-dkjson"
    elseif read then
        wrong = require("zklock.ui.nginx").serve(read)
    end
    if wrong then
        error("zklock.ui.serve: " .. wrong, 2)
    end
end

return ui

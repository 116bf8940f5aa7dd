--- ui: the live view of locks, served by nginx. The command `zklock ui` serves the same page without nginx.
--
-- docs/live-view.md describes the page, its limits and its safety.

local error, rawget, require = error, rawget, require

local ui = {}

--- Answers an nginx request with the live view of locks: for content_by_lua*. One location is enough: the page asks for its events by
-- the same path. It only reads, and sends ZooKeeper the same requests for any number of viewers. Who may look is up to nginx
-- (`allow`, `auth_basic`).
--
-- Settings:
--   * `paths` list of paths: the locks at these paths and below them are shown.
--   * `client` the client that reads; default: the only open client of zklock.shared in this worker.
--   * `hosts` list of names under which browsers reach this location, in addition to the server's first `server_name`, addresses and
--     localhost. Requests with other names (Host) are refused.
--
-- @tparam table settings
-- @raise when called outside a request of nginx, or a setting is malformed or missing
function ui.serve(settings)
    if not rawget(_G, "ngx") then
        error("zklock.ui.serve: there is no nginx here; the command `zklock ui` needs none", 2)
    end
    require("zklock.ui.nginx").serve(settings)
    return nil -- no tail call: an error is raised at our caller's level
end

return ui

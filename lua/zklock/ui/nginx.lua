--- ui.nginx: the live view as an answer of nginx: content_by_lua_block { require("zklock.ui").serve { paths = { "/locks" } } }.
--
-- Each worker has its own model, of which a timer handler runs the poller: from the first viewer on, until there was none for IDLE
-- seconds. An event stream ends with its worker, so that a reload does not wait for viewers; browsers then connect again. Who may
-- look is decided by nginx's access rules.

local App = require "zklock.ui.app"
local Model = require "zklock.ui.model"
local semaphore = require "ngx.semaphore"
local shared = require "zklock.shared"
local words = require "zklock.inspect.words"

local ngx = ngx
local concat = table.concat
local format = string.format
local exiting, timer_at = ngx.worker.exiting, ngx.timer.at

--- Seconds without viewers after which a poller ends; for an answer about sessions; between two looks whether the worker exits.
local IDLE, WORD_TIMEOUT, LOOK = 60, 1, 1

local serving = {}

--- client -> paths and hosts as text -> { app =, model = }. Few: each location of nginx.conf has one.
local views = {}

--- Does what zklock.inspect.words.ask does, by a cosocket.
local function ask(address, word, timeout)
    local link = ngx.socket.tcp()
    link:settimeout(timeout * 1000)
    local host = address.host:find ":" and format("[%s]", address.host) or address.host
    local connected, problem = link:connect(host, address.port)
    if not connected then
        return nil, format("%s: %s", address.address, tostring(problem)), words.UNREACHABLE
    end
    link:send(word)
    local text, reason, part = link:receive "*a"
    link:close()
    return words.judge(address, word, text or part or "", reason ~= "timeout")
end

--- Starts the poller of a model. Returns false if nginx starts no timer.
local function start(client, key, model)
    return timer_at(0, function()
        local ok, problem = pcall(model.run, model, IDLE, exiting)
        if not ok then
            ngx.log(ngx.ERR, "zklock: the live view has ended: ", tostring(problem))
            model:stop()
        end
        if views[client] and views[client][key] and views[client][key].model == model then
            views[client][key] = nil
        end
    end)
end

--- The view of these settings in this worker, whose poller runs. nil, message if there can be none.
local function view_of(client, settings)
    local hosts = {}
    for _, host in ipairs(settings.hosts or {}) do
        hosts[#hosts + 1] = host
    end
    local name = ngx.var.server_name
    if name and name ~= "" and name ~= "_" then
        hosts[#hosts + 1] = name
    end
    for other in pairs(views) do
        local state = other:state()
        if not state or state == "closed" then
            views[other] = nil
        end
    end
    local key = concat(settings.paths, "\0") .. "\1" .. concat(hosts, "\0")
    views[client] = views[client] or {}
    local view = views[client][key]
    if view and not view.model.stopped then
        return view
    end
    local able, message = client:desk().adapter.can_call(client) -- a poller needs a Lua VM that lasts
    if not able then
        return nil, message
    end
    local model = Model.new(client, { paths = settings.paths, sessions = function()
        return words.sessions(client:desk().servers, WORD_TIMEOUT, client:desk().has_tls and words.refuse or ask)
    end })
    view = { model = model, app = App.new(model, { hosts = hosts }) }
    if not start(client, key, model) then
        return nil, "nginx starts no timer (lua_max_pending_timers)"
    end
    views[client][key] = view
    return view
end

--- Sends the events of a viewer, until the model or the worker ends, or the viewer has gone.
local function stream(model, path)
    local wakes = semaphore.new(0)
    local viewer = model:add_viewer(path ~= true and path or nil, function()
        if wakes:count() < 1 then
            wakes:post(1)
        end
    end)
    if not viewer then
        ngx.status = 503
        return ngx.say "there are too many viewers"
    end
    ngx.on_abort(function() -- refused without lua_check_client_abort: then a write fails after a while
        model:remove_viewer(viewer)
        ngx.exit(499)
    end)
    ngx.send_headers() -- first: otherwise nginx collects the answer to a request of HTTP/1.0, which a proxy sends
    local sent = ngx.print "retry: 2000\n\n" and ngx.flush(true)
    while sent and not exiting() and not model.stopped and model.viewers[viewer] do
        local message = model:message(viewer)
        if message then
            sent = ngx.print(message) and ngx.flush(true)
        else
            wakes:wait(LOOK)
        end
    end
    model:remove_viewer(viewer)
end

--- Answers the request.
local function answer(client, settings)
    local view, message = view_of(client, settings)
    if not view then
        ngx.status = 503
        return ngx.say(message)
    end
    local headers = ngx.req.get_headers()
    local response = view.app:respond {
        method = ngx.req.get_method(), query = ngx.var.args or "", header = function(name)
            local value = headers[name]
            return type(value) == "table" and value[1] or value
        end
    }
    ngx.status = response.status
    for _, header in ipairs(response.headers) do
        ngx.header[header[1]] = header[2]
    end
    if ngx.req.get_method() == "HEAD" or response.status == 304 then
        return ngx.send_headers()
    elseif response.events then
        return stream(view.model, response.events)
    end
    ngx.header["Content-Length"] = #response.body
    ngx.print(response.body)
end

--- See zklock.ui.serve, which has checked the settings.
---@return string? # what is wrong with the settings
function serving.serve(settings)
    if exiting() then -- on a connection that was kept from before: the next one reaches the next worker
        ngx.status = 503
        ngx.header["Retry-After"] = "1"
        ngx.say "this worker of nginx ends"
        return nil
    end
    local client = settings.client or shared.only()
    if not client then
        return "option 'client' is missing: this worker has no client of zklock.shared, or several"
    end
    answer(client, settings)
    return nil
end

return serving

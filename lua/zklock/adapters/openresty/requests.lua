--- adapters.openresty.requests: which request, and which coroutine of it, is running; and whether they have ended.
--
-- For zklock.adapters.openresty and its part holds. A timer handler is a request, too, and so is a session of the stream module.
-- Each request has a *scope* (csrc/nginx/scope.c), which nginx ends when it frees the request, without any Lua.

local base = require "resty.core.base"
local core = require "zklock.core"
local ffi = require "ffi"

local ngx = ngx
local pairs, pcall, tonumber, type = pairs, pcall, tonumber, type
local running_thread = coroutine.running
local max = math.max
local cast, registry_of_lua = ffi.cast, debug.getregistry()
local get_phase, get_request = ngx.get_phase, base.get_request

local new_scope, IN_STREAM = core.scope, ngx.config.subsystem == "stream"

local VOID, ADDRESS = ffi.typeof("void *"), ffi.typeof("uintptr_t")

local running = {}

-- Requests ------------------------------------------------------------------------------------------------------------

--- Address of a request -> a table about the request. `scope` is false where there are no scopes. `phase` is the phase in which
-- the request was first seen. `context` is its number in nginx's Lua module. When there are more than `room` requests, those
-- that are over are removed.
local requests, request_count, room = {}, 0, 64

--- The key of the same table in ngx.ctx of a request without a scope.
local MARK = {}

--- Whether a request has ended, or was redirected. A request without a scope whose ngx.ctx was assigned counts as running until
-- its place in nginx's table is free, or has another request.
local function is_over(request)
    if not request then
        return true
    elseif request.scope then
        return request.scope:context() ~= request.context
    end
    local context = request.context
    return requests[-context] ~= request or type(registry_of_lua.ngx_lua_ctx_tables[context]) ~= "table"
end
running.is_over = is_over

--- Remembers a request, by its address or, below 0, by its context.
local function remember(key, request)
    if not requests[key] then
        request_count = request_count + 1
    end
    requests[key] = request
    if request_count <= room then
        return request
    end
    request_count = 0
    for known, other in pairs(requests) do
        if is_over(other) then
            requests[known] = nil
        else
            request_count = request_count + 1
        end
    end
    room = max(64, 2 * request_count)
    return request
end

--- The index of an ngx.ctx in nginx's table of all of them, or nil.
local function context_of(ctx)
    for context, table in pairs(registry_of_lua.ngx_lua_ctx_tables) do
        if table == ctx then
            return context
        end
    end
    return nil
end

--- Returns a text that no later request in the same place has: the connection's number, and the request's number in the
-- connection. nil where there is no connection, as in timers. Over HTTP/2 the second number may change during a request.
local function number_of_request()
    local ok, connection, request = pcall(function()
        return ngx.var.connection, ngx.var.connection_requests
    end)
    return ok and connection and connection .. "/" .. (request or "") or nil
end

--- Returns the running request by its ngx.ctx, where there are no scopes. Internal redirects are not noticed there: a lock that was
-- acquired before the redirect ends with the request. A request that has assigned its ngx.ctx is recognised by its number. Without
-- a number such a request looks like a new request, so that its earlier locks end.
local function marked_request(ctx, address)
    if not ctx[MARK] then
        local context, number = context_of(ctx), number_of_request()
        local known = context and requests[-context]
        if not (known and number and known.number == number and known.address == address) then
            known = context and remember(-context, {
                scope = false, phase = get_phase(), context = context, address = address, number = number
            })
        end
        ctx[MARK] = known
    end
    return ctx[MARK]
end

--- The running request or timer handler: a table, the same one each time, until nginx ends or redirects it; nil if there is
-- none.
function running.request()
    local pointer = get_request()
    if pointer == nil then
        return nil
    end
    local address = tonumber(cast(ADDRESS, cast(VOID, pointer)))
    local request = requests[address]
    if request and not is_over(request) then
        return request
    end
    -- This creates ngx.ctx if there was none yet, and with it the scope's context.
    local ctx = ngx.ctx
    local scope, context = new_scope(address, IN_STREAM)
    if not scope then
        return marked_request(ctx, address)
    end
    return remember(address, { scope = scope, phase = get_phase(), context = context })
end

-- Coroutines ----------------------------------------------------------------------------------------------------------

--- nginx's table of all coroutines that it may resume, by their places. A free place has a number, or nil, so that the length of
-- the table means nothing. Coroutines that the program has made by coroutine.create are not in it.
local threads

local function find_threads()
    local thread = running_thread()
    for key, table in pairs(registry_of_lua) do
        if type(key) == "userdata" and type(table) == "table" then
            for _, value in pairs(table) do
                if value == thread then
                    return table
                end
            end
        end
    end
    return nil
end

--- The index of a living coroutine in `threads`, or false.
function running.place_of(thread)
    threads = threads or find_threads()
    for place, other in pairs(threads or {}) do
        if other == thread then
            return place
        end
    end
    return false
end

--- Whether nginx has dropped a coroutine, or nil if it was collected. Never true of coroutines that the program has made: that
-- cannot be detected.
---@param request table which the coroutine belonged to
---@param thread? thread
---@param place? number|boolean of the coroutine, as of running.place_of
function running.is_dropped_thread(request, thread, place)
    if not place then
        return false
    end
    return thread == nil or threads[place] ~= thread or request.scope and not request.scope:has(thread)
end

return running

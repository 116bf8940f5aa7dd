--- zklock ui: shows locks live in a browser.
--
-- Listens on the local machine or on a unix socket unless told otherwise. Elsewhere a viewer must know a token: it is in the part
-- of the printed address that browsers do not send, and can be used once.

local codes = require "zklock.cli.codes"
local looking = require "zklock.cli.looking"
local process = require "zklock.process"
local settings = require "zklock.cli.settings"

local format = string.format

local ADDRESS, PORT = "127.0.0.1", 8420

--- Bytes of a secret.
local SECRET = 16

--- Seconds for one answer about sessions, and for the end of the session.
local WORD_TIMEOUT, CLOSE_TIMEOUT = 1, 5

local ui = { summary = "Show locks, live, in a browser." }

--- Reads "host:port", "port", "[::1]:port" or "unix:/path".
local function read_address(text)
    local path = text:match "^unix:(/.+)$"
    if path then
        return { path = path }
    end
    local host, port = text:match "^%[([%x:.]+)%]:(%d+)$"
    if not host then
        host, port = text:match "^([^:%s]+):(%d+)$"
    end
    if not host then
        host, port = ADDRESS, text:match "^:?(%d+)$"
    end
    port = tonumber(port)
    if not port or port > 65535 then
        return nil, format("'%s' must be an address such as 127.0.0.1:%d, or unix:/path", text, PORT)
    end
    return { host = host == "localhost" and ADDRESS or host, port = port }
end

function ui.define(parser)
    looking.define_paths(parser)
    parser:option "--listen":argname "<addr>":convert(read_address):description(
        format("Where to listen: host:port, or unix:/path (%s:%d). Port 0 is any free one.", ADDRESS, PORT))
    parser:option "--host":argname "<name>":count "*":description(
        "A name under which browsers may reach the server; can be repeated.")
    parser:flag "--allow-revoke":description "Let viewers ask holders to release their locks."
    looking.define_kept_log(parser)
    settings.define(parser)
end

--- Returns a secret text.
local function random()
    local file = assert(io.open("/dev/urandom", "rb"))
    local bytes = assert(file:read(SECRET))
    file:close()
    return (bytes:gsub(".", function(byte)
        return format("%02x", byte:byte())
    end))
end

--- Whether only programs of this machine can reach an address.
local function is_local(address)
    return address.path ~= nil or address.host == "::1" or address.host:find "^127%." ~= nil
end

--- The name of this machine, if an address stands for all addresses of it.
local function name_of(address, uv)
    return address.path == nil and (address.host == "0.0.0.0" or address.host == "::") and uv.os_gethostname() or nil
end

--- The address for a browser.
local function url_of(address, port, name)
    local host = name or address.host:find ":" and format("[%s]", address.host) or address.host
    return format("http://%s:%d/", host, port)
end

--- Has `fn` called with the name of each signal that comes.
local function on_signal(uv, signals, fn)
    local poll = uv.new_poll(signals)
    poll:start("r", function()
        local signal = process.next_signal(signals)
        while signal do
            fn(signal)
            signal = process.next_signal(signals)
        end
    end)
    return poll
end

--- Says where the view is, with a new token if one is needed.
local function announce(context, app, address, port, name)
    local output = context.output
    if address.path then
        output:line(format("listening on the unix socket %s", address.path))
    elseif app.login then
        output:line(format("%s#token=%s", url_of(address, port, name), app:new_token()))
    else
        output:line(url_of(address, port))
    end
    return output:flush()
end

function ui.run(arguments, context)
    local paths = arguments.paths[1] and arguments.paths or { "/" }
    local found, uv = pcall(require, "luv")
    if not found then
        return context:fail(codes.FAILED, "zklock ui needs luv (Debian: lua-luv; rock: luv)")
    end
    local log = looking.open_log(arguments, context)
    local read = context.check(settings.read(arguments))
    local client = context.check(settings.open(read, "luv", 0))
    local App, Model, Server = require "zklock.ui.app", require "zklock.ui.model", require "zklock.ui.server"
    local words = require "zklock.inspect.words"
    local address = arguments.listen or { host = ADDRESS, port = PORT }
    local model = Model.new(client, { paths = paths, log = log, sessions = function()
        return words.sessions(read.servers, WORD_TIMEOUT, read.tls and words.refuse or Server.ask)
    end })
    if model.torn > 0 then
        context:warn("%d lines of %s are torn, and were skipped", model.torn, arguments.log)
    end
    local name, server, port = name_of(address, uv), nil, nil
    local hosts = arguments.host or {}
    hosts[#hosts + 1] = name
    local app = App.new(model, {
        hosts = hosts, random = random, login = not is_local(address),
        on_login = function()
            announce(context, server.app, address, port, name)
        end,
        revoke = arguments.allow_revoke and function(path)
            local state = model.locks[path].state
            if not state or state.holders == 0 then
                return 0
            end
            return require("zklock.cli.locks").revoke(client, state)
        end or nil
    })
    local wrong
    server, wrong = Server.start(app, address, function(text)
        context:warn("%s", context.describe(text))
    end)
    local ended_by
    if server then
        port = server.port
        announce(context, app, address, port, name)
        local poll = on_signal(uv, context.signals, function(signal)
            if codes.ENDING[signal] then
                ended_by = signal
                model:stop()
                uv.stop()
            elseif signal == "TSTP" then
                process.raise("TSTP", false)
            end
        end)
        local poller = coroutine.create(function()
            model:run()
            uv.stop()
        end)
        local ok, problem = coroutine.resume(poller)
        if ok and not model.stopped then
            uv.run()
        end
        wrong = not ok and context.describe(problem) or not ended_by and model.problem or nil
        server:stop()
        poll:close()
    end
    client:close(CLOSE_TIMEOUT)
    if ended_by then
        return codes.of_signal(ended_by)
    elseif not server then
        -- libuv's messages begin with the name of the error: "EADDRINUSE: address already in use".
        local place = address.path or format("%s:%d", address.host, address.port)
        return context:fail(codes.FAILED, "cannot listen at %s: %s", place, (tostring(wrong):gsub("^E%u+: ", "")))
    end
    return context:fail(codes.of(model.problem_code), "%s", tostring(wrong))
end

return ui

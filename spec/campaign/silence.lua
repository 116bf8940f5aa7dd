--- campaign.silence: checks, while a campaign runs, whether a path that several clients share is not granted for long. It then logs
-- the state of servers and clients, which could not be found out later.

local roster = require "spec.campaign.roster"
local tasks = require "spec.campaign.tasks"
local files = require "spec.support.files"

local silence = {}

local format = string.format

local INTERVAL = 1
--- After how long without a grant of a path an entry is written, and after how long the next one, in seconds.
local LONG, AGAIN = 8, 6
--- How many of a client's last records are shown.
local RECORDS = 4
--- This much of the end of a record contains them.
local TAIL = 1000

--- The end of a file from an offset, and the length of the file.
local function tail(name, offset)
    local file = io.open(name)
    if not file then
        return "", offset
    end
    local size = file:seek("end")
    file:seek("set", offset < 0 and math.max(0, size + offset) or offset)
    local text = file:read("*a")
    file:close()
    return text, offset < 0 and size or offset + #text
end

--- path -> the clients that lock it, for paths that several clients lock.
local function shared_paths(list, longest)
    local users, shared = {}, {}
    for _, client in ipairs(list) do
        for path in pairs(roster.paths({ client })) do
            users[path] = users[path] or {}
            table.insert(users[path], client)
        end
    end
    for path, timeout in pairs(roster.paths(list)) do
        shared[path] = users[path][2] and timeout < longest and users[path] or nil
    end
    return shared
end

--- "runs", "is stopped", "has ended".
local function state(process)
    local stat = process.running and files.read(format("/proc/%d/stat", process.pid)):match("%) (%a)")
    return not stat and "has ended" or stat == "T" and "is stopped" or "runs"
end

--- The present faults and their targets.
local function describe_faults(campaign)
    local words = {}
    for fault, from in pairs(campaign.current) do
        words[#words + 1] = format("%s, for %.1f of %.1f%s", fault.kind, tasks.now() - from, fault.seconds,
            fault.of_timeout and " T" or " s")
    end
    for who in pairs(campaign.busy) do
        words[#words + 1] = "to " .. tostring(type(who) == "table" and who.name or who)
    end
    return #words > 0 and table.concat(words, "; ") or "none"
end

--- The nodes of a lock as one server sees them, in order, with their owners. Needs no session, so any server answers.
local function describe_nodes(dump, path)
    local nodes, owner = {}, nil
    for line in dump:gmatch("[^\n]+") do
        owner = line:match("^(0x%x+):") or owner
        local name = line:match("^%s+(/.*)$")
        if name and name:sub(1, #path + 1) == path .. "/" then
            nodes[#nodes + 1] = format("%s of %s", name:sub(#path + 2), owner)
        end
    end
    table.sort(nodes, function(one, other)
        return (one:match("(%d+) of") or one) < (other:match("(%d+) of") or other)
    end)
    return table.concat(nodes, "\n        ")
end

--- The state of a server, the nodes of a lock on it, and the clients that are connected to it.
local function describe_server(servers, number, path)
    local answer = servers:ask(number, "srvr")
    local dump, cons = answer and servers:ask(number, "dump") or "", answer and servers:ask(number, "cons") or ""
    answer = answer or "no answer"
    local sessions = {}
    for address, session, timeout in cons:gmatch("/([%d.]+):%d+%[%d+%]%([^\n]-sid=(0x%x+)[^\n]-to=(%d+)") do
        sessions[#sessions + 1] = format("%s from %s (%d ms)", session, address, timeout)
    end
    return format("    server %d %s: %s, zxid %s\n        %s\n        connected: %s", number, state(servers.processes[number]),
        answer:match("Mode: (%w+)") or answer:match("[^\n]+"), answer:match("Zxid: (%w+)") or "?",
        describe_nodes(dump, path), table.concat(sessions, ", "))
end

--- The nodes of a lock as each server sees them, in order, with their owners, and the clients that are connected.
function silence.describe_path(servers, path)
    local parts = { path .. ":" }
    for number = 1, #servers.names do
        parts[#parts + 1] = describe_server(servers, number, path)
    end
    return table.concat(parts, "\n")
end

local function describe_client(campaign, client)
    local lines = {}
    for _, one in ipairs(campaign.clients:records()) do
        if one.client == client and one.incarnation >= client.incarnation - 1 then
            local records = {}
            for record in tail(one.name, -TAIL):gmatch("[^\n]+") do
                records[#records + 1] = record:find("^n ") and "" or "\n        " .. record
            end
            lines[#lines + 1] = format("    %s.%d (%s, %s) %s:%s", client.name, one.incarnation,
                campaign.topology.addresses[client.name], client.only and "server " .. client.only or client.route,
                one.last and state(client.process) or "has ended",
                table.concat(records, "", math.max(1, #records - RECORDS + 1)))
        end
    end
    return table.concat(lines, "\n")
end

--- Writes an entry about a path.
local function portray(campaign, log, path, users, since, latest)
    local parts = {
        format("%.3f: granted to no client for %.1f s, any path for %.1f s", tasks.now(), tasks.now() - since,
            tasks.now() - latest),
        "    faults: " .. describe_faults(campaign), silence.describe_path(campaign.servers, path)
    }
    for _, client in ipairs(users) do
        parts[#parts + 1] = describe_client(campaign, client)
    end
    log:write(table.concat(parts, "\n"), "\n\n")
    log:flush()
end

--- Reads the records until the campaign is over; nothing waits for it. Paths with a session of `longest` seconds are left out.
function silence.watch(campaign, longest)
    local log = assert(io.open(campaign.directory .. "/silence.log", "w"))
    local shared = shared_paths(campaign.roster, longest)
    local granted, noted, offsets, latest = {}, {}, {}, tasks.now()
    for path in pairs(shared) do
        granted[path] = tasks.now()
    end

    local function read()
        for _, one in ipairs(campaign.clients:records()) do
            local text, size = tail(one.name, offsets[one.name] or 0)
            local whole = text:match("^.*\n") or ""
            offsets[one.name] = size - #text + #whole
            for path, time in ("\n" .. whole):gmatch("\ng %S+ (%S+) %S+ %S+ %S+ %S+ (%S+)") do
                latest = math.max(latest, tonumber(time))
                granted[path] = granted[path] and math.max(granted[path], tonumber(time))
            end
        end
    end

    while not campaign.clients.stopping do
        read()
        for path, users in pairs(shared) do
            local now = tasks.now()
            if now - granted[path] > LONG and now - math.max(noted[path] or 0, granted[path]) > AGAIN then
                noted[path] = now
                portray(campaign, log, path, users, granted[path], latest)
            end
        end
        tasks.sleep(INTERVAL)
    end
    log:close()
end

return silence

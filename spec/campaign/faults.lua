--- campaign.faults: how each fault of the schedule is carried out. A fault begins, lasts and is undone. It may find no target (no
-- leader, or all busy) and is then not counted.

local tasks = require "spec.campaign.tasks"

local faults = {}

--- kind -> function(campaign, fault): false if there was no target. `campaign`: servers, clients, topology, busy.
local kinds = {}

local PATIENCE = 10

--- Runs `fn` while no other fault hits `who`.
local function alone(campaign, who, fn)
    campaign.busy[who] = true
    fn()
    campaign.busy[who] = nil
end

-- Servers -------------------------------------------------------------------------------------------------------------

--- The leader, if no fault is hitting it.
local function leader_of(campaign)
    local leader = campaign.servers:leader()
    return leader and not campaign.busy[leader] and leader or nil
end

--- A random server that no fault is hitting; never `except`.
local function server_of(campaign, fault, except)
    local free = {}
    for number = 1, #campaign.servers.names do
        if not campaign.busy[number] and number ~= except then
            free[#free + 1] = number
        end
    end
    return free[math.floor(fault.who * #free) + 1]
end

local function follower_of(campaign, fault)
    local leader = campaign.servers:leader()
    return leader and server_of(campaign, fault, leader)
end

local function kill(campaign, fault, number)
    if not number then
        return false
    end
    alone(campaign, number, function()
        campaign.servers:kill(number)
        tasks.sleep(fault.seconds)
        campaign.servers:ensure(number)
    end)
end

local function pause(campaign, fault, number)
    if not number then
        return false
    end
    alone(campaign, number, function()
        campaign.servers:signal(number, "sigstop")
        tasks.sleep(fault.seconds)
        campaign.servers:signal(number, "sigcont")
    end)
end

kinds["kill leader"] = function(campaign, fault)
    return kill(campaign, fault, leader_of(campaign))
end

kinds["kill follower"] = function(campaign, fault)
    return kill(campaign, fault, follower_of(campaign, fault))
end

kinds["pause leader"] = function(campaign, fault)
    return pause(campaign, fault, leader_of(campaign))
end

kinds["pause follower"] = function(campaign, fault)
    return pause(campaign, fault, follower_of(campaign, fault))
end

kinds["pause two servers"] = function(campaign, fault)
    local one = server_of(campaign, fault)
    local other = one and server_of(campaign, fault, one)
    if not other then
        return false
    end
    campaign.busy[one], campaign.busy[other] = true, true
    campaign.servers:signal(one, "sigstop")
    campaign.servers:signal(other, "sigstop")
    tasks.sleep(fault.seconds)
    campaign.servers:signal(one, "sigcont")
    campaign.servers:signal(other, "sigcont")
    campaign.busy[one], campaign.busy[other] = nil, nil
end

kinds["kill all servers"] = function(campaign, fault)
    local hit = {}
    for number = 1, #campaign.servers.names do
        if campaign.busy[number] then
            return false
        end
        hit[number] = number
    end
    for _, number in ipairs(hit) do
        campaign.busy[number] = true
    end
    for _, number in ipairs(hit) do
        campaign.servers:kill(number)
    end
    tasks.sleep(fault.seconds)
    for _, number in ipairs(hit) do
        campaign.servers:ensure(number)
        campaign.busy[number] = nil
    end
end

--- Cuts links, a list of { from, to }, for the fault's time.
local function cut(campaign, fault, links)
    for _, link in ipairs(links) do
        campaign.topology:cut(link[1], link[2])
    end
    tasks.sleep(fault.seconds)
    for _, link in ipairs(links) do
        campaign.topology:mend(link[1], link[2])
    end
end

local function cut_follower(campaign, fault, outward, inward)
    local leader = campaign.servers:leader()
    local follower = leader and server_of(campaign, fault, leader)
    if not follower then
        return false
    end
    local names, links = campaign.servers.names, {}
    if outward then
        links[1] = { names[follower], names[leader] }
    end
    if inward then
        links[#links + 1] = { names[leader], names[follower] }
    end
    alone(campaign, follower, function()
        cut(campaign, fault, links)
    end)
end

kinds["cut follower from leader"] = function(campaign, fault)
    return cut_follower(campaign, fault, true, true)
end

kinds["cut follower from leader, one way"] = function(campaign, fault)
    return cut_follower(campaign, fault, true, false)
end

kinds["cut leader from follower, one way"] = function(campaign, fault)
    return cut_follower(campaign, fault, false, true)
end

--- The follower does not receive the leader's pings, so it reports no sessions, and the leader ends them. The leader still receives
-- the follower's requests, so it executes the writes of the follower's clients.
kinds["stall leader to follower"] = function(campaign, fault)
    local leader = campaign.servers:leader()
    local follower = leader and server_of(campaign, fault, leader)
    if not follower then
        return false
    end
    local names = campaign.servers.names
    alone(campaign, follower, function()
        campaign.topology:stall(names[leader], names[follower])
        tasks.sleep(fault.seconds)
        campaign.topology:resume(names[leader], names[follower])
    end)
end

kinds["isolate leader from servers"] = function(campaign, fault)
    local leader = leader_of(campaign)
    if not leader then
        return false
    end
    local names, links = campaign.servers.names, {}
    for number, name in ipairs(names) do
        if number ~= leader then
            links[#links + 1] = { names[leader], name }
            links[#links + 1] = { name, names[leader] }
        end
    end
    alone(campaign, leader, function()
        cut(campaign, fault, links)
    end)
end

kinds["lossy links of a server"] = function(campaign, fault)
    local number = server_of(campaign, fault)
    if not number then
        return false
    end
    local name, others = campaign.servers.names[number], {}
    for other in pairs(campaign.topology.addresses) do
        others[#others + 1] = other ~= name and other or nil
    end
    alone(campaign, number, function()
        campaign.topology:lose(name, others)
        tasks.sleep(fault.seconds)
        campaign.topology:lose_no_more(name, others)
    end)
end

--- Like a disk that is much too slow: the server is stopped for most of the time, in pieces too short for its peers to give it up.
kinds["slow server"] = function(campaign, fault)
    local number = server_of(campaign, fault)
    if not number then
        return false
    end
    alone(campaign, number, function()
        local deadline = tasks.now() + fault.seconds
        while tasks.now() < deadline do
            campaign.servers:signal(number, "sigstop")
            tasks.sleep(0.05 + fault.how * 0.15)
            campaign.servers:signal(number, "sigcont")
            tasks.sleep(0.03)
        end
    end)
end

kinds["disk full"] = function(campaign, fault)
    local number = server_of(campaign, fault)
    if not number then
        return false
    end
    alone(campaign, number, function()
        campaign.servers:fill(number)
        tasks.sleep(fault.seconds)
        -- A server that could not write continues in the same process. When there is room again it writes after half a record of
        -- its log, where nothing can be read: what it acknowledges then is lost with its next start. So it is killed before.
        campaign.servers:kill(number)
        campaign.servers:empty(number)
        campaign.servers:ensure(number)
    end)
end

-- Clients -------------------------------------------------------------------------------------------------------------

--- A random client that runs, that no fault is hitting, and for which `suitable(client)` holds.
local function client_of(campaign, fault, suitable)
    local free = {}
    for _, client in ipairs(campaign.clients.list) do
        if client.process and client.process.running and not campaign.busy[client] and (not suitable or suitable(client)) then
            free[#free + 1] = client
        end
    end
    return free[math.floor(fault.who * #free) + 1]
end

kinds["kill client"] = function(campaign, fault)
    -- Curator's session is much longer than all others: waiting for its end teaches nothing.
    local client = client_of(campaign, fault, function(candidate)
        return candidate.runtime ~= "curator"
    end)
    if not client then
        return false
    end
    alone(campaign, client, function()
        campaign.clients:kill(client)
        tasks.sleep(fault.seconds)
        campaign.clients:start(client)
    end)
end

local function is_command(client)
    return client.runtime == "command"
end

--- Orders a client to do something to itself while it holds a lock; only clients that take such orders.
local function holder(campaign, fault, order, afterwards, suitable)
    local client = client_of(campaign, fault, suitable or function(candidate)
        return candidate.runtime ~= "curator" and candidate.runtime ~= "nginx" and not (is_command(candidate) and order == "exit")
    end)
    if not client then
        return false
    end
    local done
    alone(campaign, client, function()
        done = campaign.clients:order(client, order, PATIENCE)
        tasks.sleep(done and fault.seconds * (fault.of_timeout and client.timeout or 1) or 0)
        if afterwards then
            afterwards(client)
        end
    end)
    return done
end

kinds["exit of a holder"] = function(campaign, fault)
    return holder(campaign, fault, "exit", function(client)
        campaign.clients:start(client)
    end)
end

kinds["kill holder"] = function(campaign, fault)
    return holder(campaign, fault, "die", function(client)
        campaign.clients:start(client)
    end)
end

local function continue(campaign)
    return function(client)
        campaign.clients:signal(client, "sigcont")
    end
end

--- The program trusts its lock and writes when it wakes up. Of a command only zklock is stopped.
kinds["pause holder, longer than T"] = function(campaign, fault)
    return holder(campaign, fault, "pause", continue(campaign))
end

kinds["pause zklock, not its command, longer than T"] = function(campaign, fault)
    return holder(campaign, fault, "pause", continue(campaign), is_command)
end

kinds["delete the node of a command"] = function(campaign, fault)
    return holder(campaign, fault, "delete", nil, is_command)
end

local function pause_client(campaign, fault, suitable)
    local client = client_of(campaign, fault, suitable)
    if not client then
        return false
    end
    alone(campaign, client, function()
        campaign.clients:signal(client, "sigstop")
        -- Only a part of Curator's long session: the clients that share its path wait that long.
        tasks.sleep(fault.seconds * math.min(client.timeout, 4))
        campaign.clients:signal(client, "sigcont")
    end)
end

kinds["pause client, shorter than T"] = pause_client
kinds["pause client, longer than T"] = pause_client

--- Clients whose packets go to the servers directly, not through the proxies at the hub.
local function is_direct(client)
    return client.route ~= "proxied"
end

local function cut_client(campaign, fault, out, back, all)
    local client = client_of(campaign, fault, is_direct)
    if not client then
        return false
    end
    local links, names = {}, campaign.servers.names
    local single = client.only or math.floor(fault.how * #names) + 1
    for number, name in ipairs(names) do
        if all or number == single then
            links[#links + 1] = out and { client.name, name } or nil
            links[#links + 1] = back and { name, client.name } or nil
        end
    end
    alone(campaign, client, function()
        cut(campaign, fault, links)
    end)
end

kinds["cut client from one server"] = function(campaign, fault)
    return cut_client(campaign, fault, true, true, false)
end

kinds["cut client from all servers"] = function(campaign, fault)
    return cut_client(campaign, fault, true, true, true)
end

kinds["client not heard"] = function(campaign, fault)
    return cut_client(campaign, fault, true, false, true)
end

kinds["client does not hear"] = function(campaign, fault)
    return cut_client(campaign, fault, false, true, true)
end

kinds["lossy links of a client"] = function(campaign, fault)
    local client = client_of(campaign, fault, is_direct)
    if not client then
        return false
    end
    alone(campaign, client, function()
        campaign.topology:lose(client.name, campaign.servers.names)
        tasks.sleep(fault.seconds)
        campaign.topology:lose_no_more(client.name, campaign.servers.names)
    end)
end

--- Commands a proxy while a fault lasts, for the clients that connect through it: one proxy at a time for each fault.
local function through_proxy(campaign, fault, what, undo)
    local number = math.floor(fault.who * #campaign.servers.names) + 1
    local key = "proxy" .. number
    if campaign.busy[key] then
        return false
    end
    alone(campaign, key, function()
        campaign.servers:tell(number, what)
        tasks.sleep(fault.seconds)
        campaign.servers:tell(number, undo)
    end)
end

kinds["delayed packets"] = function(campaign, fault)
    local direction = ({ "up", "down", "both" })[math.floor(fault.how * 3) + 1]
    return through_proxy(campaign, fault, ("delay %d %s"):format(math.floor(5 + fault.how * 300), direction), "delay 0")
end

kinds["stalled connections"] = function(campaign, fault)
    return through_proxy(campaign, fault, "stall " .. ({ "up", "down", "both" })[math.floor(fault.how * 3) + 1], "resume")
end

--- The operation whose reply or request is lost.
local OPERATIONS = { "create", "create", "create", "delete", "delete", "children", "multi", "get", "any", "sync" }

local function operation_of(fault)
    return OPERATIONS[math.floor(fault.how * #OPERATIONS) + 1]
end

kinds["reset before the reply"] = function(campaign, fault)
    return through_proxy(campaign, fault, ("arm %s after %s"):format(operation_of(fault), fault.how < 0.5 and "rst" or "fin"),
        "disarm")
end

kinds["reset before the request"] = function(campaign, fault)
    return through_proxy(campaign, fault, ("arm %s before rst"):format(operation_of(fault)), "disarm")
end

kinds["all reconnect"] = function(campaign, fault)
    for number = 1, #campaign.servers.names do
        campaign.servers:tell(number, "cut rst")
    end
    tasks.sleep(fault.seconds)
end

kinds["no names"] = function(campaign, fault)
    if campaign.busy.names then
        return false
    end
    alone(campaign, "names", function()
        campaign:write_names(fault.how < 0.5 and "gone" or "slow")
        -- A client looks up names when it connects, so connections must be lost.
        for _, client in ipairs(campaign.clients.list) do
            if client.route == "named" then
                for _, name in ipairs(campaign.servers.names) do
                    campaign.topology:cut(client.name, name)
                end
            end
        end
        tasks.sleep(fault.seconds / 2)
        for _, client in ipairs(campaign.clients.list) do
            if client.route == "named" then
                for _, name in ipairs(campaign.servers.names) do
                    campaign.topology:mend(client.name, name)
                end
            end
        end
        tasks.sleep(fault.seconds / 2)
        campaign:write_names("right")
    end)
end

kinds["wall clock jumps"] = function(campaign, fault)
    local client = client_of(campaign, fault, function(candidate)
        return candidate.clock
    end)
    if not client then
        return false
    end
    campaign.clients:set_clock(client, math.floor((fault.how - 0.5) * 200000))
    tasks.sleep(fault.seconds)
    campaign.clients:set_clock(client, 0)
end

--- Faults that need the campaign's network or mounts.
local ISOLATED = {
    ["cut follower from leader"] = true, ["cut follower from leader, one way"] = true,
    ["cut leader from follower, one way"] = true, ["stall leader to follower"] = true, ["isolate leader from servers"] = true,
    ["lossy links of a server"] = true, ["disk full"] = true, ["cut client from one server"] = true,
    ["cut client from all servers"] = true, ["client not heard"] = true, ["client does not hear"] = true,
    ["lossy links of a client"] = true, ["no names"] = true
}

--- Carries out a fault from its beginning to its end. Returns false if there was no target, or no way to do it.
function faults.run(campaign, fault)
    if ISOLATED[fault.kind] and not campaign.topology.isolated then
        return false
    end
    return kinds[fault.kind](campaign, fault) ~= false
end

function faults.knows(kind)
    return kinds[kind] ~= nil
end

return faults

--- campaign.topology: the campaign's network. Each server and each client process has a network namespace with one address, all on
-- one bridge. The campaign itself is at the bridge (the hub). Links are cut, one way or both, stalled one way, and made lossy, by
-- nftables in the namespace of the receiver.
--
-- It is made inside namespaces that `spec/campaign/run` has made, so nothing of it outlives the campaign, and the machine's own
-- network is not touched. Without namespaces each process has an address of the loopback interface, no link can be cut, and
-- processes end with this one.

local tasks = require "spec.campaign.tasks"

local Topology = {}
Topology.__index = Topology

local NETWORK, LOOPBACK = "10.77.0.", "127.77.%d."
local HUB = "254"

--- What a namespace drops: all packets from the addresses in `deaf`; some packets from and to those in `lossy`; packets with data
-- from those in `stalled`. Packets of up to 64 bytes have no data. They acknowledge what was sent in the other direction, which
-- would soon stall too without them.
local RULES = [[
table inet faults {
    set deaf { type ipv4_addr; }
    set stalled { type ipv4_addr; }
    set lossy { type ipv4_addr; }
    chain incoming {
        type filter hook input priority 0; ip saddr @deaf drop; ip saddr @stalled ip length > 64 drop;
        ip saddr @lossy numgen random mod 100 < 20 drop;
    }
    chain outgoing { type filter hook output priority 0; ip daddr @lossy numgen random mod 100 < 20 drop; }
}
]]

--- Percent of the packets that a lossy link loses, each way.
Topology.loss = 20

--- Makes the bridge, or nothing if not isolated. `number`: campaigns with different numbers use different loopback addresses.
local function new(isolated, number)
    local network = isolated and NETWORK or LOOPBACK:format(number % 250 + 1)
    local self = setmetatable({
        isolated = isolated, network = network, hub = network .. HUB, addresses = {}, users = {}
    }, Topology)
    if isolated then
        tasks.run({ "ip", "-batch", "-" }, ([[
            link set lo up
            link add hub type bridge
            address add %s/24 dev hub
            link set hub up
        ]]):format(self.hub))
    end
    return self
end

--- Adds a namespace; `last` is the last number of its address.
function Topology:add(name, last)
    local address = self.network .. last
    self.addresses[name] = address
    if not self.isolated then
        return address
    end
    tasks.run({ "ip", "-batch", "-" }, ([[
        netns add %s
        link add v%s type veth peer name eth0 netns %s
        link set v%s master hub up
    ]]):format(name, name, name, name))
    tasks.run({ "ip", "-n", name, "-batch", "-" }, ([[
        link set lo up
        address add %s/24 dev eth0
        link set eth0 up
    ]]):format(address))
    tasks.run(self:inside(name, { "nft", "-f", "-" }), RULES)
    return address
end

--- A command, to be run in a namespace.
function Topology:inside(name, words)
    assert(self.addresses[name], name)
    return self.isolated and { "nsenter", "--net=/run/netns/" .. name, "--", table.unpack(words) } or self:at_hub(words)
end

--- A command, to be run at the hub.
function Topology:at_hub(words)
    return self.isolated and words or { "setpriv", "--pdeathsig", "KILL", "--", table.unpack(words) }
end

--- Counts the faults that need elements in a set, since several may need the same at the same time. Adds an element with the first
-- and deletes it with the last.
local function change(self, inside, set, addresses, by)
    local changed = {}
    for _, address in ipairs(addresses) do
        local key = inside .. " " .. set .. " " .. address
        local before = self.users[key] or 0
        self.users[key] = before + by
        changed[#changed + 1] = before + by == (by > 0 and 1 or 0) and address or nil
    end
    if changed[1] then
        tasks.run(self:inside(inside, {
            "nft", by > 0 and "add" or "delete", "element", "inet", "faults", set, "{ " .. table.concat(changed, ", ") .. " }"
        }))
    end
end

--- Drops everything that `from` sends to `to`.
function Topology:cut(from, to)
    change(self, to, "deaf", { self.addresses[from] }, 1)
end

function Topology:mend(from, to)
    change(self, to, "deaf", { self.addresses[from] }, -1)
end

--- Drops the data that `from` sends to `to`; data that `to` sends still arrives at `from`.
function Topology:stall(from, to)
    change(self, to, "stalled", { self.addresses[from] }, 1)
end

function Topology:resume(from, to)
    change(self, to, "stalled", { self.addresses[from] }, -1)
end

--- Makes a namespace repeat unacknowledged packets at least each second, so that a link delivers soon after it works again. Without
-- this the pauses between two repetitions double each time. False if the kernel does not support it.
function Topology:repeat_soon(name)
    return pcall(tasks.run, self:inside(name, { "sh", "-c", "echo 1000 >/proc/sys/net/ipv4/tcp_rto_max_ms" }))
end

--- Adds the addresses of namespaces to those between which and `name` packets get lost, or removes them.
local function change_loss(self, name, others, by)
    local addresses = {}
    for index, other in ipairs(others) do
        addresses[index] = self.addresses[other]
    end
    change(self, name, "lossy", addresses, by)
end

--- Drops some of the packets between `name` and each of `others`.
function Topology:lose(name, others)
    change_loss(self, name, others, 1)
end

function Topology:lose_no_more(name, others)
    change_loss(self, name, others, -1)
end

return { new = new }

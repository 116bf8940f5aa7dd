---@meta zklock.inspect

--- A holder or waiter of a lock, as anybody can see it. docs/command.md explains the fields.
---@class zklock.inspect.Contender
---@field name string
---@field node string
---@field mode "exclusive"|"shared"|"lease"
---@field sequence integer
---@field holder boolean
---@field ahead integer
---@field waits_for? string path of the nearest contender that it waits for
---@field library string
---@field identity? string
---@field revoked? boolean
---@field since? number seconds since 1970, by the servers' clock
---@field session? string 16 hexadecimal digits
---@field persistent? boolean
---@field session_state? "connected"|"disconnected"|"gone"|"unknown"
---@field address? string
---@field session_timeout? number seconds
---@field released? boolean

---@class zklock.inspect.State
---@field path string
---@field kind "mutex"|"rwlock"|"semaphore"|"latch"|"free"|"none"
---@field contenders zklock.inspect.Contender[]
---@field holders integer
---@field waiters integer
---@field others string[]
---@field limit? integer
---@field count? integer
---@field left? integer
---@field next_sequence? integer
---@field created number

---@class zklock.inspect.Settings
---@field timeout? number seconds; default: the session timeout
---@field identities? boolean whether the nodes of all contenders are read

---@class zklock.inspect.Sessions
---@field known boolean
---@field connections boolean
---@field by_id table<string, table>
---@field problems string[]

---@class zklock.inspect.Change
---@field event "joined"|"left"|"holds"|"gap"|"created"|"deleted"
---@field path string
---@field contender? zklock.inspect.Contender
---@field reason? "fast"|"session"|"directory"
---@field missed? integer

---@class zklock.inspect.Watcher
local Watcher = {}

--- Returns the next change.
---@param timeout? number seconds; default: for ever
---@return zklock.inspect.Change? change
---@return string? message
---@return zklock.Code? code
function Watcher:next(timeout) end

--- Removes the watches.
function Watcher:close() end

---@class zklock.inspect
local inspect = {}

--- Reads one lock.
---@param client zklock.Client
---@param path string
---@param settings? zklock.inspect.Settings
---@return zklock.inspect.State|false|nil state false: there is no such node, or it may not be read
---@return string? message
---@return zklock.Code? code
function inspect.lock(client, path, settings) end

--- Reads all locks at a path and below it.
---@param client zklock.Client
---@param path string
---@param settings? zklock.inspect.Settings
---@return zklock.inspect.State[]? states
---@return string[]|string|nil unreadable paths that may not be read; or message
---@return zklock.Code? code
function inspect.locks(client, path, settings) end

--- Asks all servers which sessions there are, by four-letter words. Blocks.
---@param servers string
---@param timeout? number seconds for each answer; default 2
---@return zklock.inspect.Sessions sessions
function inspect.sessions(servers, timeout) end

--- Returns what is known about a session.
---@param sessions zklock.inspect.Sessions
---@param id string
---@return "connected"|"disconnected"|"gone"|"unknown" state
function inspect.session_state(sessions, id) end

--- Notes in each contender what is known of its session.
---@param client zklock.Client
---@param states zklock.inspect.State[]
---@param sessions zklock.inspect.Sessions
---@param timeout? number seconds; default: the session timeout
---@return true? ok
---@return string? message
---@return zklock.Code? code
function inspect.join_sessions(client, states, sessions, timeout) end

--- Returns whether no session will delete a contender's node.
---@param contender zklock.inspect.Contender
---@return "persistent"|"gone"|nil stray
function inspect.stray(contender) end

--- Watches a lock.
---@param client zklock.Client
---@param path string
---@return zklock.inspect.Watcher watcher
function inspect.watch(client, path) end

--- Returns the next change of several watchers of one client.
---@param watchers zklock.inspect.Watcher[]
---@param timeout? number seconds; default: for ever
---@return zklock.inspect.Change? change
---@return string? message
---@return zklock.Code? code
function inspect.next_change(watchers, timeout) end

--- Returns the present time for computing ages: the local clock, or the newest node's time if that is later.
---@param states zklock.inspect.State[]
---@return number seconds
function inspect.now(states) end

return inspect

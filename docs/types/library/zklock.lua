---@meta zklock

-- What language servers want to know of zklock; never loaded by a program. In lua-language-server's settings:
--
--     "workspace.library": [ "<where zklock is>/docs/types/library" ]
--
-- spec/contract/docs_spec.lua holds the names, the parameters, the options and the codes against those that are there. What the
-- functions do in full is in the reference: `make docs`.

--- Why something did not work out: the third result of whatever can fail at run time.
---@alias zklock.Code
---| "timeout" # others have the lock, or nothing was answered: time is up, or it was a try
---| "disconnected" # no ZooKeeper within the time; of a write to a node: it may or may not have been executed
---| "lost" # the lock was held, and is not any more; of a watch: its session is over
---| "max_hold" # why on_lost was called: the lock was held for as long as max_hold allows
---| "not_held" # release of what is not held
---| "deadlock" # this coroutine holds, or is acquiring, by this object already; it would wait for itself
---| "cancelled" # the wait was ended by cancel
---| "closed" # the client was closed
---| "mismatch" # others use the semaphore with another number of permits
---| "no_auth" # the ACL forbids it
---| "auth_failed" # ZooKeeper refused the credentials
---| "no_node" # there is no such node, or the chroot of the server list does not exist
---| "node_exists" # there is such a node already
---| "bad_version" # the node has another version
---| "not_empty" # the node has children
---| "exhausted" # the directory's sequence numbers are used up
---| "forked" # the client belongs to the parent process
---| "unsupported" # TLS: the C client has none
---| "phase" # the event loop's adapter cannot wait where the call was made
---| "failed" # anything else; the message says what

--- Why a hold was lost, as on_lost is told.
---@alias zklock.LossReason
---| "lost" # the session, its lease or the node
---| "max_hold" # held for as long as max_hold allows
---| "closed" # by client:close()

--- "auth_failed" and "closed" are final.
---@alias zklock.State "connecting"|"connected"|"suspended"|"closed"|"auth_failed"

---@alias zklock.LogLevel "error"|"warn"|"info"|"debug"

--- What a watch has seen: "changed" of the node's data, "child" of its children.
---@alias zklock.Event "created"|"deleted"|"changed"|"child"

--- "open": anybody may do anything; "creator": only who shows the same `auth`; "read": anybody may read.
---@alias zklock.Acl "open"|"creator"|"read"|zklock.AclEntry[]

---@alias zklock.OnLost fun(lock: zklock.Lock, reason: zklock.LossReason, message: string)

---@alias zklock.OnRevoke fun(lock: zklock.Lock)

---@alias zklock.OnState fun(state: zklock.State, problem: string, code: zklock.Code?)

---@alias zklock.Log fun(level: zklock.LogLevel, message: string)

-- Tables --------------------------------------------------------------------------------------------------------------

---@class zklock.AclEntry
---@field scheme string "world", "auth", "digest", "ip", …
---@field id string
---@field perms string|integer letters of "crwda", or their bits, 1 to 31

---@class zklock.AuthEntry
---@field scheme string "digest"
---@field credential string "user:password"

---@class zklock.ConnectOptions
---@field session_timeout? number seconds, 0.1 to 86400; 10
---@field connect_timeout? number seconds, 0 or more; 5
---@field wait? "auto"|"blocking"|"openresty"|"cqueues"|"luv"|"copas"|zklock.Adapter the event loop to wait in; "auto"
---@field auth? zklock.AuthEntry[]
---@field acl? zklock.Acl of what locks and client:create create; "open"
---@field identity? string what the client's nodes say to others, 1 to 1024 bytes; "host:pid"
---@field lease? boolean false trusts the server's word alone that a lock is held; true
---@field log? zklock.Log
---@field tls? table answered with "unsupported"

---@class zklock.LockOptions
---@field reentrant? boolean the holder may acquire again; false
---@field identity? string for this lock's nodes; the client's
---@field acl? zklock.Acl for this lock's nodes; the client's
---@field wait_release? boolean release waits until the server has acknowledged it; true
---@field handoff? integer how many acquisitions one node of this client serves after its first one, if others queue; 16
---@field linger? number seconds that a released lock stays with this client, unless somebody else queues; 0, also of semaphores
---@field max_hold? number seconds, above 0, after which a grant ends by itself; never
---@field on_lost? zklock.OnLost
---@field on_revoke? zklock.OnRevoke

---@class zklock.AcquireOptions
---@field timeout? number seconds, 0 or more; 0 tries; for ever
---@field keep? boolean in nginx: the hold outlives the request that acquires it; false

---@class zklock.TryOptions
---@field keep? boolean in nginx: the hold outlives the request that acquires it; false

---@class zklock.SemaphoreAcquireOptions
---@field timeout? number seconds, 0 or more; 0 tries; for ever
---@field count? integer the permits wanted, together or not at all, 1 to 1000; 1
---@field keep? boolean in nginx: the hold outlives the request that acquires it; false

---@class zklock.SemaphoreTryOptions
---@field count? integer the permits wanted, together or not at all, 1 to 1000; 1
---@field keep? boolean in nginx: the hold outlives the request that acquires it; false

---@class zklock.ReleaseOptions
---@field wait? boolean false returns at once; the lock's wait_release
---@field timeout? number seconds, 0 or more, to wait at most; the session timeout

---@class zklock.ReadOptions
---@field timeout? number seconds, 0 or more; for ever
---@field watch? boolean sets a watch; false

---@class zklock.WriteOptions
---@field timeout? number seconds, 0 or more; for ever
---@field version? integer only if the node has this one; -1, which is any

---@class zklock.SyncOptions
---@field timeout? number seconds, 0 or more; for ever

---@class zklock.CreateOptions
---@field timeout? number seconds, 0 or more; for ever
---@field ephemeral? boolean the node goes when the session ends; false
---@field sequential? boolean ZooKeeper appends a number of ten digits; false
---@field container? boolean the server deletes the node when it has had children and has none any more; false
---@field acl? zklock.Acl the client's

---@class zklock.PartCreateOptions
---@field ephemeral? boolean the node goes when the session ends; false
---@field sequential? boolean ZooKeeper appends a number of ten digits; false
---@field acl? zklock.Acl the client's

--- The times are seconds since 1970. Ids are strings of 16 hexadecimal digits; no owner: all zeros.
---@class zklock.Stat
---@field czxid string
---@field mzxid string
---@field pzxid string
---@field ctime number
---@field mtime number
---@field version integer
---@field cversion integer
---@field aversion integer
---@field ephemeral_owner string
---@field data_length integer
---@field num_children integer

---@class zklock.Contender
---@field node string path of the node
---@field identity string what it says of itself; "" of clients that write nothing
---@field mode "exclusive"|"shared"|"lease"
---@field sequence integer
---@field holder boolean

--- Counters since the client was opened; `seats`, `watches` and `memory` (bytes, of all clients of the process) are of now.
---@class zklock.Stats
---@field requests integer
---@field heartbeats integer
---@field notifications integer
---@field claims integer
---@field grants integer
---@field refusals integer
---@field hand_overs integer of the grants, those that needed no request
---@field losses integer
---@field unknown_outcomes integer
---@field connections integer
---@field sessions integer
---@field seats integer
---@field watches integer
---@field memory integer
---@field reconnects integer
---@field wait_time table histogram of seconds from asking for a lock to having it

--- How to wait in an event loop. `waiter` is an empty table, for the adapter to keep in it what it likes.
---@class zklock.Adapter
---@field wait fun(client: zklock.Client, waiter: table, seconds: number): true?, string?, zklock.Code? may return early
---@field wake fun(waiter: table) makes that waiter's wait return soon
---@field name? string for messages
---@field yields? boolean|fun(): boolean false promises that wait never yields; or says whether it may, here and now
---@field prepare? fun(settings: table): true?, string?, zklock.Code? before a client is opened
---@field alone? boolean wait blocks the whole program
---@field patience? fun(): number? for how many seconds other calls may block the whole program, here and now; nil: not at all
---@field here? fun(): table|nil the adapter to be used in place of this one, here and now
---@field owner? fun(): table|nil what the running coroutine works for, such as a request: holds belong to it
---@field bind? fun(hold: table) a lock has been asked for: its claim may end together with whatever runs
---@field keep? fun(hold: table) a lock was acquired with `keep = true`: its claim is not to end so
---@field enclose? fun(hold: table) with_lock, called by the running coroutine, holds a lock from now on
---@field attach? fun(client: zklock.Client) the client was opened
---@field forget? fun(waiter: table) the waiter will not go on
---@field detach? fun(client: zklock.Client) the client is closed
---@field attend? fun(client: zklock.Client) something is to be told though nobody may wait: the pump is to run
---@field spawn? fun(fn: fun()) runs fn in a coroutine of its own: for the program's callbacks

-- The module ----------------------------------------------------------------------------------------------------------

---@class zklock
---@field VERSION string
local zklock = {}

--- Opens a client: one session with ZooKeeper, kept up in the background, reopened when it expires.
---@param servers string "host:2181,host:2181/chroot"
---@param settings? zklock.ConnectOptions
---@return zklock.Client? client
---@return string? message
---@return zklock.Code? code
function zklock.connect(servers, settings) end

--- The one client that this Lua state (in nginx: this worker) has for a server list and options. Does not wait.
---@param servers string "host:2181,host:2181/chroot"
---@param settings? zklock.ConnectOptions
---@return zklock.Client? client
---@return string? message
---@return zklock.Code? code
function zklock.shared(servers, settings) end

--- The path of a key below a prefix: any string is a key, different keys give different paths.
---@param prefix string
---@param key string
---@return string path
function zklock.path(prefix, key) end

-- Client --------------------------------------------------------------------------------------------------------------

--- One ZooKeeper session.
---@class zklock.Client
local Client = {}

--- The state of the session, as known at this instant; nil in a forked process.
---@return zklock.State? state
---@return string problem what stands in the way of "connected", "" if nothing
---@return zklock.Code? code
function Client:state() end

--- The session timeout that the server granted, in seconds; 0 before the first session.
---@return number seconds
function Client:session_timeout() end

--- Calls fn at each change of the state. Returns what takes fn off again.
---@param event "state"
---@param fn zklock.OnState
---@return fun() off
function Client:on(event, fn) end

--- Counters, for looking.
---@return zklock.Stats? stats
---@return string? message
---@return zklock.Code? code
function Client:stats() end

--- Runs the callbacks that are due; does not wait.
function Client:pump() end

--- The fd that is readable while pump has something to do.
---@return integer? fd
---@return string? message
---@return zklock.Code? code
function Client:pollfd() end

--- For adapters: whether there is, or may soon be, work for pump.
---@return boolean
function Client:needs_pump() end

--- Waits until no clean-up is under way any more.
---@param timeout? number seconds; for ever
---@return true? flushed
---@return string? message
---@return zklock.Code? code
function Client:flush(timeout) end

--- Ends the session: what it holds is free for others at once.
---@param timeout? number seconds; 5
---@return true? closed
---@return string? message
---@return zklock.Code? code
function Client:close(timeout) end

--- Makes a lock that one holder at a time can have. Sends nothing.
---@param path string of the lock's directory, 32768 bytes at most; created when missing
---@param settings? zklock.LockOptions
---@return zklock.Lock lock
function Client:mutex(path, settings) end

--- Makes a lock that readers share and a writer has alone. Sends nothing.
---@param path string
---@param settings? zklock.LockOptions
---@return zklock.RwLock lock
function Client:rwlock(path, settings) end

--- Makes a lock with several permits. Sends nothing.
---@param path string
---@param permits integer 1 to 2147483647
---@param settings? zklock.LockOptions without linger
---@return zklock.Semaphore semaphore
function Client:semaphore(path, permits, settings) end

--- Makes one lock of several: all are acquired or none. Sends nothing.
---@param locks zklock.Lock[] each on a path of its own
---@return zklock.Multi multi
function Client:multi(locks) end

--- Begins a transaction: checks and writes that the server executes all together, or none of them.
---@return zklock.Transaction transaction
function Client:transaction() end

--- Reads a node's data.
---@param path string
---@param settings? zklock.ReadOptions
---@return string? data
---@return zklock.Stat|string stat or the message
---@return zklock.Watch|zklock.Code|nil watch or the code
function Client:get(path, settings) end

--- Lists the names of a node's children.
---@param path string
---@param settings? zklock.ReadOptions
---@return string[]? names
---@return zklock.Stat|string stat or the message
---@return zklock.Watch|zklock.Code|nil watch or the code
function Client:children(path, settings) end

--- Looks whether there is such a node; false: there is none.
---@param path string
---@param settings? zklock.ReadOptions
---@return zklock.Stat|false|nil stat
---@return zklock.Watch|string|nil watch or the message
---@return zklock.Code? code
function Client:exists(path, settings) end

--- Writes a node's data.
---@param path string
---@param data? string
---@param settings? zklock.WriteOptions
---@return zklock.Stat? stat
---@return string? message
---@return zklock.Code? code
function Client:set(path, data, settings) end

--- Creates a node.
---@param path string
---@param data? string
---@param settings? zklock.CreateOptions
---@return string? path of the new node
---@return zklock.Stat|string stat or the message
---@return zklock.Code? code
function Client:create(path, data, settings) end

--- Deletes a node that has no children.
---@param path string
---@param settings? zklock.WriteOptions
---@return true? deleted
---@return string? message
---@return zklock.Code? code
function Client:delete(path, settings) end

--- Has the server catch up with its leader.
---@param path string
---@param settings? zklock.SyncOptions
---@return true? done
---@return string? message
---@return zklock.Code? code
function Client:sync(path, settings) end

-- Lock ----------------------------------------------------------------------------------------------------------------

--- Something that is acquired and released.
---@class zklock.Lock
local Lock = {}

--- Acquires the lock, waiting for its turn.
---@param timeout? number|zklock.AcquireOptions seconds, 0 tries; for ever
---@return self? lock
---@return string? message
---@return zklock.Code? code
function Lock:acquire(timeout) end

--- Acquires the lock if nobody has it or is ahead; a refused try has written nothing. It is refused while the lock lingers at
--- another client, too, from where it leaves for the first who queues: acquire with a timeout.
---@param settings? zklock.TryOptions
---@return self? lock
---@return string? message
---@return zklock.Code? code
function Lock:try_acquire(settings) end

--- Ends the waits of other coroutines in this object's acquire; in nginx, of this request if it has acquired by the object.
---@return boolean was_waiting
function Lock:cancel() end

--- Releases the lock; of a reentrant one, one level.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message
---@return zklock.Code? code
function Lock:release(settings) end

--- Runs fn(lock, …) while holding the lock, and releases it whatever happens: true and fn's results; or nil, message, code.
--- When the code is "lost" and fn ran, its results follow.
---@param fn fun(lock: zklock.Lock, ...: any): ...: any
---@param timeout? number|zklock.AcquireOptions as of acquire
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function Lock:with_lock(fn, timeout, ...) end

--- Whether the lock is held, by the clock of this instant. Sends nothing.
---@return boolean held
function Lock:held() end

--- How much longer the lock is certainly held if no further word comes from ZooKeeper; math.huge without a lease.
---@return number seconds
function Lock:remaining() end

--- The fencing token of the present hold: tokens of one path compare as strings, in every locale.
---@return string? token
function Lock:token() end

--- The same token as three whole numbers below 2^32, for stores that compare integers; the first decides.
---@return number? high the upper 32 bits of the czxid of the lock's node
---@return number? low the lower 32 bits of it
---@return number? grants how many grants that node has served before
function Lock:token_numbers() end

--- The path that the lock was made with.
---@return string path
function Lock:path() end

--- The path of the node by which the lock is held.
---@return string? node
function Lock:node() end

--- Lists who holds and who waits, in queue order.
---@param timeout? number seconds; the session timeout
---@return zklock.Contender[]? contenders
---@return string? message
---@return zklock.Code? code
function Lock:contenders(timeout) end

--- Asks everybody who holds the lock to let go; answers how many were asked.
---@param timeout? number seconds; the session timeout
---@return integer? asked
---@return string? message
---@return zklock.Code? code
function Lock:revoke(timeout) end

--- Begins writes that happen only if the lock is still held by the present hold, of a semaphore all of its permits.
---@return zklock.Transaction transaction
function Lock:transaction() end

-- RwLock --------------------------------------------------------------------------------------------------------------

--- A lock that readers share and a writer has alone.
---@class zklock.RwLock
---@field read zklock.Lock the lock that readers take
---@field write zklock.Lock the lock that a writer takes
local RwLock = {}

--- Runs fn(rw.read, …) while holding the read lock: as Lock:with_lock.
---@param fn fun(lock: zklock.Lock, ...: any): ...: any
---@param timeout? number|zklock.AcquireOptions
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function RwLock:with_read(fn, timeout, ...) end

--- Runs fn(rw.write, …) while holding the write lock: as Lock:with_lock.
---@param fn fun(lock: zklock.Lock, ...: any): ...: any
---@param timeout? number|zklock.AcquireOptions
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function RwLock:with_write(fn, timeout, ...) end

--- The path that the lock was made with.
---@return string path
function RwLock:path() end

--- Lists who holds and who waits, readers and writers.
---@param timeout? number seconds; the session timeout
---@return zklock.Contender[]? contenders
---@return string? message
---@return zklock.Code? code
function RwLock:contenders(timeout) end

-- Semaphore -----------------------------------------------------------------------------------------------------------

--- A lock with several permits.
---@class zklock.Semaphore : zklock.Lock
local Semaphore = {}

--- Acquires permits, waiting for its turn.
---@param timeout? number|zklock.SemaphoreAcquireOptions seconds, 0 tries; for ever
---@return self? semaphore
---@return string? message
---@return zklock.Code? code
function Semaphore:acquire(timeout) end

--- Acquires permits if there are enough and nobody is ahead; a refused try has written nothing.
---@param settings? zklock.SemaphoreTryOptions
---@return self? semaphore
---@return string? message
---@return zklock.Code? code
function Semaphore:try_acquire(settings) end

--- Runs fn(semaphore, …) while holding permits: as Lock:with_lock.
---@param fn fun(semaphore: zklock.Semaphore, ...: any): ...: any
---@param timeout? number|zklock.SemaphoreAcquireOptions as of acquire
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function Semaphore:with_lock(fn, timeout, ...) end

--- How many permits the semaphore has.
---@return integer permits
function Semaphore:permits() end

--- How many permits nobody has now.
---@param timeout? number seconds; the session timeout
---@return integer? available
---@return string? message
---@return zklock.Code? code
function Semaphore:available(timeout) end

-- Multi ---------------------------------------------------------------------------------------------------------------

--- Several locks as one: all or none.
---@class zklock.Multi
local Multi = {}

--- Acquires all members, or none.
---@param timeout? number|zklock.AcquireOptions seconds, 0 tries; for ever
---@return self? multi
---@return string? message
---@return zklock.Code? code
function Multi:acquire(timeout) end

--- Acquires all members if nobody has any of them or is ahead.
---@return self? multi
---@return string? message
---@return zklock.Code? code
function Multi:try_acquire() end

--- Ends the waits of other coroutines in this object's acquire; in nginx, of this request if it has acquired by the object.
---@return boolean was_waiting
function Multi:cancel() end

--- Releases all members, also when some releases fail.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message
---@return zklock.Code? code
function Multi:release(settings) end

--- Runs fn(multi, …) while holding all members, and releases them whatever happens: as Lock:with_lock.
---@param fn fun(multi: zklock.Multi, ...: any): ...: any
---@param timeout? number|zklock.AcquireOptions as of acquire
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function Multi:with_lock(fn, timeout, ...) end

--- Whether all members are held at this instant. Sends nothing.
---@return boolean held
function Multi:held() end

--- How much longer all members are certainly held.
---@return number seconds
function Multi:remaining() end

--- The members in the order in which they are taken.
---@return zklock.Lock[] members
function Multi:members() end

--- Begins writes that happen only if all members are still held, which the server checks together with them.
---@return zklock.Transaction transaction
function Multi:transaction() end

-- Transaction ---------------------------------------------------------------------------------------------------------

--- Several checks and writes that ZooKeeper executes all together, or none of them.
---@class zklock.Transaction
local Transaction = {}

--- Demands that a node exists, and has a version.
---@param path? string nil of a lock's transaction only: the check of its own nodes is always part of it
---@param version? integer any
---@return self transaction
function Transaction:check(path, version) end

--- Creates a node; the part's result is its path.
---@param path string
---@param data? string
---@param settings? zklock.PartCreateOptions
---@return self transaction
function Transaction:create(path, data, settings) end

--- Writes a node's data; the part's result is its new stat.
---@param path string
---@param data? string
---@param version? integer any
---@return self transaction
function Transaction:set(path, data, version) end

--- Deletes a node; the part's result is true.
---@param path string
---@param version? integer any
---@return self transaction
function Transaction:delete(path, version) end

--- Has the server execute everything or nothing.
---@param timeout? number seconds; for ever
---@return (true|string|zklock.Stat)[]? results of each part in its order
---@return string? message
---@return zklock.Code? code
---@return integer? part which failed, where one is to blame
function Transaction:commit(timeout) end

-- Watch ---------------------------------------------------------------------------------------------------------------

--- One watch: fires once, at the first change after the read that set it.
---@class zklock.Watch
local Watch = {}

--- Waits until the watch fires.
---@param timeout? number seconds; for ever
---@return zklock.Event? event
---@return string? message
---@return zklock.Code? code
function Watch:wait(timeout) end

--- What the watch has seen, without waiting.
---@return zklock.Event? event
function Watch:fired() end

--- Ends the watch, and every wait for it with the code "cancelled".
function Watch:cancel() end

--- The path that is watched.
---@return string path
function Watch:path() end

return zklock

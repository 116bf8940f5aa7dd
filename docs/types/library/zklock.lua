---@meta zklock

-- Annotations of zklock for language servers. No program loads this file. In the settings of lua-language-server:
--
--     "workspace.library": [ "<where zklock is>/docs/types/library" ]
--
-- spec/contract/docs_api_spec.lua compares the names, the parameters, the options and the codes with those of the sources. The
-- reference has the full description of the functions: `make docs`.

--- The code of a failure: the third result of every function that can fail at run time.
---@alias zklock.Code
---| "timeout" # the time is up, or it was a try: other contenders have the lock, or there was no answer
---| "disconnected" # no connection to ZooKeeper within the time; a write to a node may or may not have been executed
---| "lost" # the lock was held and no longer is; of a watch: its session is over
---| "max_hold" # to on_lost only: the lock was held for as long as max_hold allows
---| "not_held" # release of a lock that is not held, or is held by another coroutine only
---| "deadlock" # this coroutine holds, or is acquiring, by this object already, or would wait for itself
---| "cancelled" # the wait was ended by cancel
---| "closed" # the client was closed
---| "mismatch" # the semaphore was made for another number of permits, or the latch for another count
---| "no_auth" # the ACL forbids the operation
---| "auth_failed" # ZooKeeper refused the credentials
---| "tls_failed" # a TLS handshake failed, a certificate is not accepted, or a file of the option tls cannot be used
---| "no_node" # the node, or the chroot of the server list, does not exist
---| "node_exists" # the node exists already
---| "bad_version" # the node has another version
---| "not_empty" # the node has children
---| "exhausted" # the directory's sequence numbers are used up, or the servers have given a number twice
---| "forked" # the client belongs to the parent process
---| "unsupported" # TLS: there is no OpenSSL; a callback: nginx runs with lua_code_cache off
---| "phase" # the event loop's adapter cannot wait where the call was made
---| "failed" # anything else; the message says what

--- The reason of a loss, which on_lost gets.
---@alias zklock.LossReason
---| "lost" # the session, its lease or the lock's node ended
---| "max_hold" # the lock was held for as long as max_hold allows
---| "closed" # client:close() was called

--- The reason for the end of a leader's term.
---@alias zklock.TermEnd
---| "lost" # the session, its lease or the node ended
---| "resigned" # resign() was called
---| "failed" # on_elected has raised
---| "closed" # the leader, or its client, was closed
---| "revoked" # another client has asked the leader to release

--- "auth_failed" and "closed" are final.
---@alias zklock.State "connecting"|"connected"|"suspended"|"closed"|"auth_failed"

---@alias zklock.LogLevel "error"|"warn"|"info"|"debug"

--- The event of a watch. "changed": the node's data; "child": its list of children.
---@alias zklock.Event "created"|"deleted"|"changed"|"child"

--- "open": every client may do anything. "creator": only clients with the same `auth`. "read": every client may read.
---@alias zklock.Acl "open"|"creator"|"read"|zklock.AclEntry[]

---@alias zklock.OnLost fun(hold: zklock.Hold, reason: zklock.LossReason, message: string)

---@alias zklock.OnRevoke fun(hold: zklock.Hold)

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
---@field session_timeout? number seconds, 0.1 to 86400; default: 10
---@field connect_timeout? number seconds, 0 or more; default: 5
---@field wait? "auto"|"blocking"|"openresty"|"cqueues"|"luv"|"copas"|zklock.Adapter the event loop to wait in; default: "auto"
---@field auth? zklock.AuthEntry[]
---@field acl? zklock.Acl of what locks and client:create create; default: "open"
---@field identity? string the client's name, written into its nodes for other clients, 1 to 1024 bytes; default: "host:pid"
---@field lease? boolean false: a lock counts as held until the server reports the end of the session; default: true
---@field log? zklock.Log
---@field tls? zklock.TlsSettings connect by TLS only; {}: with the authorities of the system

---@class zklock.TlsSettings
---@field ca_file? string file in PEM: the authorities whose certificates a server may have; default: those of the system
---@field ca_path? string directory of such files, as of `openssl rehash`
---@field cert_file? string file in PEM: this client's certificate, with the chain behind it
---@field key_file? string file in PEM: its key; default: cert_file
---@field key_password? string of the key
---@field server_name? string the name that the servers' certificates must have; default: that in the list of servers
---@field verify? boolean false: every certificate of a server is accepted; default: true
---@field min_version? "1.2"|"1.3" default: "1.2"
---@field ciphers? string names of OpenSSL's, separated by colons; default: OpenSSL's

---@class zklock.LockOptions
---@field reentrant? boolean the holder may acquire again, which is counted; default: false
---@field identity? string the name written into this lock's nodes; default: the client's
---@field acl? zklock.Acl for this lock's nodes; default: the client's
---@field wait_release? boolean release waits until the server has acknowledged it; default: true
---@field handoff? integer how many acquisitions a node serves after its first one, if other clients queue; default: 16
---@field linger? number seconds that a released lock stays, unless another client queues; of a semaphore: 0 only; default: 0
---@field max_hold? number seconds, more than 0, after which a grant ends by itself; default: never
---@field metrics? string the lock group in which it is measured, 1 to 64 bytes of UTF-8; default: "default"
---@field on_lost? zklock.OnLost
---@field on_revoke? zklock.OnRevoke

---@class zklock.ClusterMutexOptions
---@field ttl? number seconds, more than 0, after which the mutex ends by itself; default: 60
---@field timeout? number seconds, 0 or more, to wait for another program; default: ttl
---@field no_wait? boolean returns false at once if another program is ahead; default: false
---@field no_cleanup? boolean the mutex stays held until ttl is over; default: false

---@class zklock.OnceOptions
---@field every? number seconds, more than 0: the length of a period by the servers' clock; 86400: the days in UTC
---@field slot? string the name of the period, 1 to 1024 bytes, in place of every
---@field timeout? number seconds, 0 or more (0: a try) to wait for another program; default: for ever
---@field retry_failed? boolean a function that has failed runs again in the same period; default: false

---@class zklock.AcquireOptions
---@field timeout? number seconds, 0 or more (0: a try); default: for ever
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field callback? fun(hold: zklock.Hold?, message: string?, code: zklock.Code?) acquire returns a call at once

---@class zklock.WithLockOptions
---@field timeout? number seconds, 0 or more (0: a try); default: for ever
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field min_hold? number seconds, more than 0, for which the lock is kept at least; default: until fn ends

---@class zklock.MultiAcquireOptions
---@field timeout? number seconds, 0 or more (0: a try); default: for ever
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false

---@class zklock.TryOptions
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field callback? fun(hold: zklock.Hold?, message: string?, code: zklock.Code?) try_acquire returns a call at once

---@class zklock.SemaphoreAcquireOptions
---@field timeout? number seconds, 0 or more (0: a try); default: for ever
---@field count? integer the permits wanted, together or not at all, 1 to 1000; default: 1
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field callback? fun(hold: zklock.Hold?, message: string?, code: zklock.Code?) acquire returns a call at once

---@class zklock.SemaphoreWithLockOptions
---@field timeout? number seconds, 0 or more (0: a try); default: for ever
---@field count? integer the permits wanted, together or not at all, 1 to 1000; default: 1
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field min_hold? number seconds, more than 0, for which the permits are kept at least; default: until fn ends

---@class zklock.SemaphoreTryOptions
---@field count? integer the permits wanted, together or not at all, 1 to 1000; default: 1
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field callback? fun(hold: zklock.Hold?, message: string?, code: zklock.Code?) try_acquire returns a call at once

--- Of a watch's wait, a transaction's commit, and a leader's question.
---@class zklock.WaitOptions
---@field timeout? number seconds, 0 or more; default: for ever
---@field callback? fun(...: any) gets the results; the function returns a call at once

---@class zklock.LeaderOptions
---@field on_elected? fun(token: string) the candidate is elected; the fencing token of its term
---@field on_lost? fun(reason: zklock.TermEnd) its term has ended
---@field identity? string the candidate's name, for other clients, 1 to 1024 bytes; default: the client's
---@field acl? zklock.Acl default: the client's
---@field metrics? string the lock group in which its waits and terms are measured; default: "leader"

---@class zklock.ReleaseOptions
---@field wait? boolean false returns at once; default: the lock's wait_release
---@field timeout? number the longest wait in seconds, 0 or more; default: the session timeout

---@class zklock.ReadOptions
---@field timeout? number seconds, 0 or more; default: for ever
---@field callback? fun(...: any) gets the results; the function returns a call at once
---@field watch? boolean sets a watch; default: false

---@class zklock.WriteOptions
---@field timeout? number seconds, 0 or more; default: for ever
---@field callback? fun(...: any) gets the results; the function returns a call at once
---@field version? integer only if the node has this version; default: -1 (any version)

---@class zklock.SyncOptions
---@field timeout? number seconds, 0 or more; default: for ever
---@field callback? fun(...: any) gets the results; the function returns a call at once

---@class zklock.CreateOptions
---@field timeout? number seconds, 0 or more; default: for ever
---@field callback? fun(...: any) gets the results; the function returns a call at once
---@field ephemeral? boolean the node is deleted when the session ends; default: false
---@field sequential? boolean ZooKeeper appends a number of ten digits; default: false
---@field container? boolean the server deletes the node once it has had children and has none left; default: false
---@field acl? zklock.Acl default: the client's

---@class zklock.PartCreateOptions
---@field ephemeral? boolean the node is deleted when the session ends; default: false
---@field sequential? boolean ZooKeeper appends a number of ten digits; default: false
---@field acl? zklock.Acl default: the client's

--- Times are seconds since 1970. Ids are strings of 16 hexadecimal digits, all zeros if there is no owner.
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

--- A contender of zklock.inspect, with all that its node tells.
---@class zklock.Contender: zklock.inspect.Contender
---@field identity string the name in its node; "" if its client writes none

--- Counters since the client was opened. `entries`, `watches` and `memory` are present values; `memory` is in bytes, of all clients
--- of the process.
---@class zklock.Stats
---@field requests integer
---@field heartbeats integer
---@field notifications integer
---@field acquisitions integer acquisitions that the program has asked for
---@field grants integer
---@field refusals integer
---@field hand_overs integer the part of the grants that needed no request
---@field losses integer
---@field unknown_outcomes integer
---@field connections integer
---@field sessions integer
---@field entries integer entries whose nodes exist or may exist now
---@field watches integer
---@field memory integer
---@field reconnects integer
---@field group_overflows integer locks made in the group "other", because there were 32 groups
---@field wait_time table histogram of the seconds from asking for a lock to its grant

--- What was measured of the locks of one lock group.
---@class zklock.GroupStats
---@field waiting integer acquisitions that wait now
---@field held integer acquisitions that hold now
---@field refusals table<zklock.Code, integer> acquisitions that were answered without the lock
---@field losses table<string, integer> holds that were lost, by reason: "lost", "max_hold", "closed"
---@field wait_time table histogram of the seconds from asking for a lock to its grant
---@field hold_time table histogram of the seconds from a grant to its end

---@class zklock.ViewOptions
---@field paths string[]
---@field client? zklock.Client default: the only open client of zklock.shared
---@field hosts? string[] names under which browsers reach it, besides the server's name

---@class zklock.CollectorOptions
---@field dict? string the name of a lua_shared_dict for the metrics of all workers of nginx; default: this process only

--- A holder or waiter of a lock, as any client can see it. The reference explains the fields: zklock.inspect.
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

--- Of inspect.lock and inspect.locks.
---@class zklock.InspectOptions
---@field timeout? number seconds, 0 or more; default: the session timeout
---@field identities? boolean|integer whose nodes are read: true: all, a number: so many of the first, false: the holders'

--- The sessions of the servers, as far as they are known. `problems` says why something is unknown.
---@class zklock.inspect.Sessions
---@field known boolean the list of sessions is complete
---@field connections boolean the list of connections is complete
---@field by_id table<string, zklock.inspect.Session>
---@field problems string[]

---@class zklock.inspect.Session
---@field connected? boolean
---@field address? string of the client
---@field timeout? number seconds
---@field server? string

--- A change of a lock's queue.
---@class zklock.inspect.Change
---@field event "joined"|"left"|"holds"|"gap"|"created"|"deleted"
---@field path string
---@field contender? zklock.inspect.Contender of "joined", "left" and "holds"
---@field reason? "fast"|"session"|"directory" of a gap
---@field missed? integer of a gap: creates and deletes that were not seen; nil: unknown

--- How to wait in an event loop. `waiter` is a table that is empty at first and belongs to the adapter.
---@class zklock.Adapter
---@field wait fun(client: zklock.Client, waiter: table, seconds: number): true?, string?, zklock.Code? may return early
---@field wake fun(waiter: table) makes the wait of that waiter return soon
---@field name? string for messages
---@field yields? boolean|fun(): boolean false: wait never yields; a function tells whether it may yield here and now
---@field prepare? fun(settings: table): true?, string?, zklock.Code? called before a client is opened
---@field alone? boolean wait blocks the whole program
---@field may_block_for? fun(): number? how many seconds other calls may block the whole program here and now; nil: not at all
---@field here? fun(): table|nil the adapter to use in place of this one here and now; nil: this one
---@field owner? fun(): table|nil the thing for which the running coroutine works, such as a request: it owns the holds
---@field bind? fun(hold: table) a lock was asked for: the adapter may end its acquisition together with the task that runs
---@field keep? fun(hold: table) a lock was acquired with `keep = true`: its acquisition must not end that way
---@field enclose? fun(hold: table) with_lock, called by the running coroutine, holds the lock from now on
---@field attach? fun(client: zklock.Client) the client was opened
---@field calls? fun(client: zklock.Client, has_calls: boolean) callbacks wait for answers, or no longer do
---@field can_call? fun(client: zklock.Client): true?, string?, zklock.Code? whether callbacks asked for here are going to be called
---@field sending? fun(client: zklock.Client) called before an acquisition or a release sends something
---@field new_waiter? fun(): table returns a new table for a wait loop
---@field forget? fun(waiter: table) the waiter will not continue
---@field detach? fun(client: zklock.Client) the client is closed
---@field attend? fun(client: zklock.Client) the program is to be notified although perhaps no coroutine waits: run the pump
---@field spawn? fun(fn: fun()) runs fn in a new coroutine: for the program's callbacks

-- The module ----------------------------------------------------------------------------------------------------------

---@class zklock
---@field VERSION string "MAJOR.MINOR.PATCH"
local zklock = {}

--- Opens a client: one session with ZooKeeper, maintained in the background and replaced when it expires.
---@param servers? string "host:2181,host:2181/chroot"; nil: those of the configuration of this machine
---@param settings? zklock.ConnectOptions
---@return zklock.Client? client
---@return string? message
---@return zklock.Code? code
function zklock.connect(servers, settings) end

--- Returns the only client of this Lua state (in nginx: of this worker) for a server list and options. Does not wait.
---@param servers? string "host:2181,host:2181/chroot"; nil: those of the configuration of this machine
---@param settings? zklock.ConnectOptions
---@return zklock.Client? client
---@return string? message
---@return zklock.Code? code
function zklock.shared(servers, settings) end

--- Returns the path of a key below a prefix. Any string is a key. Different keys give different paths.
---@param prefix string
---@param key string
---@return string path
function zklock.path(prefix, key) end

-- Client --------------------------------------------------------------------------------------------------------------

--- One ZooKeeper session.
---@class zklock.Client
local Client = {}

--- Returns the present state of the session; nil in a forked process.
---@return zklock.State? state
---@return string problem the reason why the state is not "connected"; "" if there is none
---@return zklock.Code? code
function Client:state() end

--- Returns the session timeout that the server granted, in seconds; 0 before the first session.
---@return number seconds
function Client:session_timeout() end

--- Calls fn at each change of the state. Returns a function that removes fn.
---@param event "state"
---@param fn zklock.OnState
---@return fun() off
function Client:on(event, fn) end

--- Returns the counters of the client.
---@return zklock.Stats? stats
---@return string? message
---@return zklock.Code? code
function Client:stats() end

--- Returns what was measured of the locks of each lock group, by its name.
---@return table<string, zklock.GroupStats>? stats
---@return string? message
---@return zklock.Code? code
function Client:group_stats() end

--- Runs the callbacks that are due. Does not wait.
function Client:pump() end

--- Returns the file descriptor that is readable while pump has work.
---@return integer? fd
---@return string? message
---@return zklock.Code? code
function Client:pollfd() end

--- For adapters: returns whether pump has, or may soon have, work.
---@return boolean
function Client:needs_pump() end

--- Waits until no clean-up is under way.
---@param timeout? number seconds; default: for ever
---@return true? flushed
---@return string? message
---@return zklock.Code? code
function Client:flush(timeout) end

--- Ends the session. Its locks are free for other clients at once.
---@param timeout? number seconds; default: 5
---@return true? closed
---@return string? message
---@return zklock.Code? code
function Client:close(timeout) end

--- Makes a lock with one holder at a time. Sends nothing.
---@param path string the lock's directory, 32768 bytes at most; created if it does not exist
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

--- Makes a countdown latch. Sends nothing.
---@param path string
---@param count integer 0 (open from the beginning) to 2147483647
---@param settings? zklock.LatchOptions
---@return zklock.Latch latch
function Client:latch(path, count, settings) end

--- Makes one lock of several locks: all are acquired, or none. Sends nothing.
---@param locks zklock.Lock[] each on a different path
---@return zklock.Multi multi
function Client:multi(locks) end

--- Runs a function once in the whole fleet. Programs that call this meanwhile with the same key wait for its end, and run nothing.
--- Returns true if fn has run, false if another contender was ahead, or nil, message, code.
---@param key string
---@param settings? zklock.ClusterMutexOptions
---@param fn fun(hold: zklock.Hold)
---@return boolean? ran
---@return string? message
---@return zklock.Code? code
function Client:cluster_mutex(key, settings, fn) end

--- Runs a function once in each period in the whole fleet. Returns true and the results of fn if it has run; false and the record
--- of the last run, { by =, begun =, age =, outcome =, slot = }, if it had run in this period; or nil, message, code. After "lost"
--- it runs again.
---@param path string
---@param settings zklock.OnceOptions
---@param fn fun(hold: zklock.Hold): ...: any
---@return boolean? ran
---@return any ...
function Client:once(path, settings, fn) end

--- Makes a candidate for leadership, and begins its campaign.
---@param path string
---@param settings? zklock.LeaderOptions
---@return zklock.Leader? leader
---@return string? message
---@return zklock.Code? code
function Client:leader(path, settings) end

--- Begins a transaction. The server executes all of its checks and writes together, or none of them.
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

--- Tells whether a node exists; false: it does not.
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

--- Waits until the server has caught up with its leader.
---@param path string
---@param settings? zklock.SyncOptions
---@return true? done
---@return string? message
---@return zklock.Code? code
function Client:sync(path, settings) end

-- Hold ----------------------------------------------------------------------------------------------------------------

--- One acquisition of a lock, which any code may use. Lua 5.4's `local hold <close> = …` releases it at the end of the block.
---@class zklock.Hold
local Hold = {}

--- Releases the lock, or one level of a reentrant lock.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message
---@return zklock.Code? code
function Hold:release(settings) end

--- Returns whether it is held at this instant. Sends nothing.
---@return boolean held
function Hold:held() end

--- Returns how long it is certainly held without further answers from ZooKeeper; math.huge without a lease.
---@return number seconds
function Hold:remaining() end

--- Returns how long it was waited for: 0 exactly if no contender was before it.
---@return number? seconds nil when not held
function Hold:waited() end

--- Makes it end by itself so many seconds from now, earlier or later than before. Sends nothing.
---@param seconds? number more than 0; math.huge: no limit; default: the option max_hold, without it no limit
---@return true? extended
---@return string? message
---@return zklock.Code? code
function Hold:extend(seconds) end

--- Returns the fencing token. Tokens of one path can be compared as strings, in every locale.
---@return string? token
function Hold:token() end

--- Returns the token as three whole numbers below 2^32, for stores that compare integers. The first number that differs decides.
---@return number? high the upper 32 bits of the czxid of the lock's node
---@return number? low the lower 32 bits of it
---@return number? grants how many grants the node has served before
function Hold:token_numbers() end

--- Returns the path of its lock.
---@return string path
function Hold:path() end

--- Returns the path of the node by which it is held.
---@return string? node
function Hold:node() end

--- Begins a transaction that is executed only if it is still held (of a semaphore: all of its permits).
---@return zklock.Transaction transaction
function Hold:transaction() end

-- Lock ----------------------------------------------------------------------------------------------------------------

--- A lock, which is acquired and released. Its methods about a hold mean the one that the running coroutine has acquired by it.
---@class zklock.Lock
local Lock = {}

--- Acquires the lock; waits in the queue if necessary. With a callback it returns a call, and the callback gets the hold.
---@param timeout? number|zklock.AcquireOptions seconds (0: a try); default: for ever
---@return zklock.Hold|zklock.Call|nil hold
---@return string? message
---@return zklock.Code? code
function Lock:acquire(timeout) end

--- Acquires the lock if it is free and no contender is ahead. A refused try has written nothing. A try is also refused while the
--- lock lingers at another client, which gives it up only to a contender that queues: then acquire with a timeout.
---@param settings? zklock.TryOptions
---@return zklock.Hold? hold
---@return string? message
---@return zklock.Code? code
function Lock:try_acquire(settings) end

--- Ends the waits of other coroutines in this object's acquire. In nginx, only the waits of this request.
---@return boolean was_waiting whether there was a wait to end
function Lock:cancel() end

--- Releases the running coroutine's hold: as Hold:release.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message
---@return zklock.Code? code
function Lock:release(settings) end

--- Runs fn(hold, …) while holding the lock, and always releases the lock. Returns true and the results of fn; or nil, message,
--- code. If the code is "lost" and fn ran, its results follow.
---@param fn fun(hold: zklock.Hold, ...: any): ...: any
---@param timeout? number|zklock.WithLockOptions as of acquire
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function Lock:with_lock(fn, timeout, ...) end

--- As Hold:held.
---@return boolean held
function Lock:held() end

--- As Hold:remaining.
---@return number seconds
function Lock:remaining() end

--- As Hold:waited.
---@return number? seconds nil when not held
function Lock:waited() end

--- As Hold:extend.
---@param seconds? number more than 0; math.huge: no limit; default: the option max_hold, without it no limit
---@return true? extended
---@return string? message
---@return zklock.Code? code
function Lock:extend(seconds) end

--- As Hold:token.
---@return string? token
function Lock:token() end

--- As Hold:token_numbers.
---@return number? high the upper 32 bits of the czxid of the lock's node
---@return number? low the lower 32 bits of it
---@return number? grants how many grants the node has served before
function Lock:token_numbers() end

--- Returns the path that the lock was made with.
---@return string path
function Lock:path() end

--- As Hold:node.
---@return string? node
function Lock:node() end

--- Lists the holders and the waiters, in queue order.
---@param timeout? number seconds; default: the session timeout
---@return zklock.Contender[]? contenders
---@return string? message
---@return zklock.Code? code
function Lock:contenders(timeout) end

--- Asks all holders of the lock to release it. Returns how many were asked.
---@param timeout? number seconds; default: the session timeout
---@return integer? asked
---@return string? message
---@return zklock.Code? code
function Lock:revoke(timeout) end

--- As Hold:transaction.
---@return zklock.Transaction transaction
function Lock:transaction() end

-- RwLock --------------------------------------------------------------------------------------------------------------

--- A lock that readers share and a writer has alone.
---@class zklock.RwLock
---@field read zklock.Lock the lock that readers take
---@field write zklock.Lock the lock that a writer takes
local RwLock = {}

--- Runs fn(rw.read, …) while holding the read lock: as Lock:with_lock.
---@param fn fun(hold: zklock.Hold, ...: any): ...: any
---@param timeout? number|zklock.WithLockOptions
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function RwLock:with_read(fn, timeout, ...) end

--- Runs fn(rw.write, …) while holding the write lock: as Lock:with_lock.
---@param fn fun(hold: zklock.Hold, ...: any): ...: any
---@param timeout? number|zklock.WithLockOptions
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function RwLock:with_write(fn, timeout, ...) end

--- Returns the path that the lock was made with.
---@return string path
function RwLock:path() end

--- Lists the holders and the waiters, readers and writers.
---@param timeout? number seconds; default: the session timeout
---@return zklock.Contender[]? contenders
---@return string? message
---@return zklock.Code? code
function RwLock:contenders(timeout) end

-- Semaphore -----------------------------------------------------------------------------------------------------------

--- A lock with several permits.
---@class zklock.Semaphore : zklock.Lock
local Semaphore = {}

--- Acquires permits; waits in the queue if necessary. With a callback it returns a call, and the callback gets the permits.
---@param timeout? number|zklock.SemaphoreAcquireOptions seconds (0: a try); default: for ever
---@return self|zklock.Call|nil semaphore
---@return string? message
---@return zklock.Code? code
function Semaphore:acquire(timeout) end

--- Acquires permits if enough are free and no contender is ahead. A refused try has written nothing.
---@param settings? zklock.SemaphoreTryOptions
---@return self? semaphore
---@return string? message
---@return zklock.Code? code
function Semaphore:try_acquire(settings) end

--- Runs fn(semaphore, …) while holding permits: as Lock:with_lock.
---@param fn fun(semaphore: zklock.Semaphore, ...: any): ...: any
---@param timeout? number|zklock.SemaphoreWithLockOptions as of acquire
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function Semaphore:with_lock(fn, timeout, ...) end

--- Returns how many permits the semaphore has.
---@return integer permits
function Semaphore:permits() end

--- Returns how many permits are free now.
---@param timeout? number seconds; default: the session timeout
---@return integer? available
---@return string? message
---@return zklock.Code? code
function Semaphore:available(timeout) end

-- Latch ---------------------------------------------------------------------------------------------------------------

---@class zklock.LatchOptions
---@field acl? zklock.Acl of the latch's nodes; default: the client's

--- A countdown latch.
---@class zklock.Latch
local Latch = {}

--- Counts down by one.
---@param timeout? number seconds (0: does not wait for a connection); default: for ever
---@return true? counted
---@return string? message
---@return zklock.Code? code
function Latch:count_down(timeout) end

--- Waits until the count is 0.
---@param timeout? number seconds (0: asks once); default: for ever
---@return true? open
---@return string? message
---@return zklock.Code? code
function Latch:wait(timeout) end

--- Returns how many count-downs are missing.
---@param timeout? number seconds; default: the session timeout
---@return integer? missing
---@return string? message
---@return zklock.Code? code
function Latch:count(timeout) end

--- Ends the waits of other coroutines in this object's methods.
---@return boolean cancelled whether there was a wait
function Latch:cancel() end

--- Returns the path that the latch was made with.
---@return string path
function Latch:path() end

-- Multi ---------------------------------------------------------------------------------------------------------------

--- The holds of all members of a multi, as one, which any code may use.
---@class zklock.MultiHold
local MultiHold = {}

--- Releases all members, even if some releases fail.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message
---@return zklock.Code? code
function MultiHold:release(settings) end

--- Returns whether all members are held at this instant. Sends nothing.
---@return boolean held
function MultiHold:held() end

--- Returns how long all members are certainly held.
---@return number seconds
function MultiHold:remaining() end

--- Returns the holds of the members, in the order in which they were acquired.
---@return zklock.Hold[] holds
function MultiHold:holds() end

--- Begins a transaction that is executed only if all members are still held. The server checks that together with the writes.
---@return zklock.Transaction transaction
function MultiHold:transaction() end

--- Several locks as one: all are held, or none.
---@class zklock.Multi
local Multi = {}

--- Acquires all members, or none.
---@param timeout? number|zklock.MultiAcquireOptions seconds (0: a try); default: for ever
---@return zklock.MultiHold? hold
---@return string? message
---@return zklock.Code? code
function Multi:acquire(timeout) end

--- Acquires all members if all are free and no contender is ahead.
---@return zklock.MultiHold? hold
---@return string? message
---@return zklock.Code? code
function Multi:try_acquire() end

--- Ends the waits of other coroutines in this object's acquire. In nginx, only the waits of this request.
---@return boolean was_waiting whether there was a wait to end
function Multi:cancel() end

--- Releases what the running coroutine holds of the members: as MultiHold:release.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message
---@return zklock.Code? code
function Multi:release(settings) end

--- Runs fn(hold, …) while holding all members, and always releases them: as Lock:with_lock.
---@param fn fun(hold: zklock.MultiHold, ...: any): ...: any
---@param timeout? number|zklock.WithLockOptions as of acquire
---@param ... any further arguments for fn
---@return true? ran
---@return any ...
function Multi:with_lock(fn, timeout, ...) end

--- As MultiHold:held.
---@return boolean held
function Multi:held() end

--- As MultiHold:remaining.
---@return number seconds
function Multi:remaining() end

--- Returns the members, in the order in which they are acquired.
---@return zklock.Lock[] members
function Multi:members() end

--- As MultiHold:transaction.
---@return zklock.Transaction transaction
function Multi:transaction() end

-- Transaction ---------------------------------------------------------------------------------------------------------

--- Several checks and writes that ZooKeeper executes all together, or none of them.
---@class zklock.Transaction
local Transaction = {}

--- Requires that a node exists, and has a version.
---@param path? string nil only in a lock's transaction, which always checks the lock's own nodes
---@param version? integer default: any
---@return self transaction
function Transaction:check(path, version) end

--- Creates a node. The result of this part is the node's path.
---@param path string
---@param data? string
---@param settings? zklock.PartCreateOptions
---@return self transaction
function Transaction:create(path, data, settings) end

--- Writes a node's data. The result of this part is the node's new stat.
---@param path string
---@param data? string
---@param version? integer default: any
---@return self transaction
function Transaction:set(path, data, version) end

--- Deletes a node. The result of this part is true.
---@param path string
---@param version? integer default: any
---@return self transaction
function Transaction:delete(path, version) end

--- Sends the transaction. The server executes all parts, or none.
---@param timeout? number|zklock.WaitOptions seconds; default: for ever
---@return (true|string|zklock.Stat)[]|zklock.Call|nil results of each part in its order
---@return string? message
---@return zklock.Code? code
---@return integer? part the number of the part that failed, if a single part caused the failure
function Transaction:commit(timeout) end

-- Watch ---------------------------------------------------------------------------------------------------------------

--- A watch. It fires once, at the first change after the read that set it.
---@class zklock.Watch
local Watch = {}

--- Waits until the watch fires.
---@param timeout? number|zklock.WaitOptions seconds; default: for ever
---@return zklock.Event|zklock.Call|nil event
---@return string? message
---@return zklock.Code? code
function Watch:wait(timeout) end

--- Returns the event of the watch, without waiting; nil: it has not fired.
---@return zklock.Event? event
function Watch:fired() end

--- Ends the watch. Every wait for it ends with the code "cancelled".
function Watch:cancel() end

--- Returns the path that is watched.
---@return string path
function Watch:path() end

-- Metrics -------------------------------------------------------------------------------------------------------------

--- What clients measure, in the text form that Prometheus reads: require "zklock.metrics".
---@class zklock.metrics
---@field CONTENT_TYPE string
local metrics = {}

--- Returns the metrics of one client.
---@param client zklock.Client
---@param labels? table<string, string> which all its metrics get
---@return string? text
---@return string? message
---@return zklock.Code? code
function metrics.text(client, labels) end

--- Makes a collector, inside nginx with `dict` for all workers.
---@param settings? zklock.CollectorOptions
---@return zklock.Collector? collector
---@return string? message
---@return zklock.Code? code
function metrics.collector(settings) end

--- Some clients, and one page of their metrics.
---@class zklock.Collector
local Collector = {}

--- Adds a client. Returns the collector.
---@param client zklock.Client
---@param labels? table<string, string> which all its metrics get
---@return zklock.Collector collector
function Collector:add(client, labels) end

--- Returns the metrics of all clients: of this process, or of all workers.
---@return string text
function Collector:text() end

--- Answers an nginx request with the page, behind that of nginx-lua-prometheus if its object is given.
---@param prometheus? table
function Collector:serve(prometheus) end

-- The live view -------------------------------------------------------------------------------------------------------

--- The live view of locks, served by nginx: require "zklock.ui".
---@class zklock.ui
local ui = {}

--- Answers an nginx request with the live view of the locks at some paths.
---@param settings zklock.ViewOptions
function ui.serve(settings) end

-- Inspection ----------------------------------------------------------------------------------------------------------

--- The locks of a directory, as any client can see them: require "zklock.inspect".
---@class zklock.inspect
local inspect = {}

--- Reads one lock.
---@param client zklock.Client
---@param path string
---@param settings? zklock.InspectOptions
---@return zklock.inspect.State|false|nil state false: there is no such node
---@return string? message
---@return zklock.Code? code
function inspect.lock(client, path, settings) end

--- Reads all locks at a path and below it.
---@param client zklock.Client
---@param path string
---@param settings? zklock.InspectOptions
---@return zklock.inspect.State[]? states
---@return string[]|string|nil unreadable paths that may not be read, or do not exist; or message
---@return zklock.Code? code
function inspect.locks(client, path, settings) end

--- Asks all servers which sessions there are, by four-letter words. Blocks the whole program, in every event loop.
---@param servers string
---@param timeout? number seconds for each answer; default: 2
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

--- Makes a watcher of a lock. Sends nothing: the first call of next reads the lock.
---@param client zklock.Client
---@param path string
---@return zklock.Watcher watcher
function inspect.watch(client, path) end

--- Returns the next change of several watchers of one client.
---@param watchers zklock.Watcher[]
---@param timeout? number seconds; default: for ever
---@return zklock.inspect.Change? change
---@return string? message
---@return zklock.Code? code
function inspect.next_change(watchers, timeout) end

--- Returns the present time for computing ages: the local clock, or the newest node's time if that is later.
---@param states zklock.inspect.State[]
---@return number seconds
function inspect.now(states) end

--- The changes of a lock's queue, one after the other. inspect.watch makes it.
---@class zklock.Watcher
local Watcher = {}

--- Returns the next change. The first ones are the contenders that are there already, as "joined".
---@param timeout? number seconds to wait for a change; default: for ever
---@return zklock.inspect.Change? change
---@return string? message
---@return zklock.Code? code
function Watcher:next(timeout) end

---Removes the watches. From now on `next` answers "closed", also where it waits already.
function Watcher:close() end

-- Call ----------------------------------------------------------------------------------------------------------------

--- Something that was asked for with the option `callback`. The pump calls the callback exactly once.
---@class zklock.Call
local Call = {}

--- Ends the call: the callback gets the code "cancelled", from the pump.
---@return boolean was_pending whether the answer was still to come
function Call:cancel() end

-- Leader --------------------------------------------------------------------------------------------------------------

--- A candidate for leadership, which campaigns in the background.
---@class zklock.Leader
local Leader = {}

--- Returns whether this candidate leads at this instant, by the lease.
---@return boolean
function Leader:is_leader() end

--- Returns the fencing token of the present term; nil: this candidate does not lead.
---@return string? token
function Leader:token() end

--- Asks the servers who leads.
---@param timeout? number|zklock.WaitOptions seconds; default: the session timeout
---@return string|zklock.Call|nil identity
---@return string? message
---@return zklock.Code? code
function Leader:leader(timeout) end

--- Gives up the leadership, and goes to the end of the queue.
---@return boolean was_leader
function Leader:resign() end

--- Ends the candidacy.
function Leader:close() end

return zklock

--- virtual.not_in_testing: the specs of behaviour that zklock.testing does not pass, by the reason. "file" leaves out a file, and
-- "file: words" the specs and groups of it whose full titles have these words. Each entry must leave out something.

return {
    ["counts the requests, watches or notifications of the C client"] = {
        "many_held",
        "multi_requests",
        "mutex_passes",
        "mutex_requests",
        "semaphore_waits",
        "watches",
        "callback_acquire: without a request",
        "inspect: permits, limit and queue of a semaphore",
        "inspect_tree: reads each new contender once",
        "latch: notifies no waiter before the last",
        "mutex_exclusion: three hundred locks",
        "rwlock_sharing: leaves, it wakes only",
        "rwlock_sharing: takes two requests",
        "transaction: permits that came from another",
        "ui_model: the same requests for 50 viewers"
    },
    ["has a fault in the midst of a request, or servers that stop, or do not answer as they should"] = {
        "connection_loss",
        "multi_faults",
        "no_containers",
        "primitives_disconnected",
        "semaphore_faults",
        "semaphore_resize: may or may not count",
        "servers_move",
        "session_loss",
        "strange_servers",
        "blocking: keeps waiting when the connection is lost",
        "inspect_watch: answers closed where it reads",
        "inspect_watch: with the code of a failure where it looks",
        "latch: deleted during a call",
        "latch: delayed",
        "latch: finds no gate",
        "latch: lost its re",
        "latch: reaped",
        "once: although the reply is lost",
        "primitives_watch: whose reply is lost",
        "rwlock_downgrade: if its writer is lost in between",
        "rwlock_downgrade: is done once",
        "transaction: whose connection is cut"
    },
    ["is about nodes that one acquisition passes on to the next one of its client: handoff, linger"] = {
        "handoff",
        "handoff_permits",
        "handoff_readers",
        "linger",
        "adapter: is not woken by a watch",
        "blocking: gives a lingering lock",
        "cluster_mutex: returns false to those that have waited",
        "extend: many that take turns",
        "owner: passes to on_lost and on_revoke",
        "shared_client: often the same"
    },
    ["is about the nodes that the head of a semaphore's queue makes early"] = {
        "semaphore_permits: then the waiters"
    },
    ["is about rights, credentials, TLS or chroots"] = {
        "inspect_rights",
        "mutex_nodes",
        "bad_input: tls_failed",
        "configuration: it cannot be used",
        "configuration: takes credentials",
        "inspect: may not be read",
        "inspect_tree: may not read again",
        "latch: chroot",
        "latch: forbids",
        "latch: may not be read",
        "leader: refuse is reported",
        "multi_partial_failure: forbids one",
        "multi_release: refuses to delete",
        "primitives_operations: chroot",
        "primitives_operations: the acl",
        "resty_zklock: malformed",
        "revocation: the acl does",
        "semaphore_resize: only a directory above"
    },
    ["is about locks, waits or watches that the program has forgotten: they last in zklock.testing"] = {
        "multi_abandoned",
        "owner_collected",
        "adapter: may forget a waiting coroutine",
        "callback_acquire: hold while the program keeps only",
        "callback_acquire: no longer refers",
        "multi_hold: forgets it",
        "mutex_exclusion: forgets it",
        "owner: stays held when its coroutine",
        "primitives_operations: it is collected",
        "primitives_watch: forgets it",
        "resty_zklock: each key of each",
        "resty_zklock: expire gives",
        "resty_zklock: is collected"
    },
    ["is about a loss that is noticed late, or needs time that passes by work: here both happen at once"] = {
        "lost_release",
        "blocking: longer than its session",
        "max_hold: after a busy time",
        "max_hold: before acquire has returned",
        "multi_order: competes",
        "multi_transaction: refused by the server",
        "revocation: directly after the grant",
        "transaction: any one of a semaphore's permits",
        "ui_model: the clock is set back"
    },
    ["is about callbacks that run inside one another, in the coroutine that pumps: here each has its own"] = {
        "callback_acquire: however many are due at once"
    },
    ["compares times to the nanosecond: here they are floating-point numbers"] = {
        "with_lock: a release while ZooKeeper does not answer"
    },
    ["is about C, its memory, or an error at an instruction of it"] = {
        "adapter: needs a small stack",
        "diagnosis: the text for a bug report",
        "core",
        "interrupt",
        "primitives_operations: frees its memory"
    },
    ["is about numbers, sizes and names that only real servers, or other clients, make"] = {
        "servers_follow",
        "configuration: follows the servers",
        "mutex_numbers",
        "semaphore_others",
        "strange_nodes",
        "inspect: knows other libraries",
        "inspect_tree: sees what a full listing",
        "latch: has a node below",
        "latch: no more nodes",
        "mutex_meddling: made anew",
        "mutex_meddling: waits for kazoo",
        "mutex_meddling: waits for the C recipe",
        "mutex_meddling: waits for zk-ruby",
        "node_formats: takes a permit",
        "primitives_operations: 900 kilobytes",
        "primitives_operations: containers",
        "primitives_operations: own nodes",
        "primitives_watch: more than a reconnect",
        "token: is exact where",
        "transaction: too large"
    }
}

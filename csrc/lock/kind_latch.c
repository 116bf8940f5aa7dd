/*
 * kind_latch: a countdown latch. docs/design.md, "Latches", has the proof. A wait (zkl_latch_kind) is granted when the count is 0.
 * A count-down (zkl_count_kind) is granted when it has counted. Neither has a node: its entry asks (zkl_kind.asks).
 *   <path>              data "<left>/<count> gate-<uuid>", which all writes change by version. Empty: not used yet.
 *   <path>/gate-<uuid>  There until the latch opens. Waits watch it. A wait that ends early leaves it.
 *   <path>/c-<uuid>     A count-down that has counted. Its data is the identity.
 *
 * An entry in PARKED reads <path>, or makes it. In LOOKING a request is in flight, or the gate is watched.
 * The first write creates a gate. A count-down creates c-<uuid>, checks the gate and writes one less, in one transaction.
 * The last count-down deletes the gate: all waits are notified, and read <path> again.
 */
#include <stdio.h>
#include <string.h>

#include "join.h"
#include "leave.h"

#define PARTS 3 /* of a transaction */

/* The part of an acquisition that only a latch has. */
typedef struct {
    char node[ZKL_LATCH_NAME_SIZE]; /* c-<uuid> */
    char gate[ZKL_LATCH_NAME_SIZE]; /* the one that it has seen, or empty */
    uint32_t missed_on;             /* the connection that has shown that this gate is missing, or 0 */
    bool doubted;                   /* it may have counted */
} latch;

/* The memory of a transaction that is in flight. */
typedef struct {
    zkl_entry *entry;
    zoo_op_result_t results[PARTS];
} transaction;

/* Makes a name that no other node has. */
static bool latch_name_of(zkl_locks *locks, const char *prefix, char *name)
{
    return snprintf(name, ZKL_LATCH_NAME_SIZE, "%s%s%012llx", prefix, locks->uuid_stem,
                    (unsigned long long)++locks->serial) > 0;
}

static bool begin_latch(zkl_acquisition *acquisition, const zkl_acquisition_request *request)
{
    (void)request;
    latch *part = acquisition->part = zkl_alloc(sizeof *part);
    return part != NULL && latch_name_of(acquisition->locks, "c-", part->node);
}

static latch *part_of(const zkl_entry *entry)
{
    return entry->acquisition->part;
}

static void grant_latch(zkl_entry *entry)
{
    zkl_acquisition_grant(entry->acquisition, entry);
    zkl_entry_gone(entry);
}

/* Reads again: at once, or in a while. */
static void latch_looks_again(zkl_entry *entry, bool later)
{
    zkl_entry_move(entry, ZKL_ENTRY_PARKED);
    (later ? zkl_entry_back_off : zkl_entry_make_runnable)(entry);
}

static void latch_failed(zkl_entry *entry, int rc)
{
    if (zkl_not_answered(rc) || rc == ZTHROTTLEDOP) {
        latch_looks_again(entry, rc == ZTHROTTLEDOP);
    } else {
        zkl_entry_refuse(entry, rc, "using the latch");
    }
}

static void gate_gone(zkl_entry *entry)
{
    part_of(entry)->missed_on = entry->locks->wire->connection;
    (ZKL_BROKEN(ZKL_BREAK_OPENED) ? grant_latch(entry) : latch_looks_again(entry, false));
}

/* The C client reports success even if parts of the answer say otherwise, or are missing. */
static void on_written(void *owner, int rc, const zkl_reply *reply)
{
    const transaction *made = owner;
    zkl_entry *entry = made->entry;
    int at = made->results[0].err != ZOK ? 0 : made->results[1].err != ZOK ? 1 : 2; /* the part that failed */
    rc = rc == ZOK ? made->results[at].err : rc;
    if (entry->acquisition != NULL && reply->tag > 0 && zkl_outcome_unknown(rc)) {
        part_of(entry)->doubted = true;
    }
    if (entry->acquisition == NULL || reply->generation != entry->generation || entry->state != ZKL_ENTRY_LOOKING) {
        /* the session is over, or the acquisition */
    } else if (reply->tag > 0 && (rc == ZOK || (rc == ZNODEEXISTS && at == 0))) {
        grant_latch(entry);
    } else if (rc == ZOK || rc == ZNODEEXISTS || rc == ZNONODE || rc == ZBADVERSION) {
        part_of(entry)->missed_on = rc == ZNONODE && at == 1 ? reply->connection : 0;
        latch_looks_again(entry, false);
    } else {
        part_of(entry)->node[1] = zkl_outcome_unknown(rc) && ZKL_BROKEN(ZKL_BREAK_COUNTED) ? '+' : '-';
        latch_failed(entry, rc);
    }
}

/* Sends one transaction. `node`, to be created, is a gate, or a count-down after which so many are `left` behind this gate. */
static void transact(zkl_entry *entry, const char *node, const char *gate, long left, int32_t version)
{
    const zkl_lock_spec *spec = entry->acquisition->spec;
    bool counts = node != gate, last = counts && left == 0 && !ZKL_BROKEN(ZKL_BREAK_GATE);
    const char *path = entry->queue->path, *text = counts ? spec->lock.identity : "";
    char data[ZKL_LATCH_DATA_SIZE],
        *created = zkl_child_path(path, node),
        *checked = zkl_child_path(path, !last && ZKL_BROKEN(ZKL_BREAK_UNCHECKED) ? node : gate);
    int length = snprintf(data, sizeof data, "%ld/%d %s", left, (int)spec->lock.permits, gate);
    zoo_op_t ops[PARTS];
    transaction *made = created != NULL && checked != NULL ? zkl_alloc(sizeof *made) : NULL;
    zkl_ask ask = zkl_entry_ask(entry, on_written);
    if (made != NULL) {
        zoo_create_op_init(&ops[0], created, text, (int)strlen(text), &spec->acl, 0, NULL, 0);
        (last ? zoo_delete_op_init : zoo_check_op_init)(&ops[1], checked, -1);
        zoo_set_op_init(&ops[2], path, data, length, version, NULL);
        made->entry = entry;
        ask.owner = ask.memory = made;
        ask.tag = counts;
    }
    if (made == NULL || !zkl_entry_sent(entry, zkl_send_multi(entry->locks->wire, &ask, PARTS, ops, made->results))) {
        latch_looks_again(entry, true);
    }
    zkl_free(created);
    zkl_free(checked);
}

/* Acts on the answer to the read of <path>: ZOK or ZNONODE. */
static void decide(zkl_entry *entry, int rc, const zkl_reply *reply)
{
    latch *part = part_of(entry);
    const char *path = entry->queue->path;
    char data[ZKL_LATCH_DATA_SIZE], gate[ZKL_LATCH_NAME_SIZE] = "";
    long count = entry->acquisition->spec->lock.permits, left = count;
    bool empty = rc == ZNONODE || (reply->length <= 0 && reply->stat->version == 0);
    if (!empty && !zkl_latch_parse(reply->data, reply->length, count, data, gate, &left)) {
        zkl_entry_refuse_all(entry, ZKL_MISMATCH, "the latch '%.300s' has '%s' as its data, and was to count from %ld",
                             path, data, count);
        return;
    }
    if ((part->gate[0] != '\0' && strcmp(part->gate, gate) != 0) ||
        (left > 0 && part->missed_on == reply->connection)) {
        zkl_entry_refuse_all(entry, ZKL_NO_NODE, "the latch '%.300s' was deleted meanwhile%s", path,
                             part->doubted ? "; this count-down may have counted before" : "");
        return;
    }
    memcpy(part->gate, gate, sizeof gate);
    if (left == 0) {
        grant_latch(entry);
    } else if (entry->acquisition->try_only && entry->kind == &zkl_latch_kind) {
        zkl_entry_refuse_all(entry, ZKL_TIMEOUT, "the latch '%.300s' has %ld of %ld left", path, left, count);
    } else if (rc == ZNONODE) {
        zkl_entry_move(entry, ZKL_ENTRY_PARKED);
        zkl_entry_make_directory(entry, "");
    } else if (empty) {
        latch_name_of(entry->locks, "gate-", gate);
        transact(entry, gate, gate, count, 0);
    } else if (entry->kind == &zkl_count_kind) {
        transact(entry, part->node, gate, left - 1, reply->stat->version);
    } else if (!zkl_entry_fits(entry)) {
        zkl_entry_move(entry, ZKL_ENTRY_PARKED);
        zkl_entry_wait_for_budget(entry);
    } else {
        zkl_entry_reserve(entry, true);
        zkl_entry_watch_node(entry, gate);
    }
}

static void on_latch_read(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = owner;
    if (reply->generation == entry->generation && entry->state == ZKL_ENTRY_LOOKING) {
        rc == ZOK || rc == ZNONODE ? decide(entry, rc, reply) : latch_failed(entry, rc);
    }
}

static void ask(zkl_entry *entry)
{
    const zkl_ask ask = zkl_entry_ask(entry, on_latch_read);
    zkl_entry_move(entry, ZKL_ENTRY_LOOKING);
    if (!zkl_entry_sent(entry, zkl_send_get(entry->locks->wire, &ask, entry->queue->path, NULL, NULL))) {
        latch_looks_again(entry, false);
    }
}

#define LATCH_KIND .node = ZKL_NODE_STRANGER, .begin = begin_latch, .released = zkl_entries_leave, .asks = ask

const zkl_kind zkl_latch_kind = {LATCH_KIND, .queues = true, .directory_changed = gate_gone};
const zkl_kind zkl_count_kind = {LATCH_KIND};

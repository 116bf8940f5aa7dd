/*
 * leave: an entry that is not wanted any more. Its node is deleted, and the delete is repeated until the node is gone.
 * An entry that is proven head *passes the lock on* with its first delete: docs/design.md, "Passing a lock on".
 */
#include <stdarg.h>
#include <stdio.h>

#include "adjacent.h"
#include "leave.h"

static void on_deleted(void *owner, int rc, const zkl_reply *reply);
static void on_passed(void *owner, int rc, const zkl_reply *reply);

/* --- what it sends ------------------------------------------------------------------------------------------------- */

/* The parts of the transaction that passes a lock on. */
enum {
    PASS_MAKE_FLAG,
    PASS_DELETE,
    PASS_DELETE_FLAG,
    PASS_PARTS
};

/* The memory that the C client writes into while it is in flight. */
struct pass {
    zkl_entry *entry;
    zoo_op_result_t results[PASS_PARTS];
};

/* Returns whether the delete passes the lock on: no node is before the entry's. */
static bool passes_on(const zkl_entry *entry)
{
    const zkl_tenure *tenure = &entry->tenure;
    bool at_head = tenure->place == ZKL_PLACE_HEAD || tenure->place == ZKL_PLACE_HEAD_BY_NUMBER;
    return ((tenure->passes && at_head && zkl_queue_has_flags(entry->queue)) ||
            (entry->kind->passes && ZKL_BROKEN(ZKL_BREAK_PASS))) &&
           !tenure->delete_outcome_unknown;
}

static bool send_pass(zkl_entry *entry)
{
    struct pass *pass = zkl_alloc(sizeof *pass);
    char *flag = zkl_queue_flag(entry->queue, zkl_entry_name(entry));
    bool sent = false;
    if (pass != NULL && flag != NULL) {
        pass->entry = entry;
        zkl_ask ask = zkl_entry_ask(entry, on_passed);
        ask.owner = ask.memory = pass;
        ask.proof = ZKL_PROOF_QUORUM;
        zoo_op_t ops[PASS_PARTS];
        zoo_create_op_init(&ops[PASS_MAKE_FLAG], flag, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
        zoo_delete_op_init(&ops[PASS_DELETE], entry->node, -1);
        zoo_delete_op_init(&ops[PASS_DELETE_FLAG], flag, -1);
        sent = zkl_entry_sent(entry, zkl_send_multi(entry->locks->wire, &ask, PASS_PARTS, ops, pass->results));
    } else {
        zkl_free(pass);
    }
    zkl_free(flag);
    return sent;
}

static bool send_delete(zkl_entry *entry)
{
    zkl_ask ask = zkl_entry_ask(entry, on_deleted);
    ask.proof = ZKL_PROOF_QUORUM;
    return zkl_entry_sent(entry, zkl_send_delete(entry->locks->wire, &ask, entry->node, -1));
}

void zkl_entry_step_leaving(zkl_entry *entry)
{
    if (zkl_entry_has_sent(entry, ZKL_REQUEST_DELETE)) {
        return;
    }
    bool sent = passes_on(entry) ? send_pass(entry) : send_delete(entry);
    if (!zkl_entry_note_request(entry, ZKL_REQUEST_DELETE, sent)) {
        entry->tenure.delete_outcome_unknown = true;
        zkl_entry_make_runnable(entry);
    }
}

void zkl_entry_leave(zkl_entry *entry)
{
    if (!entry->wanted) {
        return;
    }
    zkl_entry_not_wanted(entry);
    switch (entry->state) {
    case ZKL_ENTRY_PARKED:
    case ZKL_ENTRY_LOOKING:
        zkl_entry_gone(entry);
        break;
    case ZKL_ENTRY_JOINING:
    case ZKL_ENTRY_RECOVERING:
        /* The reply decides. The entry will arm no watch, and the fate of its node may never be known. */
        zkl_entry_reserve(entry, false);
        break;
    case ZKL_ENTRY_GRANTED:
    case ZKL_ENTRY_LINGERING:
        entry->tenure.use = ZKL_USE_LEFT;
        zkl_watch_leave_directory(&entry->item);
        __attribute__((fallthrough));
    case ZKL_ENTRY_QUEUED:
    case ZKL_ENTRY_CONFIRMING:
        zkl_watch_leave(&entry->item);
        zkl_watch_leave_own(&entry->item);
        zkl_entry_reserve(entry, false);
        zkl_entry_move(entry, ZKL_ENTRY_LEAVING);
        zkl_entry_step(entry);
        break;
    case ZKL_ENTRY_LEAVING:
    case ZKL_ENTRY_GONE:
        break;
    }
}

void zkl_entries_leave(zkl_acquisition *acquisition)
{
    zkl_entry *entry, *next;
    for (entry = LIST_FIRST(&acquisition->entries); entry != NULL; entry = next) {
        next = LIST_NEXT(entry, in_acquisition);
        zkl_entry_leave(entry);
    }
}

bool zkl_entry_adopt(zkl_queue *queue, const char *name, uint64_t serial)
{
    zkl_entry *entry = zkl_entry_new_stray(queue, serial);
    if (entry == NULL) {
        return false;
    }
    if (!zkl_entry_set_node(entry, name, zkl_node_parse(name).sequence)) {
        zkl_entry_gone(entry);
        return false;
    }
    zkl_entry_move(entry, ZKL_ENTRY_LEAVING);
    zkl_entry_step(entry);
    return true;
}

/* --- deleted ------------------------------------------------------------------------------------------------------- */

static void on_deleted(void *owner, int rc, const zkl_reply *reply)
{
    zkl_entry *entry = owner;
    if (rc == ZOK) {
        zkl_session_prove(entry->locks->session, reply->sent_at);
        entry->locks->writes++;
    }
    if (reply->generation != entry->generation || entry->state != ZKL_ENTRY_LEAVING) {
        return;
    }
    zkl_entry_note_request(entry, ZKL_REQUEST_DELETE, false);
    if (rc == ZOK) {
        zkl_entry_note_cleared(entry, reply);
    } else if (rc == ZNONODE && entry->tenure.use == ZKL_USE_LEFT && entry->acquisition != NULL &&
               (!entry->tenure.delete_outcome_unknown || ZKL_BROKEN(ZKL_BREAK_REPEATED))) {
        /* this was our only delete of the node, so it was deleted externally */
        zkl_acquisition_deleted_externally(entry->acquisition, entry->node);
    }
    entry->tenure.delete_outcome_unknown = entry->tenure.delete_outcome_unknown || zkl_not_answered(rc);
    if (rc == ZOK || rc == ZNONODE || (entry->acquisition == NULL && ZKL_BROKEN(ZKL_BREAK_ONCE))) {
        zkl_entry_gone(entry);
    } else if (zkl_outcome_unknown(rc)) {
        entry->locks->wire->stats.unknown_outcomes++;
        if (ZKL_BROKEN(ZKL_BREAK_CLEANUP)) {
            zkl_entry_gone(entry);
        } else {
            zkl_entry_step(entry);
        }
    } else {
        /* The server refuses the delete (ZNOAUTH) or throttles it. Keep trying, but give the server time. */
        if (!zkl_not_answered(rc)) {
            zkl_wire_log(entry->locks->wire, ZOO_LOG_LEVEL_ERROR, "cannot delete '%s': %s", entry->node, zerror(rc));
            if (entry->acquisition != NULL) {
                zkl_acquisition_delete_refused(entry->acquisition, rc, entry->node);
            }
        }
        zkl_entry_back_off(entry);
    }
}

/*
 * The flag could not be made, so nothing was done. If its directory is missing, that is made, and the pass is sent once more behind it: a
 * container that never had a child stays for ever.
 */
static void not_passed(zkl_entry *entry, int rc)
{
    zkl_entry_note_request(entry, ZKL_REQUEST_DELETE, false);
    if (rc == ZTHROTTLEDOP) {
        zkl_entry_back_off(entry);
        return;
    }
    bool again = rc == ZNONODE && !entry->tenure.made_flags && zkl_queue_make_flags(entry->queue);
    entry->tenure.made_flags = again;
    entry->tenure.passes = again;
    if (rc != ZNONODE) {
        zkl_queue_refuse_flags(entry->queue);
    }
    zkl_entry_step(entry);
}

/* The answer counts as one to the delete, unless that was not tried. The C client reports success even if parts are missing in it. */
static void on_passed(void *owner, int rc, const zkl_reply *reply)
{
    const struct pass *pass = owner;
    zkl_entry *entry = pass->entry;
    int deleted = pass->results[PASS_DELETE].err;
    bool not_tried = rc != ZOK && !zkl_not_answered(rc) && deleted != rc;
    if (not_tried && reply->generation == entry->generation && entry->state == ZKL_ENTRY_LEAVING) {
        not_passed(entry, rc);
    } else if (!not_tried) {
        entry->tenure.passes = false; /* if the delete is repeated, it passes nothing on */
        on_deleted(entry, rc == ZOK ? deleted : rc, reply);
    }
}

/* --- refusing ------------------------------------------------------------------------------------------------------ */

void zkl_entry_refuse_all(zkl_entry *entry, zkl_code code, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&entry->sharers)) != NULL) {
        zkl_acquisition_refuse(acquisition, code, "%s", message);
    }
    zkl_acquisition_refuse(entry->acquisition, code, "%s", message);
}

void zkl_entry_refuse(zkl_entry *entry, int rc, const char *what)
{
    zkl_entry_refuse_all(entry, zkl_code_of(rc), "%s '%s': %s%s", what, entry->queue->path, zkl_words_of(rc),
                         rc == ZNONODE && entry->locks->wire->chroot_length > 0 ? " (does the chroot exist?)" : "");
}

/*
 * permits_limit: for how many permits a semaphore was made.
 *
 * The number is in the data of "leases", in decimal. An acquisition with another limit is refused. Curator writes no
 * limit; then the first of our acquisitions writes its own.
 *
 * If the semaphore was resized, which the node "resized" among the leases says, acquisitions take that number for their own. One list
 * shows which permits are taken, whether the semaphore was resized, and by its mzxid which number was written then.
 *
 * The number is read once for all acquisitions of a queue. It is read again when a list of the leases shows that the data
 * may have changed, and on another connection: after a restore, a write may have the zxid of the one that the client knows.
 */
#include <stdio.h>
#include <string.h>

#include "permits.h"
#include "permits_limit.h"
#include "place.h"

const char *zkl_permits_data(const zkl_entry *entry, char *data)
{
    snprintf(data, ZKL_DIRECTORY_DATA_SIZE, "%d", (int)entry->acquisition->spec->lock.permits);
    return data;
}

/* Reads the limit in the data of a semaphore's "leases". Returns 0 if the data are no limit. */
static int32_t read_limit(const char *data, int length)
{
    int64_t limit = 0;
    for (int i = 0; i < length; i++) {
        if (data[i] < '0' || data[i] > '9' || limit > INT32_MAX) {
            return 0;
        }
        limit = limit * 10 + (data[i] - '0');
    }
    return limit <= INT32_MAX ? (int32_t)limit : 0;
}

/*
 * Lets the acquisitions that waited for the answer go on: at once, or after a while if the server throttled the
 * request.
 */
static void limit_known(zkl_queue *leases, int rc)
{
    leases->limit_flying = false;
    zkl_acquisition *acquisition, *next;
    for (acquisition = TAILQ_FIRST(&leases->locks->acquisitions); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, all);
        const zkl_permits *permits = acquisition->part;
        bool waits = zkl_acquisition_kind(acquisition) == &zkl_semaphore_kind && permits->leases == leases &&
                     acquisition->entry != NULL && acquisition->phase == ZKL_ACQUISITION_WAITING;
        if (waits && rc == ZTHROTTLEDOP && acquisition->entry->state == ZKL_ENTRY_CONFIRMING) {
            zkl_entry_back_off(acquisition->entry);
        } else if (waits) {
            zkl_entry_look_again(acquisition->entry);
        }
    }
}

static void note_limit(zkl_queue *leases, int32_t limit, const zkl_reply *reply)
{
    leases->limit = limit;
    leases->limit_mzxid = reply->stat->mzxid;
    leases->limit_on = reply->connection;
}

bool zkl_permits_know_limit(const zkl_queue *leases)
{
    bool here = leases->limit_on == leases->locks->wire->connection || ZKL_BROKEN(ZKL_BREAK_OUTLIVED);
    return leases->limit_mzxid != 0 && here;
}

/* Handles the reply to the write of the limit. */
static void on_limit_set(void *owner, int rc, const zkl_reply *reply)
{
    zkl_queue *leases = owner;
    if (rc == ZOK) {
        note_limit(leases, leases->limit_wanted, reply);
    } else if (rc == ZNOAUTH) {
        leases->limit_unwritable = true; /* then the semaphore has no limit to compare with */
    }
    limit_known(leases, rc);
    zkl_queue_drop(leases);
}

/* Writes the wanted limit. Returns false if that could not be sent. */
static bool send_limit(zkl_queue *leases, int32_t version)
{
    char data[12];
    int length = snprintf(data, sizeof data, "%d", (int)leases->limit_wanted);
    const zkl_ask ask = {.on_reply = on_limit_set, .owner = leases};
    bool sent = zkl_send_set(leases->locks->wire, &ask, leases->path, data, length, version) == ZOK;
    leases->uses += sent;
    return sent;
}

static void limit_got(zkl_queue *leases, int rc, const zkl_reply *reply)
{
    if (rc == ZOK) {
        note_limit(leases, read_limit(reply->data, reply->length), reply);
        bool unsaid = reply->length <= 0 && !leases->limit_unwritable;
        if (unsaid && send_limit(leases, reply->stat->version)) {
            leases->limit_mzxid = 0; /* no limit is written there: the answer to our write decides */
            return;
        }
    }
    limit_known(leases, rc);
}

/* Handles the reply to the read of the limit. */
static void on_limit_got(void *owner, int rc, const zkl_reply *reply)
{
    limit_got(owner, rc, reply);
    zkl_queue_drop(owner);
}

static void ask_limit(const zkl_acquisition *acquisition)
{
    zkl_queue *leases = ((const zkl_permits *)acquisition->part)->leases;
    if (!leases->limit_flying) {
        leases->limit_wanted = acquisition->spec->lock.permits;
        const zkl_ask ask = {.on_reply = on_limit_got, .owner = leases};
        leases->limit_flying = zkl_send_get(leases->locks->wire, &ask, leases->path, NULL, NULL) == ZOK;
        leases->uses += leases->limit_flying;
    }
}

void zkl_permits_want_limit(zkl_acquisition *acquisition)
{
    const zkl_permits *permits = acquisition->part;
    if (!zkl_permits_know_limit(permits->leases)) {
        ask_limit(acquisition);
    }
}

static bool is_resized(const struct String_vector *names)
{
    for (int32_t i = 0; i < names->count; i++) {
        if (strcmp(names->data[i], ZKL_RESIZED) == 0) {
            return true;
        }
    }
    return false;
}

/* The semaphore has as many permits as its limit says, whatever the acquisition expects. Returns false if it wants more: refused. */
static bool take_limit(zkl_acquisition *acquisition)
{
    zkl_permits *permits = acquisition->part;
    permits->limit = permits->leases->limit;
    if (permits->count > permits->limit) {
        zkl_acquisition_refuse(acquisition, ZKL_MISMATCH, "the semaphore '%.400s' has only %d permits now, not %d",
                               zkl_acquisition_path(acquisition), (int)permits->limit, (int)permits->count);
        return false;
    }
    return true;
}

bool zkl_permits_limit_fits(zkl_acquisition *acquisition, const struct Stat *stat, const struct String_vector *names)
{
    zkl_permits *permits = acquisition->part;
    const zkl_queue *leases = permits->leases;
    permits->limit = acquisition->spec->lock.permits;
    if (stat == NULL || ZKL_BROKEN(ZKL_BREAK_LIMIT)) {
        return true;
    }
    bool resized = is_resized(names);
    bool broken = resized && leases->limit_mzxid != 0 && ZKL_BROKEN(ZKL_BREAK_RESIZED);
    if (!(zkl_permits_know_limit(leases) && leases->limit_mzxid == stat->mzxid) && !broken) {
        if (acquisition->entry->state == ZKL_ENTRY_LOOKING) {
            return !resized;
        }
        /* This list is not evaluated, and a watch that it has armed does not report earlier changes: list again. */
        permits->undecided = true;
        ask_limit(acquisition);
        if (!leases->limit_flying) {
            zkl_entry_make_runnable(acquisition->entry);
        }
        return false;
    }
    if (leases->limit != 0 && resized) {
        return take_limit(acquisition);
    }
    if (leases->limit != 0 && leases->limit != permits->limit) {
        zkl_acquisition_refuse(acquisition, ZKL_MISMATCH, "the semaphore '%.400s' was made for %d permits, not for %d",
                               zkl_acquisition_path(acquisition), (int)leases->limit, (int)permits->limit);
        return false;
    }
    return true;
}

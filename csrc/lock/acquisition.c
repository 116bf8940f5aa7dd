/*
 * acquisition: one request for a lock, from the call to its end.
 *
 * An acquisition's entry does the work (entry.c). An acquisition that has ended may still have an entry whose node is being
 * deleted. It is settled when that entry is gone. The owner calls zkl_acquisition_forget when it will not use the
 * acquisition any more. The acquisition is freed when it is both forgotten and settled.
 */
#include <stdarg.h>
#include <stdio.h>

#include "acquisition.h"
#include "entry.h"

const char *zkl_acquisition_phase_name(zkl_acquisition_phase phase)
{
    static const char *const names[] = {
        [ZKL_ACQUISITION_WAITING] = "waiting", [ZKL_ACQUISITION_GRANTED] = "granted",   [ZKL_ACQUISITION_LOST] = "lost",
        [ZKL_ACQUISITION_REFUSED] = "refused", [ZKL_ACQUISITION_RELEASED] = "released",
    };
    return names[phase];
}

/* Stops max_hold. */
static void stop_hold(zkl_acquisition *acquisition)
{
    if (acquisition->hold_until != ZKL_NEVER) {
        TAILQ_REMOVE(&acquisition->locks->holds, acquisition, in_holds);
        acquisition->hold_until = ZKL_NEVER;
    }
}

/*
 * The grant is over, or there was none. The phase is still that from before. The acquisition's meter counts it as waiting or held no longer;
 * nothing happens there if the phase is an end already.
 */
static void end_hold(zkl_acquisition *acquisition)
{
    zkl_meter *meter = zkl_acquisition_meter(acquisition);
    if (acquisition->phase == ZKL_ACQUISITION_GRANTED) {
        zkl_meter_ended(meter, acquisition->locks->wire->now - acquisition->granted_at);
    } else if (acquisition->phase == ZKL_ACQUISITION_WAITING) {
        zkl_meter_refused(meter);
    }
    stop_hold(acquisition);
}

/* Sets the instant at which a grant ends by itself; locks->holds is sorted by it. ZKL_NEVER: it does not. */
static void hold_until(zkl_acquisition *acquisition, int64_t until)
{
    stop_hold(acquisition);
    if (until == ZKL_NEVER) {
        return;
    }
    struct zkl_acquisition_list *holds = &acquisition->locks->holds;
    acquisition->hold_until = until;
    ZKL_INSERT_SORTED(holds, zkl_acquisition_list, acquisition, hold_until, in_holds);
}

void zkl_acquisition_free(zkl_acquisition *acquisition)
{
    end_hold(acquisition);
    if (zkl_acquisition_kind(acquisition)->end != NULL) {
        zkl_acquisition_kind(acquisition)->end(acquisition);
    }
    zkl_free(acquisition->part);
    TAILQ_REMOVE(&acquisition->locks->acquisitions, acquisition, all);
    if (acquisition->queue != NULL) {
        zkl_queue_drop(acquisition->queue);
    }
    zkl_lock_spec_drop(acquisition->spec);
    zkl_free(acquisition->message);
    zkl_free(acquisition);
}

static void tell_host(zkl_acquisition *acquisition)
{
    if (!acquisition->forgotten) {
        acquisition->locks->acquisition_changed(acquisition->locks->context, acquisition);
    }
}

static void note_loss(const zkl_acquisition *acquisition, zkl_code code)
{
    acquisition->locks->wire->stats.losses++;
    zkl_meter_lost(zkl_acquisition_meter(acquisition), code);
}

/* Sets the code, and the message in place of any earlier one. */
static void set_outcome(zkl_acquisition *acquisition, zkl_code code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void set_outcome(zkl_acquisition *acquisition, zkl_code code, const char *format, va_list args)
{
    char message[512];
    int length = vsnprintf(message, sizeof message, format, args);
    zkl_free(acquisition->message);
    acquisition->message = zkl_copy(message, length < (int)sizeof message ? (size_t)length : sizeof message - 1);
    acquisition->code = code;
}

static void finish_acquisition(zkl_acquisition *acquisition, zkl_acquisition_phase phase, zkl_code code,
                               const char *format, va_list args) __attribute__((format(printf, 4, 0)));

static void finish_acquisition(zkl_acquisition *acquisition, zkl_acquisition_phase phase, zkl_code code,
                               const char *format, va_list args)
{
    end_hold(acquisition);
    set_outcome(acquisition, code, format, args);
    acquisition->phase = phase;
    acquisition->locks->wire->stats.refusals += phase == ZKL_ACQUISITION_REFUSED;
    if (phase == ZKL_ACQUISITION_LOST) {
        note_loss(acquisition, code);
    }
    tell_host(acquisition);
}

void zkl_acquisition_finish(zkl_acquisition *acquisition, zkl_acquisition_phase phase, zkl_code code,
                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    finish_acquisition(acquisition, phase, code, format, args);
    va_end(args);
}

void zkl_acquisition_refuse(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    finish_acquisition(acquisition, ZKL_ACQUISITION_REFUSED, code, format, args);
    va_end(args);
    zkl_acquisition_leave(acquisition);
}

/* Returns whether the acquisition is granted, and may be lost: what a kind that asks has granted stays so. */
static bool is_held(const zkl_acquisition *acquisition)
{
    return acquisition->phase == ZKL_ACQUISITION_GRANTED && zkl_acquisition_kind(acquisition)->asks == NULL;
}

void zkl_acquisition_lose(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
{
    if (!is_held(acquisition)) {
        return;
    }
    va_list args;
    va_start(args, format);
    finish_acquisition(acquisition, ZKL_ACQUISITION_LOST, code, format, args);
    va_end(args);
    zkl_acquisition_leave(acquisition);
}

const int64_t zkl_wait_bounds[ZKL_WAIT_BUCKETS] = {
    1 * ZKL_SECOND / 1000,   5 * ZKL_SECOND / 2000,  5 * ZKL_SECOND / 1000,   10 * ZKL_SECOND / 1000,
    25 * ZKL_SECOND / 1000,  50 * ZKL_SECOND / 1000, 100 * ZKL_SECOND / 1000, 250 * ZKL_SECOND / 1000,
    500 * ZKL_SECOND / 1000, 1 * ZKL_SECOND,         5 * ZKL_SECOND / 2,      5 * ZKL_SECOND,
    10 * ZKL_SECOND,         30 * ZKL_SECOND,        60 * ZKL_SECOND,         ZKL_NEVER,
};

static void note_grant(zkl_acquisition *acquisition)
{
    zkl_stats *stats = &acquisition->locks->wire->stats;
    int64_t waited = acquisition->locks->wire->now - acquisition->asked_at;
    int32_t bucket = 0;
    while (waited > zkl_wait_bounds[bucket]) {
        bucket++;
    }
    stats->waits[bucket]++;
    stats->waited += waited;
    stats->grants++;
    acquisition->granted_at = acquisition->locks->wire->now;
    zkl_meter_granted(zkl_acquisition_meter(acquisition), waited, bucket);
}

void zkl_acquisition_grant(zkl_acquisition *acquisition, const zkl_entry *entry)
{
    int64_t number = ZKL_BROKEN(ZKL_BREAK_TOKEN) ? entry->sequence : entry->tenure.czxid;
    acquisition->token = (zkl_token){number, entry->tenure.grants};
    acquisition->phase = ZKL_ACQUISITION_GRANTED;
    if (is_held(acquisition)) {
        note_grant(acquisition);
    }
    int64_t max_hold = acquisition->spec->lock.max_hold;
    hold_until(acquisition, max_hold != 0 ? acquisition->granted_at + max_hold : ZKL_NEVER);
    tell_host(acquisition);
}

int64_t zkl_acquisitions_expire_at(const zkl_locks *locks)
{
    const zkl_acquisition *first = TAILQ_FIRST(&locks->holds);
    return first != NULL ? first->hold_until : ZKL_NEVER;
}

void zkl_acquisition_end_at(zkl_acquisition *acquisition, int64_t until)
{
    if (acquisition->phase == ZKL_ACQUISITION_GRANTED) {
        hold_until(acquisition, until);
    }
}

/* The instant of a grant's end has come. Returns false if the host has put it off meanwhile. */
static bool acquisition_is_over(zkl_acquisition *acquisition)
{
    const zkl_locks *locks = acquisition->locks;
    int64_t until = locks->hold_over != NULL ? locks->hold_over(locks->context, acquisition, locks->wire->now)
                                             : acquisition->hold_until;
    if (until <= locks->wire->now) {
        return true;
    }
    hold_until(acquisition, until);
    return false;
}

void zkl_acquisitions_expire(zkl_locks *locks)
{
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&locks->holds)) != NULL && acquisition->hold_until <= locks->wire->now &&
           !ZKL_BROKEN(ZKL_BREAK_HOLD)) {
        if (acquisition_is_over(acquisition)) {
            int64_t held = acquisition->hold_until - acquisition->granted_at;
            zkl_acquisition_lose(acquisition, ZKL_MAX_HOLD, "'%s' was given back: it had been held for max_hold (%g s)",
                                 zkl_acquisition_path(acquisition), (double)held / (double)ZKL_SECOND);
        }
    }
}

void zkl_acquisition_revoked(zkl_acquisition *acquisition)
{
    if (acquisition->phase == ZKL_ACQUISITION_GRANTED && acquisition->spec->lock.revocable) {
        acquisition->revocations++;
        tell_host(acquisition);
    }
}

void zkl_acquisition_leave(zkl_acquisition *acquisition)
{
    zkl_acquisition_kind(acquisition)->released(acquisition);
}

/* Sets the code and the message of a release. Only the first call has an effect. */
static void note_release(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note_release(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
{
    if (acquisition->code != ZKL_OK) {
        return;
    }
    va_list args;
    va_start(args, format);
    set_outcome(acquisition, code, format, args);
    va_end(args);
}

void zkl_acquisition_deleted_externally(zkl_acquisition *acquisition, const char *node)
{
    if (acquisition->phase == ZKL_ACQUISITION_RELEASED && acquisition->code != ZKL_LOST) {
        note_loss(acquisition, ZKL_LOST);
        note_release(acquisition, ZKL_LOST, "'%.160s' is lost: somebody deleted its node '%.300s'",
                     zkl_acquisition_path(acquisition), node);
    }
}

void zkl_acquisition_delete_refused(zkl_acquisition *acquisition, int rc, const char *node)
{
    if (acquisition->phase == ZKL_ACQUISITION_RELEASED && rc != ZTHROTTLEDOP) {
        note_release(acquisition, zkl_code_of(rc), "the server refuses to delete '%s': %s", node, zerror(rc));
        tell_host(acquisition);
    }
}

/*
 * Whether a contender that conflicts is before a waiting acquisition. Readers that share a reader's entry are granted
 * together with it, so for them it depends on the entry.
 */
static bool is_behind(const zkl_acquisition *acquisition)
{
    if (!zkl_acquisition_kind(acquisition)->shares) {
        return true; /* such a kind calls this only for an acquisition that is blocked, or has no room */
    }
    const zkl_entry *entry = acquisition->entry;
    bool together = zkl_acquisition_kind(acquisition)->together &&
                    (entry == NULL || entry->acquisition == NULL || zkl_acquisition_kind(entry->acquisition)->together);
    return (acquisition->sharing && !together) || (entry != NULL && zkl_watch_node_of(&entry->item) != NULL);
}

void zkl_acquisition_blocker_changed(zkl_acquisition *acquisition)
{
    acquisition->was_behind = acquisition->was_behind || is_behind(acquisition);
    tell_host(acquisition);
}

void zkl_acquisition_entry_gone(zkl_acquisition *acquisition, zkl_entry *entry)
{
    LIST_REMOVE(entry, in_acquisition);
    if (acquisition->entry == entry) {
        acquisition->entry = NULL;
    }
    zkl_acquisition_settle(acquisition);
}

void zkl_acquisition_settle(zkl_acquisition *acquisition)
{
    if (!zkl_acquisition_settled(acquisition)) {
        return;
    }
    if (acquisition->forgotten) {
        zkl_acquisition_free(acquisition);
    } else {
        tell_host(acquisition);
    }
}

void zkl_acquisition_end(zkl_acquisition *acquisition, zkl_code code, int64_t now)
{
    zkl_locks *locks = acquisition->locks;
    locks->wire->now = now;
    if (acquisition->phase == ZKL_ACQUISITION_WAITING) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, code, "the wait for '%s' was ended: %s",
                               zkl_acquisition_path(acquisition), zkl_code_name(code));
    } else if (is_held(acquisition) && code == ZKL_CLOSED) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_LOST, code, "'%s' was given back: the client is closed",
                               zkl_acquisition_path(acquisition));
    } else if (acquisition->phase == ZKL_ACQUISITION_GRANTED && code != ZKL_CLOSED) {
        end_hold(acquisition);
        acquisition->phase = ZKL_ACQUISITION_RELEASED;
        tell_host(acquisition);
    }
    zkl_acquisition_leave(acquisition);
}

void zkl_acquisition_lapsed(zkl_acquisition *acquisition, int64_t now)
{
    acquisition->locks->wire->now = now;
    zkl_acquisitions_expire(acquisition->locks); /* max_hold may be the reason */
    zkl_acquisition_lose(acquisition, ZKL_LOST, "'%s' is lost: its lease ran out before it was extended",
                         zkl_acquisition_path(acquisition));
}

void zkl_acquisition_forget(zkl_acquisition *acquisition, int64_t now)
{
    acquisition->forgotten = true;
    if (zkl_acquisition_settled(acquisition)) {
        zkl_acquisition_free(acquisition);
    } else {
        zkl_acquisition_end(acquisition, ZKL_CANCELLED, now);
    }
}

bool zkl_acquisition_settled(const zkl_acquisition *acquisition)
{
    return LIST_EMPTY(&acquisition->entries) && !acquisition->sharing;
}

/* Writes a number that is not negative, with leading zeros. Returns the end of the digits. */
static char *put_digits(char *to, int64_t number, int digits)
{
    for (int at = digits - 1; at >= 0; at--) {
        to[at] = (char)('0' + number % 10);
        number /= 10;
    }
    return to + digits;
}

void zkl_token_format(zkl_token token, char text[ZKL_TOKEN_SIZE])
{
    if (token.number != 0) {
        text = put_digits(text, token.number, ZKL_TOKEN_NUMBER_DIGITS);
        *text++ = '-';
        text = put_digits(text, token.grants, ZKL_TOKEN_GRANTS_DIGITS);
    }
    *text = '\0';
}

static const char *node_of(const zkl_acquisition *acquisition)
{
    /* The first entry of a semaphore's acquisition is its latest lease entry, or its queue entry before there is one. */
    const zkl_entry *entry = acquisition->sharing ? acquisition->entry : LIST_FIRST(&acquisition->entries);
    bool has_one = entry != NULL && (!acquisition->sharing || acquisition->phase == ZKL_ACQUISITION_GRANTED);
    return has_one ? entry->node : NULL;
}

char *zkl_acquisition_nodes(const zkl_acquisition *acquisition)
{
    const zkl_kind *kind = zkl_acquisition_kind(acquisition);
    bool several = kind->nodes != NULL && acquisition->phase == ZKL_ACQUISITION_GRANTED;
    return several ? kind->nodes(acquisition) : NULL;
}

const char *zkl_acquisition_path(const zkl_acquisition *acquisition)
{
    return acquisition->spec->lock.path;
}

void *zkl_acquisition_user(const zkl_acquisition *acquisition)
{
    return acquisition->user;
}

zkl_acquisition_view zkl_acquisition_look(const zkl_acquisition *acquisition)
{
    int64_t waited = acquisition->granted_at - acquisition->asked_at;
    bool has_own = acquisition->entry != NULL && !acquisition->sharing;
    const char *unsaid = acquisition->code != ZKL_OK ? ZKL_UNSAID : "";
    return (zkl_acquisition_view){
        .phase = acquisition->phase,
        .settled = zkl_acquisition_settled(acquisition),
        .sharing = acquisition->sharing,
        .code = acquisition->code,
        .message = acquisition->message != NULL ? acquisition->message : unsaid,
        .token = acquisition->token,
        .revocations = acquisition->revocations,
        .node = node_of(acquisition),
        .blocker = has_own ? zkl_watch_node_of(&acquisition->entry->item) : NULL,
        .hold_until = acquisition->hold_until,
        .waited = !acquisition->was_behind ? 0
                  : waited > 0             ? waited
                                           : 1,
    };
}

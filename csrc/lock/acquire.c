/*
 * acquire: an acquisition begins. It shares an entry of this client, or gets one of its own, or is refused at once.
 */
#include "acquisition.h"
#include "entry.h"
#include "share.h"

/* Returns whether another entry of this client is in the way. Then a try need not ask the server. */
static bool stands_in_the_way(const zkl_acquisition *acquisition)
{
    zkl_node_kind mine = zkl_acquisition_kind(acquisition)->node;
    const zkl_entry *entry;
    TAILQ_FOREACH(entry, &acquisition->queue->entries, in_queue)
    {
        if (entry->wanted && zkl_kind_conflicts(mine, entry->kind->node)) {
            return true;
        }
    }
    return false;
}

/* Returns the entry of the granted writer whose place a new reader may take; NULL if there is none. */
static zkl_entry *entry_of_writer(const zkl_acquisition *acquisition, const zkl_acquisition *writer)
{
    bool usable = writer != NULL && zkl_acquisition_kind(writer)->weaker == zkl_acquisition_kind(acquisition) &&
                  writer->queue == acquisition->queue && writer->phase == ZKL_ACQUISITION_GRANTED &&
                  !ZKL_BROKEN(ZKL_BREAK_DOWNGRADE);
    return usable ? writer->entry : NULL;
}

/*
 * Refuses the acquisition if no answer of the server is needed for that; else returns false. `has_place`: it can share
 * an entry, or take its writer's place.
 */
static bool refuse_acquisition(zkl_acquisition *acquisition, bool has_place)
{
    zkl_locks *locks = acquisition->locks;
    if (zkl_session_closing(locks->session)) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_CLOSED, "the client is closed");
    } else if (locks->session->state == ZKL_STATE_AUTH_FAILED) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_AUTH_FAILED, "%s", locks->session->problem);
    } else if (acquisition->try_only && !has_place && stands_in_the_way(acquisition) && !ZKL_BROKEN(ZKL_BREAK_TRY)) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_TIMEOUT,
                               "'%s' is taken: another lock object of this client is ahead",
                               zkl_acquisition_path(acquisition));
    } else if (acquisition->try_only && !locks->wire->usable) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_DISCONNECTED, "'%s' could not be tried: %s",
                               zkl_acquisition_path(acquisition),
                               locks->session->problem[0] != '\0' ? locks->session->problem
                                                                  : "there is no connection yet");
    } else {
        return false;
    }
    return true;
}

zkl_acquisition *zkl_locks_acquire(zkl_locks *locks, const zkl_acquisition_request *request,
                                   const zkl_acquisition *writer, void *user, int64_t now)
{
    locks->wire->now = now;
    zkl_acquisition *acquisition = zkl_alloc(sizeof *acquisition);
    if (acquisition == NULL) {
        return NULL;
    }
    acquisition->locks = locks;
    acquisition->user = user;
    acquisition->spec = zkl_lock_spec_take(request->spec);
    acquisition->try_only = request->try_only;
    acquisition->optimistic = request->optimistic;
    acquisition->asked_at = now;
    acquisition->hold_until = ZKL_NEVER;
    LIST_INIT(&acquisition->entries);
    TAILQ_INSERT_TAIL(&locks->acquisitions, acquisition, all);
    zkl_meter_asked(zkl_acquisition_meter(acquisition));
    const zkl_kind *kind = zkl_acquisition_kind(acquisition);
    const char *directories = acquisition->spec->directories;
    acquisition->queue = zkl_queue_take(locks, directories != NULL ? directories : acquisition->spec->lock.path);
    if (acquisition->queue == NULL || (kind->begin != NULL && !kind->begin(acquisition, request))) {
        zkl_acquisition_free(acquisition);
        return NULL;
    }
    locks->wire->stats.acquisitions++;
    zkl_entry *above = entry_of_writer(acquisition, writer);
    zkl_entry *shared = above == NULL ? zkl_share_find(acquisition) : NULL;
    if (shared == NULL) {
        zkl_share_make_way(acquisition);
    }
    if (refuse_acquisition(acquisition, above != NULL || shared != NULL)) {
        return acquisition;
    }
    if (shared != NULL) {
        zkl_share_join(shared, acquisition);
        return acquisition;
    }
    acquisition->entry = zkl_entry_new(acquisition, acquisition->queue, kind);
    if (acquisition->entry == NULL) {
        zkl_acquisition_free(acquisition);
        return NULL;
    }
    acquisition->entry->writer = above;
    zkl_entry_set_downgrade(acquisition->entry, above != NULL ? ZKL_DOWNGRADE_TO_BE_MADE : ZKL_DOWNGRADE_NO);
    zkl_entry_step(acquisition->entry);
    return acquisition;
}

/*
 * watch: one watcher object per watched node.
 *
 * The C client recognises a watcher by its function and context, delivers every session event to all of them, and keeps the
 * context's address until the watch has fired, has been removed, or the handle is closed. So there is one object per node
 * and line, seats share it, and it is freed only when the C client cannot know it any more.
 *
 * Armed by get and not by exists, because an exists-watch on a missing node stays behind as a creation watch. Only where the
 * node may not be read (ZNOAUTH) does exists have to do; what it leaves behind is then removed.
 */
#include <string.h>

#include "engine_private.h"

static void free_watch(zkl_watch *watch)
{
    LIST_REMOVE(watch, in_line);
    if (watch->unwanted) {
        watch->engine->cleaning--;
    }
    watch->engine->stats.watches--;
    zkl_line *line = watch->line;
    zkl_free(watch->node);
    zkl_free(watch);
    zkl_line_drop(line);
}

static zkl_watch *find(zkl_line *line, const char *name)
{
    zkl_watch *watch;
    LIST_FOREACH(watch, &line->watches, in_line)
    {
        if (strcmp(watch->node + strlen(line->path) + 1, name) == 0) {
            return watch;
        }
    }
    return NULL;
}

static zkl_watch *new_watch(zkl_line *line, const char *name)
{
    zkl_watch *watch = zkl_alloc(sizeof *watch);
    char *node = zkl_child_path(line->path, name);
    if (watch == NULL || node == NULL) {
        zkl_free(watch);
        zkl_free(node);
        return NULL;
    }
    watch->engine = line->engine;
    watch->line = line;
    watch->node = node;
    LIST_INIT(&watch->seats);
    LIST_INSERT_HEAD(&line->watches, watch, in_line);
    line->uses++;
    line->engine->stats.watches++;
    return watch;
}

/* The watch is armed, or may be, and nobody wants it: counted until it is known to be removed. */
static void set_unwanted(zkl_watch *watch, bool unwanted)
{
    if (watch->unwanted != unwanted) {
        watch->unwanted = unwanted;
        watch->engine->cleaning += unwanted ? 1 : -1;
    }
}

/* Frees the watch when nobody can have its address any more: no seat, no request, not the C client. */
static void free_if_unused(zkl_watch *watch)
{
    if (watch->state == ZKL_WATCH_IDLE && watch->flying == 0 && !watch->pinned && LIST_EMPTY(&watch->seats)) {
        free_watch(watch);
    }
}

/* Asks for the watch; false when that is not possible now. */
static bool arm(zkl_watch *watch)
{
    bool sent = zkl_session_usable(watch->engine) && zkl_send_watch(watch, watch->by_exists);
    watch->flying += sent;
    watch->state = sent ? ZKL_WATCH_ARMING : ZKL_WATCH_IDLE;
    return sent;
}

/*
 * Armed and wanted by nobody: removes it, now or when requests may go out again (zkl_watches_resume). The removal would take
 * the program's own watch on the node too (user_watch.c): where there is one, both go with that.
 */
static void disarm(zkl_watch *watch)
{
    if (zkl_user_watch_wanted(watch->engine, watch->node)) {
        set_unwanted(watch, false);
        return;
    }
    set_unwanted(watch, true);
    if (!zkl_session_usable(watch->engine)) {
        return;
    }
    if (zkl_send_unwatch(watch)) {
        watch->flying++;
        watch->state = ZKL_WATCH_REMOVING;
    } else {
        zkl_try_later(watch->engine);
    }
}

/* Tells the seats, which lets them go from this watch; some may choose it again at once. */
static void tell(zkl_watch *watch, void (*what)(zkl_seat *))
{
    struct zkl_watcher_list told = LIST_HEAD_INITIALIZER(told);
    zkl_seat *seat;
    while ((seat = LIST_FIRST(&watch->seats)) != NULL) {
        LIST_REMOVE(seat, in_watch);
        LIST_INSERT_HEAD(&told, seat, in_watch);
    }
    watch->pinned = true;
    while ((seat = LIST_FIRST(&told)) != NULL) {
        LIST_REMOVE(seat, in_watch);
        seat->watch = NULL;
        what(seat);
    }
    watch->pinned = false;
}

/* The C client does not know the watch any more (IDLE): arms it for whoever is interested, or lets it go. */
static void rearm_or_free(zkl_watch *watch)
{
    if (!LIST_EMPTY(&watch->seats) && !arm(watch)) {
        tell(watch, zkl_seat_look_again);
    }
    free_if_unused(watch);
}

void zkl_watch_node(zkl_seat *seat, const char *name)
{
    zkl_watch *watch = find(seat->line, name);
    if (watch == NULL) {
        watch = new_watch(seat->line, name);
    }
    if (watch == NULL) {
        zkl_seat_look_again(seat); /* no memory now */
        return;
    }
    set_unwanted(watch, false);
    seat->watch = watch;
    LIST_INSERT_HEAD(&watch->seats, seat, in_watch);
    if (watch->state == ZKL_WATCH_IDLE && !watch->pinned) {
        rearm_or_free(watch);
    }
}

void zkl_watch_leave(zkl_seat *seat)
{
    zkl_watch *watch = seat->watch;
    if (watch == NULL) {
        return;
    }
    LIST_REMOVE(seat, in_watch);
    seat->watch = NULL;
    if (!LIST_EMPTY(&watch->seats)) {
        return;
    }
    if (watch->state == ZKL_WATCH_ARMED && !ZKL_BROKEN(ZKL_BREAK_WATCH)) {
        disarm(watch);
    } else if (watch->state == ZKL_WATCH_ARMING || watch->state == ZKL_WATCH_REMOVING) {
        set_unwanted(watch, true); /* the reply decides */
    }
    free_if_unused(watch);
}

/* The reply of the request that arms. Nothing but this reply ends ARMING: an event can only follow it. */
void zkl_watch_armed(zkl_request *request, int rc)
{
    zkl_watch *watch = request->about.watch;
    watch->flying--;
    bool left_behind = rc == ZNONODE && watch->by_exists; /* by a creation watch */
    if (rc == ZOK || left_behind || ZKL_BROKEN(ZKL_BREAK_REARM)) {
        watch->state = ZKL_WATCH_ARMED;
        if (left_behind) {
            tell(watch, zkl_seat_blocker_gone);
        }
        if (LIST_EMPTY(&watch->seats)) {
            disarm(watch);
        }
        return;
    }
    watch->state = ZKL_WATCH_IDLE;
    if (rc == ZNOAUTH && !watch->by_exists) {
        watch->by_exists = true;
    } else {
        tell(watch, rc == ZNONODE ? zkl_seat_blocker_gone : zkl_seat_look_again);
    }
    rearm_or_free(watch);
}

void zkl_watch_removed(zkl_request *request, int rc)
{
    zkl_watch *watch = request->about.watch;
    watch->flying--;
    if (watch->state == ZKL_WATCH_REMOVING) {
        bool removed = rc == ZOK || rc == ZNOWATCHER;
        watch->state = removed ? ZKL_WATCH_IDLE : ZKL_WATCH_ARMED;
        if (removed) {
            zkl_user_watches_forgotten(watch->engine, watch->node, false);
            rearm_or_free(watch);
        } else if (!zkl_outcome_unknown(rc)) {
            zkl_try_later(watch->engine); /* after a lost connection it is tried again anyway */
        }
    } else {
        free_if_unused(watch); /* it fired meanwhile, and may have been armed anew */
    }
}

void zkl_watch_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    (void)path;
    zkl_watch *watch = context;
    if (type == ZOO_SESSION_EVENT) {
        return; /* the watch stays armed */
    }
    watch->engine->stats.notifications++;
    watch->state = ZKL_WATCH_IDLE; /* the C client has forgotten it */
    if (type == ZOO_DELETED_EVENT) {
        tell(watch, zkl_seat_blocker_gone);
    } else if (ZKL_BROKEN(ZKL_BREAK_REARM)) {
        return;
    }
    rearm_or_free(watch); /* its data changed, or somebody has chosen it again */
}

void zkl_watches_resume(zkl_engine *engine)
{
    for (uint32_t slot = 0; slot < engine->line_slots; slot++) {
        zkl_line *line;
        LIST_FOREACH(line, &engine->lines[slot], hash)
        {
            zkl_watch *watch;
            LIST_FOREACH(watch, &line->watches, in_line)
            {
                if (watch->state == ZKL_WATCH_ARMED && LIST_EMPTY(&watch->seats)) {
                    disarm(watch);
                }
            }
        }
    }
}

void zkl_watches_closed(zkl_engine *engine)
{
    for (uint32_t slot = 0; slot < engine->line_slots; slot++) {
        zkl_line *line = LIST_FIRST(&engine->lines[slot]);
        while (line != NULL) {
            line->uses++; /* stays until its successor is known */
            zkl_watch *watch;
            while ((watch = LIST_FIRST(&line->watches)) != NULL) {
                zkl_seat *seat;
                while ((seat = LIST_FIRST(&watch->seats)) != NULL) {
                    LIST_REMOVE(seat, in_watch);
                    seat->watch = NULL;
                }
                free_watch(watch);
            }
            zkl_line *next = LIST_NEXT(line, hash);
            zkl_line_drop(line);
            line = next;
        }
    }
}

/* The watch on the node with this full path, NULL if there is none; false when memory is too short to look. */
static bool find_by_path(zkl_engine *engine, const char *path, zkl_watch **watch)
{
    *watch = NULL;
    const char *slash = strrchr(path, '/');
    if (slash == path) {
        return true; /* a lock's directory has a name */
    }
    char *directory = zkl_copy(path, (size_t)(slash - path));
    zkl_line *line = directory != NULL ? zkl_line_take(engine, directory) : NULL;
    if (line != NULL) {
        *watch = find(line, slash + 1);
        zkl_line_drop(line);
    }
    zkl_free(directory);
    return line != NULL;
}

bool zkl_watch_wanted(zkl_engine *engine, const char *path)
{
    zkl_watch *watch;
    return !find_by_path(engine, path, &watch) || (watch != NULL && !LIST_EMPTY(&watch->seats));
}

void zkl_watch_forgotten(zkl_engine *engine, const char *path)
{
    zkl_watch *watch;
    if (find_by_path(engine, path, &watch) && watch != NULL && watch->state == ZKL_WATCH_ARMED &&
        LIST_EMPTY(&watch->seats)) {
        watch->state = ZKL_WATCH_IDLE;
        free_if_unused(watch);
    }
}

/*
 * watch: one watch per watched node, or directory.
 *
 * Several watchers may share it. The C client identifies a watcher by its function and context, and delivers every session
 * event to all of them, for which it compares each with all others. So all watches have one function and one context, and an
 * event finds its watch by the path. The C client knows a watch until it has fired, has been removed, or the handle is closed;
 * the watch is freed no sooner.
 *
 * A watch is armed by get and not by exists, because an exists-watch on a missing node stays behind as a creation
 * watch. A node that may not be read (ZNOAUTH) cannot be watched. An exists would arm a watch, but servers with the fix
 * of CVE-2024-23944 do not report events on a node that the client may not read. A watcher of such a node looks again now
 * and then.
 *
 * The uses: a node is watched until it is gone; its owner watches it to learn of changes of its data; the children of a
 * directory are watched, by the list that the watcher needs anyway (`children`).
 *
 * The fourth use is a flag, by an exists-watch: docs/design.md, "Passing a lock on". A server reports both events of the
 * transaction one right after the other.
 */
#include <string.h>

#include "request.h"
#include "watch.h"

/* Two events of one transaction arrive together, within this time. If they do not, they are taken for two. */
#define TOGETHER (ZKL_SECOND / 10)

#ifdef ZKL_BREAKABLE
int64_t zkl_most_watched_bytes = ZKL_USUAL_WATCHED_BYTES;
#endif

LIST_HEAD(zkl_watcher_list, zkl_item);

struct zkl_watch {
    zkl_link in_table;
    zkl_watches *watches;
    struct zkl_watcher_list watchers;
    zkl_watch_state state;
    int32_t flying;  /* requests in flight that point here */
    bool pinned;     /* its watchers are being told something, in any state: it must not be freed meanwhile */
    zkl_item *owner; /* whose own node this is, if it listens for changes of the data */
    bool flag;       /* constant: for a flag; `flag_of` waits for it */
    zkl_item *flag_of;
    bool children;    /* constant: on the children of the directory */
    bool unwanted;    /* armed, not needed any more, removal not confirmed: counted in watches->wire->cleaning */
    bool asked;       /* the node's data asked the owner for something, when they were last read */
    bool told;        /* and the owner was told that */
    bool reading;     /* a request is in flight that reads the data, and arms nothing */
    uint32_t read_on; /* the connection on which the data were last read */
    int64_t czxid;    /* of the node, when it was last armed */
    char node[];      /* full path, also of a directory */
};

bool zkl_watches_init(zkl_watches *watches, zkl_wire *wire)
{
    watches->wire = wire;
    return zkl_table_init(&watches->table, offsetof(zkl_watch, in_table));
}

void zkl_watches_free(zkl_watches *watches)
{
    zkl_table_free(&watches->table);
}

bool zkl_watches_have_room(const zkl_watches *watches, int64_t bytes)
{
    return watches->watched_bytes + bytes <= ZKL_MAX_WATCHED_BYTES;
}

void zkl_watches_reserve(zkl_watches *watches, int64_t bytes)
{
    watches->watched_bytes += bytes;
}

void zkl_watches_use_others(zkl_watches *watches, const zkl_other_watches *others, void *owner)
{
    watches->others = others;
    watches->others_owner = owner;
}

static void free_watch(zkl_watch *watch)
{
    zkl_table_remove(&watch->watches->table, watch);
    if (watch->watches->flagged == watch) {
        watch->watches->flagged = NULL;
    }
    if (watch->unwanted) {
        watch->watches->wire->cleaning--;
    }
    watch->watches->wire->stats.watches--;
    zkl_free(watch);
}

/* Returns the watch on the node with this full path, or on its children; NULL if there is none. */
static zkl_watch *find_watch(const zkl_watches *watches, const char *path, bool children)
{
    zkl_watch *watch = zkl_table_find(&watches->table, zkl_hash_text(path, strlen(path)));
    while (watch != NULL && (watch->children != children || strcmp(watch->node, path) != 0)) {
        watch = zkl_table_find_next(&watches->table, watch);
    }
    return watch;
}

/* Marks a watch that is armed, or may be, and that is not needed any more. It is counted until its removal is confirmed. */
static void set_unwanted(zkl_watch *watch, bool unwanted)
{
    if (watch->unwanted != unwanted) {
        watch->unwanted = unwanted;
        watch->watches->wire->cleaning += unwanted ? 1 : -1;
    }
}

/*
 * Returns the watch on the node with this full path, or on its children. Makes it if there is none. NULL when memory is short.
 */
static zkl_watch *take_watch(zkl_watches *watches, const char *path, bool children)
{
    zkl_watch *watch = find_watch(watches, path, children);
    if (watch != NULL) {
        set_unwanted(watch, false);
        return watch;
    }
    size_t length = strlen(path);
    watch = zkl_alloc(sizeof *watch + length + 1);
    if (watch == NULL) {
        return NULL;
    }
    memcpy(watch->node, path, length);
    watch->watches = watches;
    watch->children = children;
    LIST_INIT(&watch->watchers);
    zkl_table_add(&watches->table, watch, zkl_hash_text(path, length));
    watches->wire->stats.watches++;
    return watch;
}

static bool watch_is_wanted(const zkl_watch *watch)
{
    return !LIST_EMPTY(&watch->watchers) || watch->owner != NULL || watch->flag_of != NULL;
}

/* Frees the watch when its address is not known any more: by no watcher, by no request, and not by the C client. */
static void free_watch_if_unused(zkl_watch *watch)
{
    if (watch->state == ZKL_WATCH_IDLE && watch->flying == 0 && !watch->pinned && !watch_is_wanted(watch)) {
        free_watch(watch);
    }
}

/* Tells the owner, if there is one, that its node's data ask for something. */
static void tell_owner(zkl_watch *watch)
{
    if (watch->asked && watch->owner != NULL) {
        watch->told = true;
        watch->watches->wire->items->revoked(watch->owner);
    }
}

static void on_armed(void *owner, int rc, const zkl_reply *reply);
static void on_flag_armed(void *owner, int rc, const zkl_reply *reply);
static void on_watch_read(void *owner, int rc, const zkl_reply *reply);
static void on_watch_listed(void *owner, int rc, const zkl_reply *reply);
static void on_watch_removed(void *owner, int rc, const zkl_reply *reply);
static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context);

static bool send_watch(zkl_watch *watch)
{
    zkl_on_reply on_reply = watch->flag ? on_flag_armed : watch->children ? on_watch_listed : on_armed;
    const zkl_ask ask = {.on_reply = on_reply, .owner = watch};
    zkl_watches *watches = watch->watches;
    int rc = watch->flag       ? zkl_send_exists(watches->wire, &ask, watch->node, on_event, watches)
             : watch->children ? zkl_send_list(watches->wire, &ask, watch->node, on_event, watches)
                               : zkl_send_get(watches->wire, &ask, watch->node, on_event, watches);
    return rc == ZOK;
}

/* Sends the request that arms the watch. Returns false if that is not possible now. */
static bool arm_watch(zkl_watch *watch)
{
    bool sent = watch->watches->wire->usable && send_watch(watch);
    watch->flying += sent;
    watch->state = sent ? ZKL_WATCH_ARMING : ZKL_WATCH_IDLE;
    return sent;
}

/* Returns the item that has the node with this full path; NULL: none has it. */
static zkl_item *item_of(const zkl_watches *watches, const char *path)
{
    return watches->wire->items->of_node(watches->wire->items_owner, path);
}

/* The same; NULL, too, if the item has requested the deletion. */
static zkl_item *standing_item(const zkl_watches *watches, const char *path)
{
    zkl_item *item = item_of(watches, path);
    return item != NULL && item->state >= ZKL_ITEM_PRESENT ? item : NULL;
}

/* Returns whether heartbeats have a watch on the node, which a removal would take, too. */
static bool is_guarded(const zkl_watches *watches, const char *path, bool children)
{
    const zkl_item *item = children ? NULL : item_of(watches, path);
    return item != NULL && item->guard != ZKL_GUARD_NONE;
}

/*
 * Removes an armed watch that is not needed any more: now, or when requests may go out again (zkl_watches_resume). The
 * removal would take other watches on the node too. If there is one (zkl_other_watches), both are removed with that one. A guard stays
 * until the node is deleted.
 */
static void disarm_watch(zkl_watch *watch)
{
    const zkl_watches *watches = watch->watches;
    if (watches->others->wanted(watches->others_owner, watch->node, watch->children) ||
        is_guarded(watches, watch->node, watch->children)) {
        set_unwanted(watch, false);
        return;
    }
    set_unwanted(watch, true);
    if (!watch->watches->wire->usable) {
        return;
    }
    const zkl_ask ask = {.on_reply = on_watch_removed, .owner = watch};
    if (zkl_send_unwatch(watch->watches->wire, &ask, watch->node, watch->children) == ZOK) {
        watch->flying++;
        watch->state = ZKL_WATCH_REMOVING;
    } else {
        zkl_try_later(watch->watches->wire);
    }
}

/*
 * Reads the owner's data once more if its watch was armed on an earlier connection. After a reconnect the server reports
 * only changes whose zxids are higher than those that the client has seen. The zxids of a restored server may be lower.
 */
static void read_again(zkl_watch *watch)
{
    zkl_watches *watches = watch->watches;
    bool known = watch->read_on == watches->wire->connection || ZKL_BROKEN(ZKL_BREAK_OUTLIVED);
    if (known || watch->reading || !watches->wire->usable) {
        return;
    }
    const zkl_ask ask = {.on_reply = on_watch_read, .owner = watch};
    watch->reading = watches->wire->in_flight < ZKL_MAX_IN_FLIGHT &&
                     zkl_send_get(watches->wire, &ask, watch->node, NULL, NULL) == ZOK;
    watch->flying += watch->reading;
    if (!watch->reading) {
        zkl_try_later(watches->wire);
    }
}

/* The watcher does not wait for a flag any more. */
static void leave_flag(zkl_item *watcher)
{
    zkl_watch *flag = watcher->flag;
    if (flag == NULL) {
        return;
    }
    watcher->flag = NULL;
    flag->flag_of = NULL;
    if (flag->state == ZKL_WATCH_ARMED) {
        disarm_watch(flag);
    } else if (flag->state != ZKL_WATCH_IDLE) {
        set_unwanted(flag, true); /* the reply decides */
    }
    free_watch_if_unused(flag);
}

/* Detaches all watchers from this watch, and calls `what` for each. Some of them may choose the watch again at once. */
static void tell_watchers(zkl_watch *watch, void (*what)(zkl_item *))
{
    struct zkl_watcher_list told = LIST_HEAD_INITIALIZER(told);
    zkl_item *watcher;
    while ((watcher = LIST_FIRST(&watch->watchers)) != NULL) {
        LIST_REMOVE(watcher, in_watch);
        LIST_INSERT_HEAD(&told, watcher, in_watch);
    }
    watch->pinned = true;
    while ((watcher = LIST_FIRST(&told)) != NULL) {
        LIST_REMOVE(watcher, in_watch);
        watcher->watch = NULL;
        leave_flag(watcher);
        what(watcher);
    }
    watch->pinned = false;
}

/* The C client does not know the watch any more (IDLE): arms it again if it is needed, or frees it. */
static void rearm_or_free(zkl_watch *watch)
{
    if (watch_is_wanted(watch) && !arm_watch(watch)) {
        tell_watchers(watch, watch->watches->wire->items->failed);
    }
    free_watch_if_unused(watch);
}

/* Attaches the watcher to the watch. NULL: there was no memory for a watch. */
static void join(zkl_watches *watches, zkl_item *watcher, zkl_watch *watch)
{
    if (watch == NULL) {
        watches->wire->items->failed(watcher);
        return;
    }
    watcher->watch = watch;
    LIST_INSERT_HEAD(&watch->watchers, watcher, in_watch);
    if (watch->state == ZKL_WATCH_ARMED) {
        watches->wire->items->answered(watcher, watch->czxid);
    } else if (watch->state == ZKL_WATCH_IDLE && !watch->pinned) {
        rearm_or_free(watch);
    }
}

void zkl_watch_node(zkl_watches *watches, zkl_item *watcher, const char *directory, const char *name)
{
    char *path = zkl_child_path(directory, name);
    join(watches, watcher, path != NULL ? take_watch(watches, path, false) : NULL);
    zkl_free(path);
}

void zkl_watch_flag(zkl_watches *watches, zkl_item *watcher, const char *path)
{
    zkl_watch *flag = watcher->watch != NULL ? take_watch(watches, path, false) : NULL;
    if (flag == NULL || flag->flag_of != NULL) {
        return; /* the end of the node alone will do: no memory, or another watcher waits for the flag, which is rare */
    }
    flag->flag = true;
    flag->flag_of = watcher;
    watcher->flag = flag;
    if (flag->state == ZKL_WATCH_IDLE && !arm_watch(flag)) {
        leave_flag(watcher);
    }
}

bool zkl_watch_children(zkl_watches *watches, zkl_item *watcher, const char *directory)
{
    zkl_watch *watch = take_watch(watches, directory, true);
    bool armed = watch != NULL && watch->state == ZKL_WATCH_ARMED;
    join(watches, watcher, watch);
    return watcher->watch != NULL && !armed;
}

/* Returns the bytes that the watch takes in the packet that arms all watches again after a reconnect. */
static int64_t bytes_of_watch(const zkl_watches *watches, const char *node)
{
    return watches->wire->chroot_length + (int64_t)strlen(node) + ZKL_WATCH_OVERHEAD;
}

void zkl_watch_own(zkl_watches *watches, zkl_item *owner, const char *node)
{
    if (watches->own_bytes + bytes_of_watch(watches, node) > ZKL_MAX_OWN_BYTES) {
        zkl_wire_log(watches->wire, ZOO_LOG_LEVEL_WARN,
                     "too many locks are held to hear who asks for '%s' to be released", node);
        return;
    }
    zkl_watch *watch = take_watch(watches, node, false);
    if (watch == NULL) {
        return; /* no request to release will be noticed: not worth losing the lock for */
    }
    watch->owner = owner;
    watch->told = false;
    owner->own = watch;
    watches->own_bytes += bytes_of_watch(watches, watch->node);
    if (watch->state == ZKL_WATCH_ARMED && watch->asked) {
        tell_owner(watch); /* a waiter's read has shown it, and the node is not read again before it changes */
    } else if (watch->state == ZKL_WATCH_ARMED) {
        read_again(watch);
    }
    if (watch->state == ZKL_WATCH_IDLE && !watch->pinned) {
        arm_watch(watch); /* if that is not possible now, zkl_watches_resume does it */
    }
}

void zkl_watch_leave(zkl_item *watcher)
{
    leave_flag(watcher);
    zkl_watch *watch = watcher->watch;
    if (watch == NULL) {
        return;
    }
    LIST_REMOVE(watcher, in_watch);
    watcher->watch = NULL;
    if (watch_is_wanted(watch)) {
        return;
    }
    if (watch->state == ZKL_WATCH_ARMED && !ZKL_BROKEN(ZKL_BREAK_WATCH)) {
        disarm_watch(watch);
    } else if (watch->state == ZKL_WATCH_ARMING || watch->state == ZKL_WATCH_REMOVING) {
        set_unwanted(watch, true); /* the reply decides */
    }
    free_watch_if_unused(watch);
}

/*
 * Leaves a watch on something that we are about to change, which fires the watch. If it does not, zkl_watches_resume
 * removes it.
 */
static void leave_to_fire(zkl_watch *watch)
{
    if (!watch_is_wanted(watch)) {
        set_unwanted(watch, watch->state != ZKL_WATCH_IDLE);
        free_watch_if_unused(watch);
    }
}

/*
 * Detaches the watch from the owner of the node, which is not told of requests to release any more. Returns the owner,
 * or NULL.
 */
static zkl_item *part_from_owner(zkl_watch *watch)
{
    zkl_item *owner = watch->owner;
    if (owner != NULL) {
        owner->own = NULL;
        watch->owner = NULL;
        watch->watches->own_bytes -= bytes_of_watch(watch->watches, watch->node);
    }
    return owner;
}

void zkl_watch_leave_own(zkl_item *owner)
{
    zkl_watch *watch = owner->own;
    if (watch != NULL) {
        part_from_owner(watch);
        leave_to_fire(watch);
    }
}

void zkl_watch_leave_directory(zkl_item *watcher)
{
    zkl_watch *watch = watcher->watch;
    if (watch != NULL) {
        LIST_REMOVE(watcher, in_watch);
        watcher->watch = NULL;
        leave_to_fire(watch);
    }
}

bool zkl_watch_is_armed(const zkl_item *watcher)
{
    return watcher->watch != NULL && watcher->watch->state == ZKL_WATCH_ARMED;
}

const char *zkl_watch_node_of(const zkl_item *watcher)
{
    return watcher->watch != NULL && !watcher->watch->children ? watcher->watch->node : NULL;
}

/* Tells the watchers whether the node is there: some have only predicted its name. */
static void tell_of_look(const zkl_watch *watch, int64_t czxid)
{
    zkl_item *watcher, *next;
    for (watcher = LIST_FIRST(&watch->watchers); watcher != NULL; watcher = next) {
        next = LIST_NEXT(watcher, in_watch); /* it may leave */
        watch->watches->wire->items->answered(watcher, czxid);
    }
}

/* Handles the reply to the request that arms the watch. */
static void on_armed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_watch *watch = owner;
    const zkl_item_ops *ops = watch->watches->wire->items;
    watch->flying--;
    watch->asked = rc == ZOK && ops->asks(reply->data, reply->length);
    watch->read_on = reply->connection;
    tell_owner(watch);
    watch->czxid = rc == ZOK ? reply->stat->czxid : 0;
    tell_of_look(watch, watch->czxid);
    if (rc == ZOK || ZKL_BROKEN(ZKL_BREAK_REARM)) {
        watch->state = ZKL_WATCH_ARMED;
        if (!watch_is_wanted(watch)) {
            disarm_watch(watch);
        }
        return;
    }
    watch->state = ZKL_WATCH_IDLE;
    if (rc == ZNOAUTH || rc == ZNONODE) {
        part_from_owner(watch); /* the node may not be read, or is gone, as the heartbeat will tell */
    }
    if (rc == ZNOAUTH || rc == ZTHROTTLEDOP) {
        tell_watchers(watch, rc == ZNOAUTH ? ops->unreadable : ops->look_later);
    } else {
        tell_watchers(watch, rc == ZNONODE ? ops->gone : ops->look_again);
    }
    if (rc == ZTHROTTLEDOP && watch_is_wanted(watch)) {
        zkl_try_later(watch->watches->wire); /* zkl_watches_resume arms it for its owner */
    } else {
        rearm_or_free(watch);
    }
}

/* Handles the reply to the request that arms the watch for a flag. The flag is not there, unless somebody else has made it. */
static void on_flag_armed(void *owner, int rc, const zkl_reply *reply)
{
    (void)reply;
    zkl_watch *flag = owner;
    flag->flying--;
    flag->state = rc == ZOK || rc == ZNONODE ? ZKL_WATCH_ARMED : ZKL_WATCH_IDLE;
    if (flag->state == ZKL_WATCH_ARMED && flag->flag_of == NULL) {
        disarm_watch(flag);
    } else if (flag->state == ZKL_WATCH_IDLE && flag->flag_of != NULL) {
        leave_flag(flag->flag_of);
    } else {
        free_watch_if_unused(flag);
    }
}

/* Handles the reply to read_again. If the watch has fired meanwhile, the reply to its next arming counts. */
static void on_watch_read(void *owner, int rc, const zkl_reply *reply)
{
    zkl_watch *watch = owner;
    watch->flying--;
    watch->reading = false;
    if (rc == ZTHROTTLEDOP && watch->owner != NULL) {
        zkl_try_later(watch->watches->wire);
    } else if (rc == ZOK && watch->state == ZKL_WATCH_ARMED) {
        watch->asked = watch->watches->wire->items->asks(reply->data, reply->length);
        watch->read_on = reply->connection;
        if (!watch->told) {
            tell_owner(watch);
        }
    }
    free_watch_if_unused(watch);
}

/* Handles the list that arms the watch on the children of a directory. */
static void on_watch_listed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_watch *watch = owner;
    watch->flying--;
    watch->state = rc == ZOK ? ZKL_WATCH_ARMED : ZKL_WATCH_IDLE;
    rc = zkl_names_rc(rc, reply->names); /* armed all the same */
    watch->pinned = true;
    zkl_item *watcher, *next;
    for (watcher = LIST_FIRST(&watch->watchers); watcher != NULL; watcher = next) {
        next = LIST_NEXT(watcher, in_watch);
        if (rc != ZOK) {
            LIST_REMOVE(watcher, in_watch);
            watcher->watch = NULL;
        }
        watch->watches->wire->items->listed(watcher, rc, reply);
    }
    watch->pinned = false;
    if (watch->state == ZKL_WATCH_IDLE) {
        rearm_or_free(watch);
    } else if (watch->state == ZKL_WATCH_ARMED && !watch_is_wanted(watch)) {
        disarm_watch(watch);
    }
}

/* The watch could not be removed, and is still armed. Its watchers have counted on the list that arms it again. */
static void keep_watch(zkl_watch *watch, int rc)
{
    if (!zkl_outcome_unknown(rc)) {
        zkl_try_later(watch->watches->wire); /* after a lost connection it is tried again anyway */
    }
    zkl_item *watcher, *next;
    for (watcher = watch->children ? LIST_FIRST(&watch->watchers) : NULL; watcher != NULL; watcher = next) {
        next = LIST_NEXT(watcher, in_watch);
        watch->watches->wire->items->kept(watcher);
    }
}

static void on_watch_removed(void *owner, int rc, const zkl_reply *reply)
{
    (void)reply;
    zkl_watch *watch = owner;
    watch->flying--;
    if (watch->state == ZKL_WATCH_REMOVING) {
        watch->state = rc == ZOK ? ZKL_WATCH_IDLE : ZKL_WATCH_ARMED;
        if (rc != ZOK && !watch->told) {
            tell_owner(watch); /* it has come since the removal was sent */
        }
        if (rc == ZOK) {
            watch->watches->others->removed(watch->watches->others_owner, watch->node, watch->children);
            rearm_or_free(watch);
        } else if (rc == ZNOWATCHER) {
            zkl_wire_unwatched(watch->watches->wire); /* the C client removes it with ZOK only (deactivateWatcher) */
        } else {
            keep_watch(watch, rc);
        }
    } else {
        free_watch_if_unused(watch); /* it fired meanwhile, and may have been armed again */
    }
}

/* An event has reached the watch for a flag. */
static void fire_flag(zkl_watch *flag, int type)
{
    zkl_item *watcher = flag->flag_of;
    if (watcher != NULL) {
        flag->watches->flagged = type == ZOO_CREATED_EVENT ? watcher->watch : NULL;
        flag->watches->flagged_at = flag->watches->wire->now;
        leave_flag(watcher);
    } else {
        free_watch_if_unused(flag);
    }
}

/*
 * An event has reached the watch, if that is armed: the C client has forgotten it. `watch` may be NULL. `flagged`: the event before was
 * that the node's flag was made.
 */
static void fire(zkl_watch *watch, int type, bool flagged)
{
    if (watch == NULL || (watch->state != ZKL_WATCH_ARMED && watch->state != ZKL_WATCH_REMOVING)) {
        return;
    }
    zkl_watches *watches = watch->watches;
    const zkl_item_ops *ops = watches->wire->items;
    watches->wire->stats.notifications++;
    watch->state = ZKL_WATCH_IDLE;
    if (watch->flag) {
        fire_flag(watch, type);
        return;
    }
    zkl_item *owner = NULL;
    if (type == ZOO_DELETED_EVENT && !watch->children) {
        owner = part_from_owner(watch);
        owner = owner != NULL ? owner : standing_item(watches, watch->node);
    }
    if (owner != NULL) {
        watch->pinned = true; /* its watchers, which are told below, may leave together with its owner */
        ops->deleted(owner);
        watch->pinned = false;
    }
    if (type == (watch->children ? ZOO_CHILD_EVENT : ZOO_DELETED_EVENT)) {
        tell_watchers(watch, flagged ? ops->passed : ops->gone);
    } else if (watch->children) {
        tell_watchers(watch, ops->look_again);
    } else if (ZKL_BROKEN(ZKL_BREAK_REARM)) {
        return;
    }
    rearm_or_free(watch); /* its data changed, or a watcher has chosen it again */
}

/*
 * Handles an event. A node that is deleted ends the watches on itself and on its children, which the C client reports once, since they
 * have the same function and context.
 */
static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    zkl_watches *watches = context;
    if (type == ZOO_SESSION_EVENT) {
        return; /* the watches stay armed */
    }
    bool soon = watches->wire->now - watches->flagged_at <= TOGETHER;
    const zkl_watch *flagged = soon ? watches->flagged : NULL;
    watches->flagged = NULL;
    if (type != ZOO_CHILD_EVENT) {
        zkl_watch *watch = find_watch(watches, path, false);
        fire(watch, type, flagged != NULL && watch == flagged);
    }
    if (type == ZOO_CHILD_EVENT || type == ZOO_DELETED_EVENT) {
        fire(find_watch(watches, path, true), type, false);
    }
}

void zkl_watches_resume(zkl_watches *watches)
{
    zkl_watch *watch = NULL;
    while ((watch = zkl_table_after(&watches->table, watch)) != NULL) {
        if (watch->state == ZKL_WATCH_ARMED && !watch_is_wanted(watch)) {
            disarm_watch(watch);
        } else if (watch->state == ZKL_WATCH_IDLE && watch->owner != NULL) {
            arm_watch(watch);
        } else if (watch->state == ZKL_WATCH_ARMED && watch->owner != NULL) {
            read_again(watch);
        }
    }
}

void zkl_watches_disconnected(zkl_watches *watches)
{
    watches->flagged = NULL;
    zkl_watch *watch, *next;
    for (watch = zkl_table_after(&watches->table, NULL); watch != NULL; watch = next) {
        next = zkl_table_after(&watches->table, watch);
        if (!watch->flag || (watch->state != ZKL_WATCH_ARMED && watch->state != ZKL_WATCH_REMOVING)) {
            continue; /* the reply to the request that arms it comes, and says that it does not */
        }
        zkl_forget_watch(watches->wire, watch->node, on_event, watches);
        watch->state = ZKL_WATCH_IDLE;
        if (watch->flag_of != NULL) {
            leave_flag(watch->flag_of);
        } else {
            free_watch_if_unused(watch);
        }
    }
}

static void forget_watch(zkl_watch *watch)
{
    zkl_item *watcher = watch->flag_of;
    if (watcher != NULL) {
        watcher->flag = NULL;
    }
    while ((watcher = LIST_FIRST(&watch->watchers)) != NULL) {
        LIST_REMOVE(watcher, in_watch);
        watcher->watch = NULL;
    }
    part_from_owner(watch);
    free_watch(watch);
}

void zkl_watches_closed(zkl_watches *watches)
{
    zkl_watch *watch;
    while ((watch = zkl_table_after(&watches->table, NULL)) != NULL) {
        forget_watch(watch);
    }
}

bool zkl_watch_wanted(const zkl_watches *watches, const char *path, bool children)
{
    const zkl_watch *watch = find_watch(watches, path, children);
    return (watch != NULL && watch_is_wanted(watch)) || is_guarded(watches, path, children);
}

void zkl_watch_forgotten(zkl_watches *watches, const char *path, bool children)
{
    zkl_watch *watch = find_watch(watches, path, children);
    if (watch == NULL) {
        return;
    }
    /*
     * A watch whose own removal is in flight was removed with the others. The answer to its removal says so, and does
     * not count any more.
     */
    if (watch->state == ZKL_WATCH_REMOVING || (watch->state == ZKL_WATCH_ARMED && !watch_is_wanted(watch))) {
        watch->state = ZKL_WATCH_IDLE;
        rearm_or_free(watch);
    }
}

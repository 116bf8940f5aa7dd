/*
 * user_watch: the watches that a program requests with its own reads.
 *
 * Each watch has its own object, even if several are on one path. All have one function and one context, as those of watch.c
 * have, so an event reaches all that are armed on its path. The C client knows a watch until it has fired, was removed, or the
 * handle is closed; it is freed no sooner. Session events do not end a watch; the C client arms it again after a reconnect.
 * The end of the session ends it, and the owner is told.
 *
 * A removal at the server takes all watches of this session on a path (docs/design.md, "Operations of the program"). So a watch that is
 * not needed any more is removed only when this client needs no other watch on that path. Until then the C client keeps it.
 */
#include <string.h>

#include "ops.h"
#include "user_watch.h"

/* What the operation that requested a watch needs of it. In this order; TOLD may be skipped. */
typedef enum {
    ZKL_INTEREST_AWAITED, /* set by zkl_user_watch_new: it is to be told that the watch fired, or that it never will */
    ZKL_INTEREST_TOLD,    /* set by tell_user_watch: it was told, and still points to the watch */
    ZKL_INTEREST_DROPPED  /* set by zkl_user_watch_leave: it does not know the watch any more */
} zkl_watch_interest;

struct zkl_user_watch {
    zkl_link in_watches;
    zkl_operations *operations;
    void (*fired)(void *user, zkl_node_event event, zkl_code code);
    void *user;
    zkl_watch_state state;
    zkl_watch_interest interest;
    bool children; /* constant: on the node's children, else on the node itself */
    bool flying;   /* the reply to its removal is still to come, even if the watch is not REMOVING any more */
    bool cleaning; /* counted in the session's `cleaning` */
    bool counted;  /* counted among the watches of the session: not once it has fired, or could not be set */
    char path[];
};

bool zkl_user_watches_init(zkl_operations *operations)
{
    return zkl_table_init(&operations->watches, offsetof(zkl_user_watch, in_watches));
}

static int64_t bytes_of_user_watch(const zkl_operations *operations, const char *path)
{
    return operations->wire->chroot_length + (int64_t)strlen(path) + ZKL_WATCH_OVERHEAD;
}

bool zkl_user_watch_fits(const zkl_operations *operations, const char *path)
{
    return zkl_watches_have_room(&operations->session->watches, bytes_of_user_watch(operations, path));
}

/* A watch that has fired counts no more, although an operation may point to it for long: until garbage is collected. */
static void set_counted(zkl_user_watch *watch, bool counted)
{
    if (watch->counted != counted) {
        zkl_session *session = watch->operations->session;
        watch->counted = counted;
        session->heartbeat.program_watches += counted ? 1 : -1;
        zkl_watches_reserve(&session->watches,
                            (counted ? 1 : -1) * bytes_of_user_watch(watch->operations, watch->path));
        session->wire.stats.watches += counted ? 1 : -1;
    }
}

zkl_user_watch *zkl_user_watch_new(zkl_operations *operations, const char *path, bool children,
                                   void (*fired)(void *user, zkl_node_event event, zkl_code code), void *user)
{
    size_t length = strlen(path);
    zkl_user_watch *watch = zkl_alloc(sizeof *watch + length + 1);
    if (watch == NULL) {
        return NULL;
    }
    memcpy(watch->path, path, length);
    watch->operations = operations;
    watch->children = children;
    watch->fired = fired;
    watch->user = user;
    watch->interest = ZKL_INTEREST_AWAITED;
    watch->state = ZKL_WATCH_IDLE;
    zkl_table_add(&operations->watches, watch, zkl_hash_text(path, length));
    set_counted(watch, true);
    return watch;
}

/* Returns whether an operation points to the watch. */
static bool knows_user_watch(const zkl_user_watch *watch)
{
    return watch->interest != ZKL_INTEREST_DROPPED;
}

/* Returns whether the C client holds the watch. */
static bool is_armed(const zkl_user_watch *watch)
{
    return watch->state == ZKL_WATCH_ARMED || watch->state == ZKL_WATCH_REMOVING;
}

static void set_cleaning(zkl_user_watch *watch, bool cleaning)
{
    if (watch->cleaning != cleaning) {
        watch->cleaning = cleaning;
        watch->operations->wire->cleaning += cleaning ? 1 : -1;
    }
}

/* Frees the watch when its address is not known any more: by no operation, by no request, and not by the C client. */
static void free_user_watch_if_unused(zkl_user_watch *watch)
{
    if (knows_user_watch(watch) || watch->flying || watch->state != ZKL_WATCH_IDLE) {
        return;
    }
    set_cleaning(watch, false);
    set_counted(watch, false);
    zkl_table_remove(&watch->operations->watches, watch);
    zkl_free(watch);
}

static void tell_user_watch(zkl_user_watch *watch, zkl_node_event event, zkl_code code)
{
    if (watch->interest == ZKL_INTEREST_AWAITED) {
        watch->interest = ZKL_INTEREST_TOLD;
        watch->fired(watch->user, event, code);
    }
}

/* Returns the first watch on a path, or the next one behind `watch`; NULL: none. */
static zkl_user_watch *next_on(const zkl_operations *operations, const char *path, const zkl_user_watch *watch)
{
    zkl_user_watch *next = watch != NULL ? zkl_table_find_next(&operations->watches, watch)
                                         : zkl_table_find(&operations->watches, zkl_hash_text(path, strlen(path)));
    while (next != NULL && strcmp(next->path, path) != 0) {
        next = zkl_table_find_next(&operations->watches, next);
    }
    return next;
}

/* Returns whether the program still waits, or is about to wait, for this kind of watch on a path. */
static bool user_watch_is_wanted(const void *operations, const char *path, bool children)
{
    const zkl_user_watch *watch = NULL;
    while ((watch = next_on(operations, path, watch)) != NULL) {
        bool armed = watch->state == ZKL_WATCH_ARMED || watch->state == ZKL_WATCH_ARMING;
        if (knows_user_watch(watch) && armed && watch->children == children) {
            return true;
        }
    }
    return false;
}

/* All watches of one kind on a node were removed, including those that the program does not need any more. */
static void forget_user_watch(void *operations, const char *path, bool children)
{
    zkl_user_watch *next;
    for (zkl_user_watch *watch = next_on(operations, path, NULL); watch != NULL; watch = next) {
        next = next_on(operations, path, watch);
        if (is_armed(watch) && !knows_user_watch(watch) && watch->children == children) {
            watch->state = ZKL_WATCH_IDLE;
            free_user_watch_if_unused(watch);
        }
    }
}

static void on_user_watch_removed(void *owner, int rc, const zkl_reply *reply)
{
    (void)reply;
    zkl_user_watch *watch = owner;
    zkl_operations *operations = watch->operations;
    if (watch->state == ZKL_WATCH_REMOVING && rc != ZOK) {
        watch->state = ZKL_WATCH_ARMED;
        if (rc == ZNOWATCHER) {
            zkl_wire_unwatched(operations->wire);
        } else if (!zkl_outcome_unknown(rc)) {
            zkl_try_later(operations->wire); /* after a lost connection it is tried again anyway */
        }
    } else if (watch->state == ZKL_WATCH_REMOVING) {
        /* Not this one yet: its request is in flight. */
        forget_user_watch(operations, watch->path, watch->children);
        zkl_watch_forgotten(&operations->session->watches, watch->path, watch->children);
    }
    watch->flying = false;
    free_user_watch_if_unused(watch);
}

/*
 * Removes an armed watch that is not needed any more, if no other watch is lost with it: now, or when requests may go
 * out again.
 */
static void disarm_user_watch(zkl_user_watch *watch)
{
    zkl_operations *operations = watch->operations;
    if (user_watch_is_wanted(operations, watch->path, watch->children) ||
        zkl_watch_wanted(&operations->session->watches, watch->path, watch->children) ||
        zkl_configuration_watched(operations->wire, watch->path, watch->children)) {
        set_cleaning(watch, false);
        return;
    }
    set_cleaning(watch, true);
    if (!operations->wire->usable) {
        return;
    }
    watch->state = ZKL_WATCH_REMOVING;
    watch->flying = true;
    const zkl_ask ask = {.on_reply = on_user_watch_removed, .owner = watch};
    int rc = zkl_send_unwatch(operations->wire, &ask, watch->path, watch->children);
    if (rc != ZOK) {
        watch->flying = false;
        watch->state = rc == ZNOWATCHER ? ZKL_WATCH_IDLE : ZKL_WATCH_ARMED;
        if (rc != ZNOWATCHER) {
            zkl_try_later(operations->wire);
        }
    }
}

void zkl_user_watch_arming(zkl_user_watch *watch)
{
    watch->state = ZKL_WATCH_ARMING;
    set_counted(watch, true);
}

/* Events can come only after this call. */
void zkl_user_watch_armed(zkl_user_watch *watch, bool armed)
{
    watch->state = armed ? ZKL_WATCH_ARMED : ZKL_WATCH_IDLE;
    set_counted(watch, armed);
}

void zkl_user_watch_leave(zkl_user_watch *watch)
{
    watch->interest = ZKL_INTEREST_DROPPED;
    if (watch->state == ZKL_WATCH_ARMED) {
        disarm_user_watch(watch);
    }
    free_user_watch_if_unused(watch);
}

void zkl_user_watch_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    zkl_operations *operations = context;
    zkl_node_event event = type == ZOO_CREATED_EVENT   ? ZKL_EVENT_CREATED
                           : type == ZOO_DELETED_EVENT ? ZKL_EVENT_DELETED
                           : type == ZOO_CHANGED_EVENT ? ZKL_EVENT_CHANGED
                           : type == ZOO_CHILD_EVENT   ? ZKL_EVENT_CHILD
                                                       : ZKL_EVENT_NONE;
    if (event == ZKL_EVENT_NONE) {
        return; /* a session event: the watches stay armed */
    }
    operations->wire->stats.notifications++;
    zkl_user_watch *next;
    for (zkl_user_watch *watch = next_on(operations, path, NULL); watch != NULL; watch = next) {
        next = next_on(operations, path, watch);
        if (is_armed(watch) && (event == ZKL_EVENT_DELETED || watch->children == (event == ZKL_EVENT_CHILD))) {
            watch->state = ZKL_WATCH_IDLE; /* the C client has forgotten it */
            set_counted(watch, false);
            tell_user_watch(watch, event, ZKL_OK);
            free_user_watch_if_unused(watch);
        }
    }
}

void zkl_user_watches_resume(void *owner)
{
    zkl_operations *operations = owner;
    zkl_user_watch *next;
    for (zkl_user_watch *watch = zkl_table_after(&operations->watches, NULL); watch != NULL; watch = next) {
        next = zkl_table_after(&operations->watches, watch);
        if (watch->state == ZKL_WATCH_ARMED && !knows_user_watch(watch)) {
            disarm_user_watch(watch);
            free_user_watch_if_unused(watch);
        }
    }
}

void zkl_user_watches_end(zkl_operations *operations, zkl_code code)
{
    zkl_user_watch *watch = NULL;
    while ((watch = zkl_table_after(&operations->watches, watch)) != NULL) {
        if (watch->state == ZKL_WATCH_ARMED) {
            tell_user_watch(watch, ZKL_EVENT_NONE, code);
        }
    }
}

void zkl_user_watches_closed(void *owner)
{
    zkl_operations *operations = owner;
    zkl_user_watch *next;
    for (zkl_user_watch *watch = zkl_table_after(&operations->watches, NULL); watch != NULL; watch = next) {
        next = zkl_table_after(&operations->watches, watch);
        watch->state = ZKL_WATCH_IDLE;
        set_counted(watch, false);
        free_user_watch_if_unused(watch);
    }
}

const zkl_other_watches zkl_program_watches = {.wanted = user_watch_is_wanted, .removed = forget_user_watch};

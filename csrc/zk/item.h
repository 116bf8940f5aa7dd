/*
 * item: a znode of the layer above, as heartbeats and watches see it, and what they ask and tell that layer.
 */
#ifndef ZKLOCK_ITEM_H
#define ZKLOCK_ITEM_H

#include <sys/queue.h>

#include "base/base.h"

typedef struct zkl_watch zkl_watch;
struct zkl_reply;

/* The state of an item, as heartbeats see it. In this order. */
typedef enum {
    ZKL_ITEM_NONE,    /* It has no node. */
    ZKL_ITEM_PENDING, /* Its node may be being created. */
    ZKL_ITEM_LEAVING, /* It has a node, which does not matter any more. */
    ZKL_ITEM_PRESENT, /* It has a node, which heartbeats check in turn. */
    ZKL_ITEM_READY,   /* The same, and a grant waits for a lease: each heartbeat proves that the node is still ours. */
    ZKL_ITEM_HELD     /* A grant depends on its node: likewise. */
} zkl_item_state;

/* Whether the present connection has a watch on the node of an item, which would tell that the node was deleted. */
typedef enum {
    ZKL_GUARD_NONE,  /* no: if the item is READY or HELD, it is in heartbeat->loose */
    ZKL_GUARD_ASKED, /* set when the read that arms it is sent */
    ZKL_GUARD_ARMED  /* set by that read's answer, which has shown that the node is ours */
} zkl_guard;

/* Part of a larger object. */
typedef struct zkl_item {
    /* Its watches (watch.c); NULL: none. */
    LIST_ENTRY(zkl_item) in_watch;
    zkl_watch *watch; /* on a node, or on a directory */
    zkl_watch *flag;  /* on the flag of that node */
    zkl_watch *own;   /* on its own node */
    /* Its own node: heartbeat.c */
    TAILQ_ENTRY(zkl_item) in_turn;
    TAILQ_ENTRY(zkl_item) in_loose;
    struct zkl_heartbeat *heartbeat; /* set by zkl_heartbeat_enter */
    zkl_item_state state : 8;
    zkl_guard guard : 8;
    uint8_t visits; /* how often heartbeats have checked it, from a number on that differs among items */
    uint32_t since; /* the number of the round after which it became READY or HELD */
    uint32_t taken; /* the number of the round that checked it last */
} zkl_item;

TAILQ_HEAD(zkl_item_list, zkl_item);

/* The description of an item for heartbeats. Valid until the item changes. */
typedef struct {
    uint32_t generation; /* grows when replies to earlier requests must not count any more */
    bool any_czxid;      /* its own node is known by the session alone: no other client has it */
    const char *path;    /* NULL: it has no node */
    int64_t czxid;       /* its node's */
} zkl_item_facts;

/* The functions by which heartbeats and watches ask about items, and tell them. An item is detached from its watch before `gone` and `look_…`. */
typedef struct {
    /* Returns the owner's item that has the node with this full path; NULL: none has it. */
    zkl_item *(*of_node)(const void *owner, const char *path);
    /* Its node was deleted, and not by itself. */
    void (*deleted)(zkl_item *item);

    /* Heartbeats */
    zkl_item_facts (*describe)(const zkl_item *item);
    /* A heartbeat points to the item, or does not any more: until then its memory stays. */
    void (*keep)(zkl_item *item);
    void (*release)(zkl_item *item);
    /* Another node has the name of its own, which must therefore be gone. */
    void (*replaced)(zkl_item *item);

    /* Watches */
    /* The node is gone for good, or the directory has changed. */
    void (*gone)(zkl_item *watcher);
    /* The node is gone for good, and the transaction that deleted it has made its flag. */
    void (*passed)(zkl_item *watcher);
    /* The watch could not be armed, or must be armed again. */
    void (*look_again)(zkl_item *watcher);
    /* The same, but not at once: no watch tells when. */
    void (*look_later)(zkl_item *watcher);
    /* The node may not be read, so it cannot be watched. */
    void (*unreadable)(zkl_item *watcher);
    /* The watch could not be sent, or there was no memory for it. */
    void (*failed)(zkl_item *watcher);
    /* The watch was armed, and the node has this czxid; 0: it is not there. */
    void (*answered)(zkl_item *watcher, int64_t czxid);
    /* The list that armed the watch on a directory. */
    void (*listed)(zkl_item *watcher, int rc, const struct zkl_reply *reply);
    /* The watch on a directory stays armed although its removal was requested: no list comes. */
    void (*kept)(zkl_item *watcher);
    /* Returns whether the data of an item's own node ask it for something. */
    bool (*asks)(const char *data, int length);
    /* They do. */
    void (*revoked)(zkl_item *item);
} zkl_item_ops;

#endif

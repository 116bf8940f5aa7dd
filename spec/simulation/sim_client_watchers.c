/*
 * sim_client_watchers: the watchers in a handle (zk_hashtable.c of the real client). There are three tables: for get,
 * for exists that found no node, and for lists.
 */
#include <stdlib.h>

#include "sim_client.h"

void sim_free_watchers(sim_watcher *list)
{
    while (list != NULL) {
        sim_watcher *next = list->next;
        free(list);
        list = next;
    }
}

void sim_arm(zhandle_t *zh, int kind, int path, watcher_fn call, void *context)
{
    for (const sim_watcher *each = zh->watchers; each != NULL; each = each->next) {
        if (each->kind == kind && each->path == path && each->call == call && each->context == context)
            return;
    }
    sim_watcher *fresh = sim_must(malloc(sizeof(*fresh)));
    *fresh = (sim_watcher){zh->watchers, kind, path, call, context};
    zh->watchers = fresh;
}

static bool in_list(const sim_watcher *list, watcher_fn call, const void *context)
{
    for (; list != NULL; list = list->next) {
        if (list->call == call && list->context == context)
            return true;
    }
    return false;
}

static void copy_to(sim_watcher **list, const sim_watcher *from)
{
    if (in_list(*list, from->call, from->context))
        return;
    sim_watcher *copy = sim_must(malloc(sizeof(*copy)));
    *copy = *from;
    copy->next = *list;
    *list = copy;
}

sim_watcher *sim_session_watchers(const zhandle_t *zh)
{
    sim_watcher *list = NULL;
    sim_watcher own = {NULL, 0, 0, zh->watcher, zh->context};
    copy_to(&list, &own);
    for (const sim_watcher *each = zh->watchers; each != NULL; each = each->next)
        copy_to(&list, each);
    return list;
}

static bool event_reaches(int type, int kind)
{
    if (type == ZOO_DELETED_EVENT)
        return true;
    if (type == ZOO_CHILD_EVENT)
        return kind == SIM_WATCH_CHILDREN;
    return kind != SIM_WATCH_CHILDREN;
}

sim_watcher *sim_take_watchers(zhandle_t *zh, int type, int path)
{
    sim_watcher *taken = NULL;
    for (int kind = SIM_WATCH_DATA; kind <= SIM_WATCH_CHILDREN; kind++) {
        sim_watcher **place = &zh->watchers;
        while (*place != NULL) {
            sim_watcher *each = *place;
            if (each->kind != kind || each->path != path || !event_reaches(type, kind)) {
                place = &each->next;
                continue;
            }
            *place = each->next;
            copy_to(&taken, each);
            free(each);
        }
    }
    return taken;
}

void sim_disarm(zhandle_t *zh, int path, ZooWatcherType type, watcher_fn call, const void *context)
{
    sim_watcher **place = &zh->watchers;
    while (*place != NULL) {
        sim_watcher *each = *place;
        bool meant = type == ZWATCHTYPE_ANY || (type == ZWATCHTYPE_CHILD) == (each->kind == SIM_WATCH_CHILDREN);
        bool other = call != NULL && (each->call != call || each->context != context);
        if (each->path != path || !meant || other) {
            place = &each->next;
            continue;
        }
        *place = each->next;
        free(each);
    }
}

int *sim_watched_paths(const zhandle_t *zh, int kind, int *count)
{
    int most = 0;
    for (const sim_watcher *each = zh->watchers; each != NULL; each = each->next)
        most += each->kind == kind;
    int *paths = sim_alloc((size_t)(most + 1) * sizeof(*paths));
    for (const sim_watcher *each = zh->watchers; each != NULL; each = each->next) {
        bool known = each->kind != kind;
        for (int i = 0; i < *count && !known; i++)
            known = paths[i] == each->path;
        if (!known)
            paths[(*count)++] = each->path;
    }
    return paths;
}

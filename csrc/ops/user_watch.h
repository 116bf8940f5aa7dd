/*
 * user_watch: the watches that a program requests with its own reads.
 */
#ifndef ZKLOCK_USER_WATCH_H
#define ZKLOCK_USER_WATCH_H

#include "ops.h"

typedef struct zkl_user_watch zkl_user_watch;

/* Makes the table of watches. Returns false when memory is short. */
bool zkl_user_watches_init(zkl_operations *operations);
/* Returns whether another watched path still fits under ZKL_MAX_WATCHED_BYTES. */
bool zkl_user_watch_fits(const zkl_operations *operations, const char *path);
/* Returns a new watch, which belongs to the caller until zkl_user_watch_leave; NULL when memory is short. */
zkl_user_watch *zkl_user_watch_new(zkl_operations *operations, const char *path, bool children,
                                   void (*fired)(void *user, zkl_node_event event, zkl_code code), void *user);
/* The read that arms the watch goes out. */
void zkl_user_watch_arming(zkl_user_watch *watch);
/* The read was answered. `armed`: the C client holds the watch now. */
void zkl_user_watch_armed(zkl_user_watch *watch, bool armed);
/* The operation does not need the watch any more. Not to be called while the read that arms it is in flight. */
void zkl_user_watch_leave(zkl_user_watch *watch);
/* The C client's watcher function, for the read that arms a watch. Its context is the zkl_operations. */
void zkl_user_watch_event(zhandle_t *handle, int type, int state, const char *path, void *context);
/* Requests may go out again: removes watches that could not be removed. `owner`: the zkl_operations, as the session knows it. */
void zkl_user_watches_resume(void *owner);
/* Tells the owners of all armed watches that these will not fire any more, and why (`code`). */
void zkl_user_watches_end(zkl_operations *operations, zkl_code code);
/* The handle is closed: no watcher is called any more. `owner`: likewise. */
void zkl_user_watches_closed(void *owner);

#endif

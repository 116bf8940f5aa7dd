/*
 * sim_selftest_clients: the clients of the tests of sim_selftest: a world to begin with, handles, requests, and the story
 * of each client.
 *
 * A client is a caller of the simulation, from 0 on. Its completions and watchers write words into its story, with a
 * space between:
 *
 *   S3 E2     an event in the handle's own watcher: the state of a session event; the type of another event
 *   W2        an event in a watcher on a node: its type; on_named_watch writes the watcher's name instead of W
 *   v0 s-4    a completion: the kind of its result (void, string, data, stat: x, list), and the code
 *   l0:2      a list: the code, and the number of names, -1 if there is no list
 */
#ifndef ZKLOCK_SIM_SELFTEST_CLIENTS_H
#define ZKLOCK_SIM_SELFTEST_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <zookeeper/zookeeper.h>

#include "sim_zookeeper.h"

#define T (4 * SIM_SECOND)

/* The results of each client's completions and watchers, in their order, as text. */
extern char story[SIM_MAX_CALLERS][2000];
extern zhandle_t *handles[SIM_MAX_CALLERS];
/* The latest results: the path of a created node; the Stat; the length and the data of a node. */
extern char created[SIM_MAX_CALLERS][128];
extern struct Stat stats[SIM_MAX_CALLERS];
extern char contents[SIM_MAX_CALLERS][32];

/* --- worlds --- */

/* Begins a world with so many servers, and waits until they have a leader. `name` is the test's. */
void begin_test(const char *name, int servers);
/* The same with a version of the C client. */
void begin_test_of_client(const char *name, int servers, const char *version);
/* The same with a link to server 0, and client 0 behind it. Returns the link. */
int begin_link(const char *name, int servers);
/* Closes all handles, and ends the world. */
void end_test(void);

/* --- handles --- */

void open_handle(int caller);
/* Opens a handle with another list of servers. */
void open_at(int caller, const char *hosts);
/* Takes one turn of a client's loop. Returns the result of zookeeper_interest. */
int turn(int caller);
void run_for(int64_t during);

/* --- stories --- */

void forget_story(void);
/*
 * Runs for a second. Returns whether the caller's completions and watchers reported exactly `expected` since the last
 * call.
 */
bool says(int caller, const char *expected);
/* Returns whether two texts are the same; prints the first one if they are not. NULL is the same as NULL only. */
bool is_text(const char *text, const char *expected);

/* --- requests, whose answers are in the story --- */

void create_at(int caller, const char *path, int mode);
void remove_at(int caller, const char *path);
void list_at(int caller, const char *path);
/* Lists with a Stat. `name`: of a watch on the children; NULL: no watch. */
void list2_at(int caller, const char *path, const char *name);
void set_at(int caller, const char *path, const char *value, int version);
void get_at(int caller, const char *path);
void exists_at(int caller, const char *path);
/* Sends a multi that creates a node and checks its version. */
void multi_at(int caller, const char *path);
void watch_at(int caller, const char *path, void *context);
void unwatch_at(int caller, const char *path, ZooWatcherType type);
/* Returns the number of watches on all servers. */
int server_watches(void);

/* --- watchers and completions, for requests that a test sends itself; data_of(caller) is their data --- */

void *data_of(int caller);
void on_event(zhandle_t *zh, int type, int state, const char *path, void *context);
void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context);
/* As on_watch, but reports the name that is its context. */
void on_named_watch(zhandle_t *zh, int type, int state, const char *path, void *context);
void on_void(int rc, const void *data);
void on_string(int rc, const char *value, const void *data);
void on_string_stat(int rc, const char *value, const struct Stat *stat, const void *data);
void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data);
void on_stat(int rc, const struct Stat *stat, const void *data);
void on_strings(int rc, const struct String_vector *strings, const void *data);
void on_strings_stat(int rc, const struct String_vector *strings, const struct Stat *stat, const void *data);

#endif

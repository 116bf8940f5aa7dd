/*
 * world: what a ZooKeeper client and one server stand in, real or simulated. Two implementations:
 *
 * - world_simulated.c: the functions of zookeeper.h are those of spec/simulation, and so is the server.
 * - world_real.c: libzookeeper_st, a server started by tools/zookeeper, and for each client a tools/faultproxy.lua between the
 *   two. To be run from the project's root.
 *
 * Clients are numbers from 0. A client has at most one handle at a time; faults are aimed at a client.
 */
#ifndef ZKLOCK_CONFORMANCE_WORLD_H
#define ZKLOCK_CONFORMANCE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <zookeeper/zookeeper.h>

#define WORLD_CLIENTS 3
/* The bounds within which the server negotiates timeouts, ms. */
#define WORLD_LEAST_TIMEOUT 4000
#define WORLD_MOST_TIMEOUT 40000
/* A directory whose next sequential child has the number before the last one. It is there from the beginning. */
#define WORLD_NEARLY_FULL "/nearly-full"

/* Which of the two it is: for the differences between them that are known. */
extern const bool world_is_real;

/* Once, before and after all cases; false: it could not be started. */
bool world_start(void);
void world_stop(void);
/* Before and after each case, which finds no node but WORLD_NEARLY_FULL. `seed` decides what the simulation leaves to chance. */
void world_begin(uint64_t seed);
void world_end(void);

/* The host string by which a client's handle reaches the server, without a chroot. Opens and closes handles of that client
 * from now on. */
const char *world_host(int client);
/* One turn of the loop of each handle that is not NULL: zookeeper_interest, poll, zookeeper_process. Waits until there was
 * something to do for one of them, or for a moment. */
void world_turn(zhandle_t *const *handles);
/* What zookeeper_process said to a client last. */
int world_said(int client);
/* How many turns read something from the server. */
int world_reads(int client);
/* False if so many seconds of this world have passed since then; a bound for hangs. */
int64_t world_now(void);
int64_t world_patience(void);

/* --- faults; none of them runs a loop of the case's handles --- */

/* The client's connection is lost, and what is under way with it. What the server has received before is carried out. */
void world_cut(int client);
/* What the client sends is held back on its way, until this ends or the connection is cut. */
void world_hold_requests(int client, bool hold);
/* The same of what the server sends. New connections are held back likewise. */
void world_hold_replies(int client, bool hold);
/* The connection is lost after the client's next request to create an ephemeral node, or its next delete, was carried out. */
void world_lose_next_create(int client);
void world_lose_next_delete(int client);
/* The next thing that the client sends fails in send(2). */
void world_fail_next_send(int client);
/* Ends a session by somebody else's hand. */
void world_end_session(const clientid_t *session);
/* The server is killed, and started again with the data that it had. */
void world_restart_server(void);
/* The server refuses credentials of the scheme "unknown". */
void world_refuse_credentials(void);
/* From now on nobody may do this with the node: ZOO_PERM_READ, … */
void world_forbid(const char *path, int permissions);
/* Empty containers are looked for now, or soon. */
void world_reap(void);

#endif

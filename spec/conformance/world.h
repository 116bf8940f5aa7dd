/*
 * world: a ZooKeeper server and the way to it, real or simulated. There are two implementations:
 *
 * - world_simulated.c: spec/simulation provides the functions of zookeeper.h and the server.
 * - world_real.c: libzookeeper_st, a server started by tools/zookeeper, and one tools/faultproxy.lua for each client. Run it
 *   from the project's root.
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

/* Tells the two worlds apart, for known differences. */
extern const bool world_is_real;

/* The versions of the server and of the C client. */
const char *world_server_version(void);
const char *world_client_version(void);

/* To be called once, before and after all cases; false: it could not be started. */
bool world_start(void);
void world_stop(void);
/*
 * To be called before and after each case, which finds no node but WORLD_NEARLY_FULL. `seed` decides what the simulation leaves to
 * chance.
 */
void world_begin(uint64_t seed);
void world_end(void);

/*
 * Whether the server has no more than so many sessions. Sessions of earlier cases may still be there, and the end of each takes
 * a zxid.
 */
bool world_has_only(int sessions);
/* The host string by which a client's handle reaches the server, without a chroot. Opens and closes handles of that client
 * from now on. */
const char *world_host(int client);
/* A host string whose name does not resolve. world_host ends this. */
const char *world_unknown_host(int client);
/*
 * Runs one turn of the loop of each handle that is not NULL: zookeeper_interest, poll, zookeeper_process. Waits until one of them
 * had something to do, or for a moment.
 */
void world_turn(zhandle_t *const *handles);
/* The last result of zookeeper_process for this client. */
int world_said(int client);
/* How many turns read something from the server. */
int world_reads(int client);
/* This world's time, and the longest wait for a condition, which ends a hang; nanoseconds. */
int64_t world_now(void);
int64_t world_patience(void);

/* --- faults; none of them runs a loop of the case's handles, unless it says so --- */

/* Resets the client's connection. Messages in flight are lost. The server executes the requests that it has received. */
void world_cut(int client);
/* Holds back the client's requests on their way, on new connections, too. */
void world_hold_requests(int client, bool hold);
/* Holds back the server's replies and events in the same way. */
void world_hold_replies(int client, bool hold);
/* The connection is lost after the client's next request to create an ephemeral node, or its next delete, was executed. */
void world_lose_next_create(int client);
void world_lose_next_delete(int client);
/* The client's next send(2) fails. */
void world_fail_next_send(int client);
/*
 * Another client ends the session. If that takes time, the loops of the other handles run meanwhile, so that their sessions outlast a
 * slow server; they may not be closed there. The loop of this session's handle does not run, since it could take the session back.
 */
void world_end_session(const clientid_t *session, zhandle_t *const *handles);
/* The server is killed, and started again with the data that it had. */
void world_restart_server(void);
/* The server refuses credentials of the scheme "unknown". */
void world_refuse_credentials(void);
/* Takes these permissions (ZOO_PERM_READ, …) on a node away from all clients. */
void world_forbid(const char *path, int permissions);
/* Sets what the server says of the ensemble's configuration. */
void world_configure(const char *text);
/* Makes the server look for empty containers, now or soon. */
void world_reap(void);

#endif

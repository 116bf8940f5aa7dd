/*
 * fake_server: a ZooKeeper server that lies, for fuzz_server.c.
 *
 * Speaks the protocol over a TCP socket of this very process, to one client at a time, and keeps a small tree of nodes, so that
 * a client can get far with it. It answers as a server does, except where the input, whose next byte it takes for every answer,
 * says otherwise: then it does not answer, answers late, twice, out of order or under a wrong number, with another error, with
 * other names, numbers and stats, too long or cut off, closes the connection in the middle of a packet, or tells of events that
 * nobody asked for.
 *
 * What it leaves out, because it ends the process inside the C client (3.8.0 as Debian builds it, with its assertions). Of the 36
 * of those, what a server says can fail two:
 *   - zookeeper.c:3476, assert(cptr) in zookeeper_process: an answer while no request is under way. So there are never more
 *     answers than requests. A packet without a whole header (16 bytes) comes to the same: its number is then what the stack
 *     holds, mostly that of the answer before. An empty one is whole as soon as its length is there: of the lengths that nothing
 *     has, which all announce bytes that do not follow, 0 is the one that must not be sent;
 *   - zookeeper.c:3182, assert(entry) in deserialize_multi: more parts in a good answer to a multi than were asked for, or no end
 *     of them.
 * Of the others, seven fail when memory is short (zookeeper.c:1950; zk_hashtable.c:61, 86, 95, 118, 168, 190), and nothing that a
 * server says reaches the rest: they are about lists that only the C client changes (zookeeper.c:1705, 1728, 1739, 3154, 3664,
 * 3675) and about what its callers pass. Beside assertions, these use what was never read, or was never there:
 *   - a good answer whose body is too short for its type: data and paths that were not read are freed, and stats and counts of
 *     names used (deserialize_response). Too short is, of the answer to a create2, a path of negative length too; in other
 *     answers to a create the C client sees that the path is not there, and with names and data it makes do;
 *   - an event without a path, such as an answer that has the number of events (-1): deserialize_WatcherEvent;
 *   - a refusal of credentials (-4, with an error) where none were shown: it names the first (auth_completion_func);
 *   - more names in a list than memory can be had for, of which one follows: it is written through NULL
 *     (deserialize_String_vector).
 * All of them were seen to end a process. Leaks do not: the C client forgets the parts of a multi that an answer leaves out, which
 * is why leaks are counted by zkl_memory_in_use.
 * docs/reliability.md says what that means for those who use zklock.
 */
#ifndef ZKLOCK_FAKE_SERVER_H
#define ZKLOCK_FAKE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes still to be used; 0 for ever when there are none left. */
typedef struct {
    const uint8_t *at;
    size_t left;
} input;
uint8_t take(input *in);

/* Listens, once a process; the port to connect to. */
int server_start(void);
/* A new world, without nodes; `in` says where to lie. */
void server_begin(input *in);
/* Closes the connection, forgets everything. */
void server_end(void);
/* Takes what has come, and answers. */
void server_turn(void);
/* Waits until there is something to take, for so many milliseconds at most. The one function that needs no lock of its caller's. */
void server_wait(int ms);
/* From now on it is honest, and what it has held back it gives up. */
void server_reform(void);
/* Something of its own accord, as the input says: an event, the end of the connection or of the session, a node of others. */
void server_act(void);

/* --- what it has told, for whoever asks whether that was enough ------------------------------------------------------ */

/* A create of `node`, whose name the server completes, was asked for. */
bool server_was_asked_for(const char *node);
/* It has told of a list with this node in it in which all that `conflicts` says stand in its way were told to be gone. */
bool server_told_first(const char *node, bool (*conflicts)(const char *own, const char *other));
/* What it has said of the nodes that it has made, and of those whose stat it was asked for. */
typedef struct {
    char path[200]; /* "": nothing */
    int64_t czxid;
    bool deleted; /* it was told to, afterwards */
} told_node;
/* An array of so many; NULL if it has told of more than it remembers. */
const told_node *server_told_nodes(int *count);
/* How many creates and deletes it was asked for. */
int64_t server_writes(void);
/* It has told of a list with this node in it, and of no more than `limit` that `counts`. */
bool server_told_room(const char *node, int limit, bool (*counts)(const char *name));

#endif

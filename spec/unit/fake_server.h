/*
 * fake_server: a ZooKeeper server that sends wrong answers, for fuzz_server.c.
 *
 * It speaks the protocol over a TCP socket of this same process, to one client at a time, and keeps a small tree of nodes, so that
 * a client can get far with it. It takes one byte of the input for each answer. For some bytes it answers as a real server does.
 * For the others it does not answer; answers late, twice, out of order or under a wrong number; answers with another error, other
 * names, numbers and stats, too long or cut off; closes the connection in the middle of a packet; or sends events that the client
 * did not ask for.
 *
 * It leaves out the answers that end the process inside the C client (3.8.0 as Debian builds it, with its assertions). A server's
 * answer can fail two of the 36 assertions:
 *   - zookeeper.c:3476, assert(cptr) in zookeeper_process: an answer while no request is in flight. So there are never more
 *     answers than requests. A packet without a whole header (16 bytes) has the same effect: its number is then whatever the stack
 *     holds, mostly the number of the previous answer. Wrong lengths announce bytes that do not follow, so such a packet is never
 *     complete; but a packet of length 0 is complete as soon as its length is there, so 0 must not be sent;
 *   - zookeeper.c:3182, assert(entry) in deserialize_multi: more parts in a good answer to a multi than the request had, or no end
 *     of them.
 * Seven of the other assertions fail when memory is short (zookeeper.c:1950; zk_hashtable.c:61, 86, 95, 118, 168, 190). The rest
 * cannot be reached by an answer of a server: they are about lists that only the C client changes (zookeeper.c:1705, 1728, 1739,
 * 3154, 3664, 3675) and about what its callers pass. These answers use memory that was never set, or that does not exist:
 *   - a good answer whose body is too short for its type: data and paths that were not read are freed, and stats and counts of
 *     names are used (deserialize_response). In the answer to a create2, a path of negative length counts as too short; in other
 *     answers to a create the C client notices that the path is missing, and with names and data it copes;
 *   - an event without a path, for example an answer that has the number of events (-1): deserialize_WatcherEvent;
 *   - a refusal of credentials (-4, with an error) if the client sent none: the C client names the first (auth_completion_func);
 *   - a list of more names than can be allocated, followed by at least one name: the name is written through NULL
 *     (deserialize_String_vector).
 * All of these were seen to end a process. Leaks do not: the C client does not free the parts of a multi that an answer leaves out,
 * so leaks are counted by zkl_memory_in_use.
 * docs/reliability.md says what this means for users of zklock.
 */
#ifndef ZKLOCK_FAKE_SERVER_H
#define ZKLOCK_FAKE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes that are not used yet; take returns 0 when there are none left. */
typedef struct {
    const uint8_t *at;
    size_t left;
} input;
uint8_t take(input *in);

/* Listens, once a process. Returns the port to connect to. */
int server_start(void);
/* Begins anew, without nodes; `in` chooses the wrong answers. */
void server_begin(input *in);
/* Closes the connection and forgets everything. */
void server_end(void);
/* Takes the requests that have arrived, and answers. */
void server_turn(void);
/* Waits for at most `ms` milliseconds until a request arrives. The only function that needs no lock of the caller's. */
void server_wait(int ms);
/* From now on all answers are right. Ends the connection, so that answers that were held back are lost. */
void server_reform(void);
/*
 * Does something without a request, as the input says: an event, the end of the connection or of the session, a node of another
 * client.
 */
void server_act(void);

/* --- what it has answered, to check whether that was enough ---------------------------------------------------------- */

/* Whether the client has requested a create of `node`, whose name the server completes. */
bool server_was_asked_for(const char *node);
/*
 * Whether it has sent a list that has this node in it, and for each conflicting node of that list the answer or event that it is
 * gone.
 */
bool server_told_first(const char *node, bool (*conflicts)(const char *own, const char *other));
/* What it has sent about the nodes that it made, and about those whose stat was requested. */
typedef struct {
    char path[200]; /* "": nothing */
    int64_t czxid;
    bool deleted; /* by a later request */
} told_node;
/* Returns an array of `count` elements; NULL if it has sent more than it remembers. */
const told_node *server_told_nodes(int *count);
/* How many creates and deletes were requested. */
int64_t server_writes(void);
/* Whether it has sent a list that has this node in it and at most `limit` nodes that `counts` accepts. */
bool server_told_room(const char *node, int limit, bool (*counts)(const char *name));

#endif

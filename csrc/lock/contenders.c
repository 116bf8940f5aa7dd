/*
 * contenders: the holders and waiters of a path.
 *
 * A query lists the directory, and then reads the data of every lock node in it. As many reads as the limit allows are
 * in flight at once, at least one, and the next ones are sent as these are answered. A node that disappears in between
 * is left out. When the connection is lost, the query begins again on the next one. The result shows a moment that has
 * passed: it is for people and dashboards, not for decisions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contenders.h"

static void forget_contenders(zkl_query *query)
{
    for (int32_t i = 0; i < query->count; i++) {
        zkl_free((void *)(uintptr_t)query->contenders[i].node);
        zkl_free((void *)(uintptr_t)query->contenders[i].identity);
    }
    zkl_free(query->contenders);
    query->contenders = NULL;
    query->count = query->next = 0;
}

static void free_query(zkl_query *query)
{
    forget_contenders(query);
    zkl_free(query->path);
    zkl_free(query);
}

/* Answers the query once, and unlinks it. The query stays allocated until its last reply is in. */
static void answer(zkl_query *query, zkl_code code, const char *message)
{
    if (query->answered) {
        return;
    }
    query->answered = true;
    LIST_REMOVE(query, all);
    int32_t kept = 0;
    int32_t exclusive_ahead = 0;
    int32_t shared_ahead = 0;
    int32_t exclusive_tied = 0; /* with the same number, as a downgraded reader and its writer have it */
    int32_t shared_tied = 0;
    for (int32_t i = 0; code == ZKL_OK && i < query->count; i++) {
        zkl_contender *contender = &query->contenders[i];
        if (contender->identity == NULL) {
            zkl_free((void *)(uintptr_t)contender->node);
            continue;
        }
        bool shared = contender->kind == ZKL_NODE_SHARED;
        if (kept > 0 && contender->sequence != query->contenders[kept - 1].sequence) {
            exclusive_ahead += exclusive_tied;
            shared_ahead += shared_tied;
            exclusive_tied = shared_tied = 0;
        }
        int32_t ahead = exclusive_ahead + (shared ? 0 : shared_ahead + exclusive_tied);
        contender->holder = contender->kind == ZKL_NODE_LEASE || ahead == 0;
        exclusive_tied += contender->kind == ZKL_NODE_EXCLUSIVE;
        shared_tied += shared;
        query->contenders[kept++] = *contender;
    }
    if (code == ZKL_OK) {
        query->count = kept;
    }
    query->done(query->user, code, message, query->contenders, code == ZKL_OK ? query->count : 0);
}

static int by_sequence(const void *a, const void *b)
{
    const zkl_contender *x = a;
    const zkl_contender *y = b;
    if (x->sequence != y->sequence) {
        return x->sequence < y->sequence ? -1 : 1;
    }
    return strcmp(x->node, y->node);
}

static bool add(zkl_query *query, const char *name)
{
    zkl_node node = zkl_node_parse(name);
    if (node.kind == ZKL_NODE_STRANGER) {
        return true;
    }
    char *path = zkl_child_path(query->path, name);
    if (path == NULL) {
        return false;
    }
    query->contenders[query->count++] = (zkl_contender){.node = path, .kind = node.kind, .sequence = node.sequence};
    return true;
}

/* The identity was not requested, or could not be read: it is "". A contender without any identity would count as gone. */
static void leave_unnamed(zkl_query *query, int32_t index)
{
    query->contenders[index].identity = zkl_copy("", 0);
    if (query->contenders[index].identity == NULL) {
        answer(query, ZKL_FAILED, "not enough memory to list the contenders");
    }
}

/* The connection was lost, and no result counts. The query is sent again on the next connection: its caller may have time. */
static void begin_again(zkl_query *query)
{
    forget_contenders(query);
    query->lost = query->sent = false;
}

/*
 * Reads the next identities. With no read in flight, one is sent whatever else is in flight: the query must not wait
 * for other requests.
 */
static void ask_more(zkl_query *query)
{
    zkl_locks *locks = query->locks;
    zkl_ask ask = {.on_reply = zkl_query_got, .owner = query};
    while (!query->answered && !query->lost && query->next < query->count &&
           (query->flying == 0 || locks->session->requests.in_flight < ZKL_MAX_IN_FLIGHT)) {
        int32_t index = ask.tag = query->next++;
        if (!query->identities) {
            leave_unnamed(query, index);
        } else if (!zkl_session_usable(locks->session)) {
            query->lost = true;
        } else if (zkl_send_get(locks->session, &ask, query->contenders[index].node, NULL, NULL) != ZOK) {
            char message[512];
            snprintf(message, sizeof message, "listing '%s': a request could not be sent", query->path);
            answer(query, ZKL_FAILED, message);
        } else {
            query->flying++;
        }
    }
    if (query->flying == 0 && query->lost && !query->answered) {
        begin_again(query);
    } else if (query->flying == 0) {
        answer(query, ZKL_OK, "");
        free_query(query);
    }
}

static void on_listed(void *owner, int rc, const zkl_reply *reply)
{
    zkl_query *query = owner;
    const struct String_vector *names = reply->names;
    rc = zkl_names_rc(rc, names);
    char message[512];
    if (rc == ZOK && names->count > 0) {
        query->contenders = zkl_alloc((size_t)names->count * sizeof *query->contenders);
        bool whole = query->contenders != NULL;
        for (int32_t i = 0; whole && i < names->count; i++) {
            whole = add(query, names->data[i]);
        }
        if (!whole) {
            answer(query, ZKL_FAILED, "not enough memory to list the contenders");
        } else {
            qsort(query->contenders, (size_t)query->count, sizeof *query->contenders, by_sequence);
        }
    } else if (rc == ZCONNECTIONLOSS) {
        query->lost = true;
    } else if (rc != ZOK && rc != ZNONODE) {
        snprintf(message, sizeof message, "listing '%s': %s", query->path, zerror(rc));
        answer(query, zkl_code_of(rc), message);
    }
    ask_more(query);
}

void zkl_query_got(void *owner, int rc, const zkl_reply *reply)
{
    zkl_query *query = owner;
    query->flying--;
    if (rc == ZOK && !query->answered) {
        int32_t kept = reply->length > 0 ? reply->length : 0;
        query->contenders[reply->tag].identity = zkl_copy(reply->data, (size_t)kept);
        query->contenders[reply->tag].identity_length = kept;
        if (query->contenders[reply->tag].identity == NULL) {
            answer(query, ZKL_FAILED, "not enough memory to list the contenders");
        }
    } else if (rc == ZNOAUTH && !query->answered) {
        leave_unnamed(query, reply->tag); /* the node is there, but its data may not be read */
    } else if (rc == ZCONNECTIONLOSS) {
        query->lost = true;
    } else if (rc != ZNONODE) {
        char message[512];
        snprintf(message, sizeof message, "reading the contenders of '%s': %s", query->path, zerror(rc));
        answer(query, zkl_code_of(rc), message);
    }
    ask_more(query);
}

/* Sends the list if requests may go out. If it cannot be sent then (no memory), the query is answered and freed at once. */
static void send_query(zkl_query *query)
{
    if (!zkl_session_usable(query->locks->session)) {
        return;
    }
    const zkl_ask ask = {.on_reply = on_listed, .owner = query};
    query->sent = zkl_send_names(query->locks->session, &ask, query->path) == ZOK;
    if (!query->sent) {
        answer(query, ZKL_FAILED, "not enough memory to list the contenders");
        free_query(query);
    }
}

bool zkl_locks_contenders(zkl_locks *locks, const char *path, bool identities, zkl_contenders_fn done, void *user,
                          int64_t now)
{
    locks->session->now = now;
    zkl_query *query = zkl_alloc(sizeof *query);
    char *copy = zkl_copy(path, strlen(path));
    if (query == NULL || copy == NULL) {
        zkl_free(query);
        zkl_free(copy);
        return false;
    }
    query->locks = locks;
    query->path = copy;
    query->identities = identities;
    query->done = done;
    query->user = user;
    LIST_INSERT_HEAD(&locks->queries, query, all);
    if (zkl_session_closing(locks->session) || locks->session->state == ZKL_STATE_AUTH_FAILED) {
        answer(query, zkl_session_closing(locks->session) ? ZKL_CLOSED : ZKL_AUTH_FAILED,
               zkl_session_closing(locks->session) ? "the client is closed" : locks->session->problem);
        free_query(query);
    } else {
        send_query(query);
    }
    return true;
}

void zkl_queries_fail(zkl_locks *locks, zkl_code code, const char *message)
{
    zkl_query *query;
    while ((query = LIST_FIRST(&locks->queries)) != NULL) {
        answer(query, code, message);
        if (!query->sent) {
            free_query(query);
        }
    }
}

/* Requests may go out again: sends the queries that have waited for that. */
static void ready(void *owner)
{
    zkl_locks *locks = owner;
    zkl_query *query, *next;
    for (query = LIST_FIRST(&locks->queries); query != NULL; query = next) {
        next = LIST_NEXT(query, all);
        if (!query->sent) {
            send_query(query);
        }
    }
}

const zkl_session_listener zkl_queries_listener = {.ready = ready};

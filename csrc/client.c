/*
 * client: the I/O thread, and what passes between it and everybody else.
 *
 * Who may touch what:
 *   - what stands under "engine" in the two structs, engine claims, and the engine itself: whoever holds engine_mutex. The I/O
 *     thread holds it all the time but while it sleeps in poll. A caller that finds it free hands its wish to the engine
 *     itself, which sends at once and cannot block; that saves waking the I/O thread only to have it send (it is polling
 *     the socket for the reply already). A caller that finds it taken leaves its wish on the list and writes a byte;
 *   - what stands under "shared": whoever holds client->mutex;
 *   - atomics: anybody.
 * engine_mutex is taken before mutex, never after. A ticket is referenced by its caller and, until nothing more can come of
 * it, by the engine's side; it references its client.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"

/* How long a closing client waits for replies, or for a connection over which to say goodbye. */
#define CLOSE_PATIENCE ZKL_SECOND

/* How long exit() waits for all clients together to say goodbye. */
#define EXIT_PATIENCE_SECONDS 2

/* Log lines kept until somebody fetches them; older ones make room. */
#define LOG_LINES 64

/* A line of the C client's is not repeated sooner; so many lines are remembered for that. */
#define SAY_AGAIN_AFTER (10 * ZKL_SECOND)
#define RECENT_LINES 4

/* Enough for getaddrinfo with any of its plugins. */
#define STACK_SIZE ((size_t)512 * 1024)

/* What the I/O thread is asked to do with a ticket; done in this order. */
enum {
    TODO_START = 1 << 0,
    TODO_LAPSED = 1 << 1,
    TODO_END = 1 << 2,
    TODO_FORGET = 1 << 3
};

typedef enum {
    TICKET_CLAIM,
    TICKET_CONTENDERS,
    TICKET_FLUSH
} ticket_kind;

TAILQ_HEAD(ticket_list, zkl_ticket);

struct zkl_ticket {
    zkl_client *client;
    uint64_t id;
    ticket_kind kind;
    _Atomic int32_t references;
    char *path;

    /* for zkl_engine_claim; given to it once */
    char *identity;
    struct ACL_vector acl;
    zkl_node_kind node_kind;
    bool try_only;

    /* read by zkl_ticket_held without the mutex */
    _Atomic int32_t phase;
    _Atomic bool lapsed;

    /* engine */
    TAILQ_ENTRY(zkl_ticket) all;
    TAILQ_ENTRY(zkl_ticket) flushing;
    zkl_claim *claim;

    /* shared */
    TAILQ_ENTRY(zkl_ticket) in_todo;
    TAILQ_ENTRY(zkl_ticket) in_news;
    unsigned todo;
    bool has_news;
    bool settled;
    zkl_code code;
    char *message;
    char token[ZKL_TOKEN_SIZE];
    char node[ZKL_NODE_NAME_SIZE];
    char ahead[ZKL_NODE_NAME_SIZE]; /* the name of the node that it waits for, shortened if need be */
    zkl_contender *contenders;      /* constant once settled */
    int32_t contender_count;
};

typedef struct {
    int level;
    char text[256];
} log_line;

struct zkl_client {
    _Atomic int32_t references;
    uint32_t forks; /* what `forks` was when it was opened */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t gone; /* signalled when `exited` becomes true */
    int wake_pipe[2];    /* callers write, the I/O thread reads */
    int news_pipe[2];    /* the I/O thread writes, callers read */
    _Atomic int64_t lease_until;
    TAILQ_ENTRY(zkl_client) open; /* in the registry */

    /* engine */
    pthread_mutex_t engine_mutex;
    zkl_engine *engine;     /* NULL once the thread has ended */
    int64_t sleeping_until; /* what the I/O thread's poll was given */
    struct ticket_list tickets;
    struct ticket_list flushes;
    int64_t close_by;
    bool closing;
    bool news; /* something was published since the last byte was written */
    struct recent_line {
        int64_t at;
        char text[128];
    } recent[RECENT_LINES];
    uint32_t next_recent;

    /* shared */
    struct ticket_list todo;
    struct ticket_list news_list;
    uint64_t last_id;
    bool close_wanted;
    bool woken;     /* a byte is in wake_pipe */
    bool announced; /* a byte is in news_pipe */
    bool exited;
    bool joined;
    bool unread; /* nobody will ask for news any more */
    zkl_state state;
    zkl_code problem_code;
    char problem[256];
    zkl_stats stats;
    int32_t timeout_ms;
    log_line *lines;
    int32_t first_line, line_count;
};

int64_t zkl_clock(void)
{
    struct timespec now;
#ifdef CLOCK_BOOTTIME
    if (clock_gettime(CLOCK_BOOTTIME, &now) == 0) {
        return (int64_t)now.tv_sec * ZKL_SECOND + now.tv_nsec;
    }
#endif
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * ZKL_SECOND + now.tv_nsec;
}

/* --- the registry of open clients: for exit() and fork() ----------------------------------------------------------- */

static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, zkl_client) registry = TAILQ_HEAD_INITIALIZER(registry);
static pthread_once_t registry_once = PTHREAD_ONCE_INIT;

static void lock_registry(void)
{
    pthread_mutex_lock(&registry_mutex);
}

static void unlock_registry(void)
{
    pthread_mutex_unlock(&registry_mutex);
}

/*
 * How many forks lie between this process and the one that loaded the module. Compared at every entry, which getpid() would do
 * too, but as a system call: a score of them an acquisition.
 */
static _Atomic uint32_t forks;

/* The child has no I/O threads and no clients of its own yet. */
static void forget_registry(void)
{
    atomic_fetch_add(&forks, 1);
    TAILQ_INIT(&registry);
    unlock_registry();
}

static void take_leave(void);

static void set_up_registry(void)
{
    pthread_atfork(lock_registry, unlock_registry, forget_registry);
    atexit(take_leave);
    /* The level is the C client's global. Below this one it reports every connection and every request. */
    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
}

/* exit(): lets every open client say goodbye, so that its locks pass on now and not after the session timeout. */
static void take_leave(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += EXIT_PATIENCE_SECONDS;
    lock_registry();
    zkl_client *client;
    TAILQ_FOREACH(client, &registry, open)
    {
        atomic_fetch_add(&client->references, 1); /* stays while we look at it */
        zkl_client_close(client);
    }
    while ((client = TAILQ_FIRST(&registry)) != NULL) {
        TAILQ_REMOVE(&registry, client, open);
        client->open.tqe_prev = NULL;
        unlock_registry(); /* its thread takes this lock on its way out */
        pthread_mutex_lock(&client->mutex);
        while (!client->exited && pthread_cond_timedwait(&client->gone, &client->mutex, &until) == 0) {
        }
        pthread_mutex_unlock(&client->mutex);
        lock_registry();
    }
    unlock_registry();
}

static void enlist(zkl_client *client)
{
    lock_registry();
    TAILQ_INSERT_TAIL(&registry, client, open);
    unlock_registry();
}

static void delist(zkl_client *client)
{
    lock_registry();
    if (client->open.tqe_prev != NULL) {
        TAILQ_REMOVE(&registry, client, open);
        client->open.tqe_prev = NULL;
    }
    unlock_registry();
}

/* --- pipes --------------------------------------------------------------------------------------------------------- */

static void write_byte(int fd)
{
    while (write(fd, "", 1) < 0 && errno == EINTR) {
    }
}

/* Empties a pipe that never holds more than a byte or two; whether there was one. */
static bool drain(int fd)
{
    char bytes[16];
    ssize_t n;
    while ((n = read(fd, bytes, sizeof bytes)) < 0 && errno == EINTR) {
    }
    return n > 0;
}

static void close_pipe(int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0) {
            close(ends[i]);
            ends[i] = -1;
        }
    }
}

/*
 * Unlocks the mutex, and then wakes the I/O thread if it needs that: a byte that is written before would have it run into the
 * locked mutex. One byte is enough until it has been read.
 */
static void unlock_and_wake(zkl_client *client)
{
    bool write_it = !client->woken && !client->exited;
    client->woken = true;
    pthread_mutex_unlock(&client->mutex);
    if (write_it) {
        write_byte(client->wake_pipe[1]);
    }
}

/* Mutex held, thread not exited. The list has a reference to the ticket. */
static void enqueue(zkl_ticket *ticket, unsigned todo)
{
    if (ticket->todo == 0) {
        TAILQ_INSERT_TAIL(&ticket->client->todo, ticket, in_todo);
        atomic_fetch_add(&ticket->references, 1);
    }
    ticket->todo |= todo;
}

/* --- the life of objects ------------------------------------------------------------------------------------------- */

static void free_client(zkl_client *client)
{
    close_pipe(client->wake_pipe);
    close_pipe(client->news_pipe);
    zkl_free(client->lines);
    pthread_cond_destroy(&client->gone);
    pthread_mutex_destroy(&client->mutex);
    pthread_mutex_destroy(&client->engine_mutex);
    zkl_free(client);
}

static void drop_client(zkl_client *client)
{
    if (atomic_fetch_sub(&client->references, 1) == 1) {
        free_client(client);
    }
}

static void drop_ticket(zkl_ticket *ticket)
{
    if (atomic_fetch_sub(&ticket->references, 1) > 1) {
        return;
    }
    zkl_client *client = ticket->client;
    for (int32_t i = 0; i < ticket->contender_count; i++) {
        zkl_free((void *)(uintptr_t)ticket->contenders[i].node);
        zkl_free((void *)(uintptr_t)ticket->contenders[i].identity);
    }
    zkl_free(ticket->contenders);
    zkl_acl_free(&ticket->acl);
    zkl_free(ticket->identity);
    zkl_free(ticket->message);
    zkl_free(ticket->path);
    zkl_free(ticket);
    drop_client(client);
}

/* --- the I/O thread: what the engine says -------------------------------------------------------------------------- */

/* Mutex held. Puts the ticket on the list of news, once. */
static void announce(zkl_ticket *ticket)
{
    zkl_client *client = ticket->client;
    client->news = true;
    if (!ticket->has_news && !client->unread) {
        ticket->has_news = true;
        TAILQ_INSERT_TAIL(&client->news_list, ticket, in_news);
        atomic_fetch_add(&ticket->references, 1);
    }
}

/* The last name of a path into a ticket's field; nothing if there is no path. */
static void copy_name(char *name, const char *path)
{
    size_t length = 0;
    if (path != NULL) {
        const char *last = strrchr(path, '/') + 1;
        length = strnlen(last, ZKL_NODE_NAME_SIZE - 1);
        memcpy(name, last, length);
    }
    name[length] = '\0';
}

static void on_claim_changed(void *context, zkl_claim *claim)
{
    zkl_client *client = context;
    zkl_ticket *ticket = zkl_claim_user(claim);
    const char *message = zkl_claim_message(claim);
    int32_t phase = (int32_t)zkl_claim_get_phase(claim);
    bool settled = zkl_claim_settled(claim);
    pthread_mutex_lock(&client->mutex);
    /* That it waits, and for whom, is to be seen, but no reason to wake anybody; nor is, to its owner, a release begun. */
    bool decided = phase != atomic_load_explicit(&ticket->phase, memory_order_relaxed) && phase != ZKL_CLAIM_RELEASED;
    bool news = decided || settled != ticket->settled || zkl_claim_code(claim) != ticket->code;
    atomic_store_explicit(&ticket->phase, phase, memory_order_release);
    ticket->settled = settled;
    ticket->code = zkl_claim_code(claim);
    memcpy(ticket->token, zkl_claim_token(claim), sizeof ticket->token);
    copy_name(ticket->node, zkl_claim_node(claim));
    copy_name(ticket->ahead, zkl_claim_blocker(claim));
    if (message[0] != '\0' && ticket->message == NULL) {
        ticket->message = zkl_copy(message, strlen(message));
    }
    if (news) {
        announce(ticket);
    }
    pthread_mutex_unlock(&client->mutex);
}

static void on_lease_changed(void *context, int64_t valid_until)
{
    zkl_client *client = context;
    atomic_store_explicit(&client->lease_until, valid_until, memory_order_release);
}

static void on_state_changed(void *context, zkl_state state, zkl_code code, const char *problem)
{
    zkl_client *client = context;
    pthread_mutex_lock(&client->mutex);
    client->state = state;
    client->problem_code = code;
    snprintf(client->problem, sizeof client->problem, "%s", problem);
    client->news = true;
    pthread_mutex_unlock(&client->mutex);
}

static void on_log(void *context, int level, const char *message)
{
    zkl_client *client = context;
    if (client->lines == NULL) {
        return;
    }
    pthread_mutex_lock(&client->mutex);
    if (client->line_count == LOG_LINES) {
        client->first_line = (client->first_line + 1) % LOG_LINES;
        client->line_count--;
    }
    log_line *line = &client->lines[(client->first_line + client->line_count++) % LOG_LINES];
    line->level = level;
    snprintf(line->text, sizeof line->text, "%s", message);
    client->news = true;
    pthread_mutex_unlock(&client->mutex);
}

/* The C client's log callback has no context: each I/O thread knows its own client. */
static _Thread_local zkl_client *thread_client;

/* While no server answers, the C client says the same two things at every try, dozens of times a second. */
static bool said_before(zkl_client *client, const char *text)
{
    int64_t now = zkl_clock();
    for (int32_t i = 0; i < RECENT_LINES; i++) {
        if (strncmp(client->recent[i].text, text, sizeof client->recent[i].text - 1) == 0) {
            bool again = now - client->recent[i].at < SAY_AGAIN_AFTER;
            client->recent[i].at = again ? client->recent[i].at : now;
            return again;
        }
    }
    struct recent_line *oldest = &client->recent[client->next_recent++ % RECENT_LINES];
    oldest->at = now;
    snprintf(oldest->text, sizeof oldest->text, "%s", text);
    return false;
}

/* "2026-01-01 00:00:00,000:123:ZOO_WARN@function@42: text" */
static void on_zookeeper_log(const char *line)
{
    if (thread_client == NULL || thread_client->lines == NULL) {
        return;
    }
    int level = ZOO_LOG_LEVEL_INFO;
    const char *mark = strstr(line, ":ZOO_");
    if (mark != NULL) {
        level = mark[5] == 'E' ? ZOO_LOG_LEVEL_ERROR : mark[5] == 'W' ? ZOO_LOG_LEVEL_WARN : ZOO_LOG_LEVEL_INFO;
        const char *text = strstr(mark, ": ");
        line = text != NULL ? text + 2 : line;
    }
    if (!said_before(thread_client, line)) {
        on_log(thread_client, level, line);
    }
}

/* Mutex held. A question or a flush is answered; the I/O thread will not come back to it. */
static void answer(zkl_ticket *ticket, zkl_code code, const char *message)
{
    ticket->code = code;
    if (message[0] != '\0' && ticket->message == NULL) {
        ticket->message = zkl_copy(message, strlen(message));
    }
    ticket->settled = true;
    announce(ticket);
}

static bool copy_contenders(zkl_ticket *ticket, const zkl_contender *contenders, int32_t count)
{
    if (count == 0) {
        return true;
    }
    ticket->contenders = zkl_alloc((size_t)count * sizeof *contenders);
    if (ticket->contenders == NULL) {
        return false;
    }
    for (int32_t i = 0; i < count; i++) {
        zkl_contender *copy = &ticket->contenders[ticket->contender_count++];
        *copy = contenders[i];
        copy->node = zkl_copy(contenders[i].node, strlen(contenders[i].node));
        copy->identity = zkl_copy(contenders[i].identity, (size_t)contenders[i].identity_length);
        if (copy->node == NULL || copy->identity == NULL) {
            return false;
        }
    }
    return true;
}

/* The I/O thread lets go of a ticket. */
static void let_go(zkl_ticket *ticket)
{
    TAILQ_REMOVE(&ticket->client->tickets, ticket, all);
    drop_ticket(ticket);
}

static void on_contenders(void *user, zkl_code code, const char *message, const zkl_contender *contenders,
                          int32_t count)
{
    zkl_ticket *ticket = user;
    zkl_client *client = ticket->client;
    if (code == ZKL_OK && !copy_contenders(ticket, contenders, count)) {
        code = ZKL_FAILED;
        message = "not enough memory to list the contenders";
    }
    pthread_mutex_lock(&client->mutex);
    answer(ticket, code, message);
    pthread_mutex_unlock(&client->mutex);
    let_go(ticket);
}

/* --- the I/O thread: what callers want ----------------------------------------------------------------------------- */

static void fail_ticket(zkl_ticket *ticket, zkl_code code, const char *message)
{
    pthread_mutex_lock(&ticket->client->mutex);
    atomic_store_explicit(&ticket->phase, ZKL_CLAIM_REFUSED, memory_order_release);
    answer(ticket, code, message);
    pthread_mutex_unlock(&ticket->client->mutex);
}

static void start_claim(zkl_ticket *ticket, int64_t now)
{
    const zkl_claim_request request = {
        .path = ticket->path,
        .kind = ticket->node_kind,
        .identity = ticket->identity,
        .acl = &ticket->acl,
        .try_only = ticket->try_only,
    };
    ticket->claim = zkl_engine_claim(ticket->client->engine, &request, ticket, now);
    if (ticket->claim == NULL) {
        fail_ticket(ticket, ZKL_FAILED, "not enough memory to queue for a lock");
    }
    zkl_acl_free(&ticket->acl);
    zkl_free(ticket->identity);
    ticket->identity = NULL;
}

static void start(zkl_ticket *ticket, int64_t now)
{
    zkl_client *client = ticket->client;
    TAILQ_INSERT_TAIL(&client->tickets, ticket, all);
    atomic_fetch_add(&ticket->references, 1);
    switch (ticket->kind) {
    case TICKET_CLAIM:
        start_claim(ticket, now);
        break;
    case TICKET_FLUSH:
        TAILQ_INSERT_TAIL(&client->flushes, ticket, flushing);
        break;
    case TICKET_CONTENDERS:
        if (!zkl_engine_contenders(client->engine, ticket->path, on_contenders, ticket, now)) {
            fail_ticket(ticket, ZKL_FAILED, "not enough memory to list the contenders");
            let_go(ticket);
        }
        break;
    }
}

static void do_for(zkl_ticket *ticket, unsigned todo, int64_t now)
{
    if ((todo & TODO_START) != 0) {
        start(ticket, now);
    }
    if (ticket->claim != NULL && (todo & TODO_LAPSED) != 0) {
        zkl_claim_lapsed(ticket->claim, now);
    }
    if (ticket->claim != NULL && (todo & TODO_END) != 0) {
        zkl_claim_end(ticket->claim, ZKL_CANCELLED, now);
    }
    if ((todo & TODO_FORGET) != 0 && ticket->kind == TICKET_CLAIM) {
        if (ticket->claim != NULL) {
            zkl_claim_forget(ticket->claim, now);
            ticket->claim = NULL;
        }
        let_go(ticket);
    }
}

/* engine_mutex held. Hands the engine everything that callers have asked for. */
static void run_todo(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    zkl_ticket *ticket;
    while ((ticket = TAILQ_FIRST(&client->todo)) != NULL) {
        TAILQ_REMOVE(&client->todo, ticket, in_todo);
        unsigned todo = ticket->todo;
        ticket->todo = 0;
        pthread_mutex_unlock(&client->mutex);
        do_for(ticket, todo, zkl_clock());
        drop_ticket(ticket); /* the list's */
        pthread_mutex_lock(&client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* I/O thread. */
static void begin_close_if_wanted(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool begin = client->close_wanted && !client->closing;
    pthread_mutex_unlock(&client->mutex);
    if (begin) {
        client->closing = true;
        client->close_by = zkl_clock() + CLOSE_PATIENCE;
        zkl_engine_close(client->engine, zkl_clock());
    }
}

static void finish_flushes(zkl_client *client)
{
    if (TAILQ_EMPTY(&client->flushes) || !zkl_engine_drained(client->engine)) {
        return;
    }
    zkl_ticket *ticket;
    while ((ticket = TAILQ_FIRST(&client->flushes)) != NULL) {
        TAILQ_REMOVE(&client->flushes, ticket, flushing);
        pthread_mutex_lock(&client->mutex);
        answer(ticket, ZKL_OK, "");
        pthread_mutex_unlock(&client->mutex);
        let_go(ticket);
    }
}

/* Makes the turn's news visible: one byte, however much there is. */
static void publish(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->stats = zkl_engine_stats(client->engine);
    client->timeout_ms = zkl_engine_session_timeout(client->engine);
    bool write_it = client->news && !client->announced;
    client->announced = client->announced || client->news;
    client->news = false;
    pthread_mutex_unlock(&client->mutex);
    if (write_it) {
        write_byte(client->news_pipe[1]); /* after the unlock: whoever wakes wants the mutex at once */
    }
}

static int poll_timeout(int64_t wake_at)
{
    if (wake_at == ZKL_NEVER) {
        return -1;
    }
    int64_t left = wake_at - zkl_clock();
    if (left <= 0) {
        return 0;
    }
    int64_t ms = (left + 999999) / 1000000;
    return ms > 60000 ? 60000 : (int)ms;
}

static void wait_and_process(zkl_client *client, const zkl_poll *wanted)
{
    if (wanted->fd >= 0 && client->state != ZKL_STATE_CONNECTED) {
        fcntl(wanted->fd, F_SETFD,
              FD_CLOEXEC); /* a new socket; the C client may have been built without SOCK_CLOEXEC */
    }
    struct pollfd fds[2] = {{.fd = client->wake_pipe[0], .events = POLLIN},
                            {.fd = wanted->fd, .events = wanted->events}};
    client->sleeping_until = wanted->wake_at;
    pthread_mutex_unlock(&client->engine_mutex);
    if (poll(fds, 2, poll_timeout(wanted->wake_at)) < 0) {
        fds[0].revents = fds[1].revents = 0;
    }
    pthread_mutex_lock(&client->engine_mutex);
    if (fds[0].revents != 0) {
        drain(client->wake_pipe[0]);
        pthread_mutex_lock(&client->mutex);
        client->woken = false;
        pthread_mutex_unlock(&client->mutex);
    }
    zkl_engine_process(client->engine, zkl_clock(), wanted->fd >= 0 ? fds[1].revents : 0);
}

/* The goodbye can be said, or there is nobody to say it to, or it is too late. */
static bool may_leave(const zkl_client *client)
{
    if (zkl_clock() >= client->close_by) {
        return true;
    }
    return zkl_engine_drained(client->engine) && client->state != ZKL_STATE_SUSPENDED;
}

/* Nobody works on these any more: whoever asks is told so. */
static void abandon_tickets(zkl_client *client)
{
    zkl_ticket *ticket;
    pthread_mutex_lock(&client->mutex);
    client->exited = true;
    while ((ticket = TAILQ_FIRST(&client->todo)) != NULL) {
        TAILQ_REMOVE(&client->todo, ticket, in_todo);
        if ((ticket->todo & TODO_START) != 0) {
            atomic_store_explicit(&ticket->phase, ZKL_CLAIM_REFUSED, memory_order_release);
            answer(ticket, ZKL_CLOSED, "the client is closed");
        }
        ticket->todo = 0;
        pthread_mutex_unlock(&client->mutex);
        drop_ticket(ticket);
        pthread_mutex_lock(&client->mutex);
    }
    while ((ticket = TAILQ_FIRST(&client->tickets)) != NULL) {
        if (ticket->kind == TICKET_FLUSH) {
            answer(ticket, ZKL_OK, ""); /* the session is over, and all that it had with it */
        }
        pthread_mutex_unlock(&client->mutex);
        let_go(ticket);
        pthread_mutex_lock(&client->mutex);
    }
    client->news = false;
    client->announced = true;
    write_byte(client->news_pipe[1]);
    pthread_cond_broadcast(&client->gone);
    pthread_mutex_unlock(&client->mutex);
}

static void *run(void *argument)
{
    zkl_client *client = argument;
    thread_client = client;
    pthread_mutex_lock(&client->engine_mutex);
    while (!client->closing || !may_leave(client)) {
        zkl_poll wanted;
        run_todo(client);
        begin_close_if_wanted(client);
        zkl_engine_prepare(client->engine, zkl_clock(), &wanted);
        finish_flushes(client);
        publish(client);
        if (client->closing && wanted.wake_at > client->close_by) {
            wanted.wake_at = client->close_by;
        }
        if (!client->closing || !may_leave(client)) {
            wait_and_process(client, &wanted);
        }
    }
    zkl_engine_shut_down(client->engine, zkl_clock());
    publish(client);
    delist(client);
    zkl_engine_free(client->engine);
    client->engine = NULL;
    abandon_tickets(client);
    pthread_mutex_unlock(&client->engine_mutex);
    drop_client(client);
    return NULL;
}

/* --- opening and closing ------------------------------------------------------------------------------------------- */

static bool make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        ends[0] = ends[1] = -1;
        return false;
    }
    return true;
}

static void fill_random(void *bytes, size_t size)
{
    if (getrandom(bytes, size, 0) != (ssize_t)size) {
        int64_t now = zkl_clock() ^ (int64_t)getpid() << 32 ^ (int64_t)(intptr_t)bytes; /* a kernel before 3.17 */
        memcpy(bytes, &now, size < sizeof now ? size : sizeof now);
    }
}

/* A copy of the server list in random order, so that clients spread over the servers. */
static char *shuffle_servers(const char *servers)
{
    char *copy = zkl_copy(servers, strlen(servers));
    if (copy == NULL) {
        return NULL;
    }
    const char *hosts[64];
    size_t lengths[64];
    uint32_t count = 0;
    const char *end = servers + strcspn(servers, "/");
    for (const char *host = servers; host < end && count < 64; count++) {
        lengths[count] = strcspn(host, ",/");
        hosts[count] = host;
        host += lengths[count] + 1;
    }
    if (count < 2 || count == 64) {
        return copy;
    }
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t random;
        fill_random(&random, sizeof random);
        uint32_t j = random % (i + 1);
        const char *host = hosts[i];
        size_t length = lengths[i];
        hosts[i] = hosts[j];
        lengths[i] = lengths[j];
        hosts[j] = host;
        lengths[j] = length;
    }
    char *to = copy;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to, hosts[i], lengths[i]);
        to += lengths[i];
        *to++ = ',';
    }
    memcpy(to - 1, end, strlen(end) + 1);
    return copy;
}

static bool make_engine(zkl_client *client, const zkl_client_options *options)
{
    char *servers = shuffle_servers(options->servers);
    if (servers == NULL) {
        return false;
    }
    zkl_engine_config config = {
        .servers = servers,
        .session_timeout_ms = options->session_timeout_ms,
        .lease = options->lease,
        .auths = options->auths,
        .auth_count = options->auth_count,
        .zookeeper_log = on_zookeeper_log,
    };
    fill_random(config.random, sizeof config.random);
    const zkl_host host = {
        .context = client,
        .claim_changed = on_claim_changed,
        .lease_changed = on_lease_changed,
        .state_changed = on_state_changed,
        .log = on_log,
    };
    client->engine = zkl_engine_new(&config, &host);
    zkl_free(servers);
    return client->engine != NULL;
}

/* A program's signals are for the program: the I/O thread takes none. */
static int start_thread(zkl_client *client)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&client->thread, &attributes, run, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

static void init_sync(zkl_client *client)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&client->gone, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&client->mutex, NULL);
    pthread_mutex_init(&client->engine_mutex, NULL);
}

zkl_client *zkl_client_open(const zkl_client_options *options, char *message)
{
    pthread_once(&registry_once, set_up_registry);
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client"); /* unless something else is said below */
    zkl_client *client = zkl_alloc(sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    init_sync(client);
    client->forks = atomic_load(&forks);
    client->wake_pipe[0] = client->wake_pipe[1] = client->news_pipe[0] = client->news_pipe[1] = -1;
    atomic_store(&client->references, 1);
    atomic_store(&client->lease_until, options->lease ? 0 : ZKL_NEVER);
    TAILQ_INIT(&client->tickets);
    TAILQ_INIT(&client->flushes);
    TAILQ_INIT(&client->todo);
    TAILQ_INIT(&client->news_list);
    if (options->log && (client->lines = zkl_alloc((size_t)LOG_LINES * sizeof *client->lines)) == NULL) {
        goto fail;
    }
    if (!make_pipe(client->wake_pipe) || !make_pipe(client->news_pipe)) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot make a pipe: %s", strerror(errno));
        goto fail;
    }
    if (!make_engine(client, options)) {
        goto fail;
    }
    enlist(client);
    atomic_fetch_add(&client->references, 1); /* the thread's */
    int error = start_thread(client);
    if (error != 0) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot start a thread: %s", strerror(error));
        delist(client);
        zkl_engine_free(client->engine);
        atomic_fetch_sub(&client->references, 1);
        goto fail;
    }
    return client;
fail:
    free_client(client);
    return NULL;
}

bool zkl_client_forked(const zkl_client *client)
{
    return client->forks != atomic_load_explicit(&forks, memory_order_relaxed);
}

void zkl_client_close(zkl_client *client)
{
    if (zkl_client_forked(client)) {
        return;
    }
    pthread_mutex_lock(&client->mutex);
    client->close_wanted = true;
    unlock_and_wake(client);
}

void zkl_client_join(zkl_client *client)
{
    if (zkl_client_forked(client)) {
        return;
    }
    pthread_mutex_lock(&client->mutex);
    bool join = client->exited && !client->joined;
    client->joined = client->joined || join;
    pthread_mutex_unlock(&client->mutex);
    if (join) {
        pthread_join(client->thread, NULL);
    }
}

void zkl_client_release(zkl_client *client)
{
    if (zkl_client_forked(client)) {
        return; /* the parent's memory as of the fork, its mutexes in whatever state they were: let it be */
    }
    zkl_client_close(client);
    pthread_mutex_lock(&client->mutex);
    bool detach = !client->joined;
    client->joined = client->unread = true;
    pthread_mutex_unlock(&client->mutex);
    while (zkl_client_next(client) != 0) {
        /* tickets reference their client: the list of news must not keep them, and so itself, alive */
    }
    if (detach) {
        pthread_detach(client->thread);
    }
    drop_client(client);
}

/* --- looking at a client ------------------------------------------------------------------------------------------- */

int zkl_client_fd(const zkl_client *client)
{
    return client->news_pipe[0];
}

uint64_t zkl_client_next(zkl_client *client)
{
    uint64_t id = 0;
    pthread_mutex_lock(&client->mutex);
    zkl_ticket *ticket = TAILQ_FIRST(&client->news_list);
    if (ticket != NULL) {
        TAILQ_REMOVE(&client->news_list, ticket, in_news);
        ticket->has_news = false;
        id = ticket->id;
    } else if (client->announced && drain(client->news_pipe[0])) {
        client->announced = false; /* if its byte is still on the way, the next call reads it */
    }
    pthread_mutex_unlock(&client->mutex);
    if (ticket != NULL) {
        drop_ticket(ticket); /* the list's */
    }
    return id;
}

int zkl_client_next_log(zkl_client *client, char *text, size_t size)
{
    int level = 0;
    pthread_mutex_lock(&client->mutex);
    if (client->line_count > 0) {
        const log_line *line = &client->lines[client->first_line];
        level = line->level;
        snprintf(text, size, "%s", line->text);
        client->first_line = (client->first_line + 1) % LOG_LINES;
        client->line_count--;
    }
    pthread_mutex_unlock(&client->mutex);
    return level;
}

zkl_state zkl_client_state(zkl_client *client, char *problem, zkl_code *code)
{
    pthread_mutex_lock(&client->mutex);
    /* closed means: the thread is past touching anything */
    zkl_state state = client->state == ZKL_STATE_CLOSED && !client->exited ? ZKL_STATE_SUSPENDED : client->state;
    if (client->exited) {
        state = ZKL_STATE_CLOSED;
    }
    *code = client->problem_code;
    memcpy(problem, client->problem, strlen(client->problem) + 1);
    pthread_mutex_unlock(&client->mutex);
    return state;
}

zkl_stats zkl_client_stats(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    zkl_stats stats = client->stats;
    pthread_mutex_unlock(&client->mutex);
    return stats;
}

int32_t zkl_client_session_timeout(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    int32_t timeout = client->timeout_ms;
    pthread_mutex_unlock(&client->mutex);
    return timeout;
}

/* --- tickets ------------------------------------------------------------------------------------------------------- */

static void wake(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    unlock_and_wake(client);
}

/*
 * Sees to it that the engine learns of what is on the list: here and now if the I/O thread sleeps and nothing can block,
 * otherwise by waking it.
 */
static void serve(zkl_client *client)
{
    if (pthread_mutex_trylock(&client->engine_mutex) != 0) {
        wake(client);
        return;
    }
    bool wanted = true;
    if (client->engine != NULL && !client->closing && zkl_engine_may_call(client->engine)) {
        zkl_client *before = thread_client;
        thread_client = client;
        run_todo(client);
        thread_client = before;
        wanted = !TAILQ_EMPTY(&client->flushes) || zkl_engine_wants_turn(client->engine, client->sleeping_until);
        publish(client);
    }
    pthread_mutex_unlock(&client->engine_mutex);
    if (wanted) {
        wake(client);
    }
}

static zkl_ticket *new_ticket(zkl_client *client, ticket_kind kind, const char *path)
{
    zkl_ticket *ticket = zkl_alloc(sizeof *ticket);
    if (ticket == NULL) {
        return NULL;
    }
    atomic_store(&ticket->references, 1);
    atomic_fetch_add(&client->references, 1);
    ticket->client = client;
    ticket->kind = kind;
    ticket->path = zkl_copy(path, strlen(path));
    if (ticket->path == NULL) {
        drop_ticket(ticket);
        return NULL;
    }
    return ticket;
}

/* Hands a new ticket to the I/O thread, or answers it here when there is none any more. */
static zkl_ticket *submit(zkl_ticket *ticket)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    ticket->id = ++client->last_id;
    if (client->exited) {
        atomic_store(&ticket->phase, ZKL_CLAIM_REFUSED);
        answer(ticket, ZKL_CLOSED, "the client is closed");
    } else {
        enqueue(ticket, TODO_START);
    }
    pthread_mutex_unlock(&client->mutex);
    serve(client);
    return ticket;
}

zkl_ticket *zkl_client_claim(zkl_client *client, const zkl_claim_request *request)
{
    zkl_ticket *ticket = new_ticket(client, TICKET_CLAIM, request->path);
    if (ticket == NULL) {
        return NULL;
    }
    ticket->node_kind = request->kind;
    ticket->try_only = request->try_only;
    ticket->identity = zkl_copy(request->identity, strlen(request->identity));
    if (ticket->identity == NULL || !zkl_acl_copy(&ticket->acl, request->acl)) {
        drop_ticket(ticket);
        return NULL;
    }
    return submit(ticket);
}

zkl_ticket *zkl_client_contenders(zkl_client *client, const char *path)
{
    zkl_ticket *ticket = new_ticket(client, TICKET_CONTENDERS, path);
    return ticket != NULL ? submit(ticket) : NULL;
}

zkl_ticket *zkl_client_flush(zkl_client *client)
{
    zkl_ticket *ticket = new_ticket(client, TICKET_FLUSH, "");
    return ticket != NULL ? submit(ticket) : NULL;
}

static void ask(zkl_ticket *ticket, unsigned todo)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    if (!client->exited) {
        enqueue(ticket, todo);
    }
    pthread_mutex_unlock(&client->mutex);
    serve(client);
}

void zkl_ticket_release(zkl_ticket *ticket)
{
    if (zkl_client_forked(ticket->client)) {
        return;
    }
    if (ticket->kind == TICKET_CLAIM) {
        ask(ticket, TODO_FORGET);
    }
    drop_ticket(ticket);
}

uint64_t zkl_ticket_id(const zkl_ticket *ticket)
{
    return ticket->id;
}

zkl_client *zkl_ticket_client(const zkl_ticket *ticket)
{
    return ticket->client;
}

const char *zkl_ticket_path(const zkl_ticket *ticket)
{
    return ticket->path;
}

void zkl_ticket_look(zkl_ticket *ticket, zkl_ticket_view *view)
{
    zkl_client *client = ticket->client;
    pthread_mutex_lock(&client->mutex);
    view->phase = (zkl_claim_phase)atomic_load_explicit(&ticket->phase, memory_order_relaxed);
    view->settled = ticket->settled || client->exited;
    bool unanswered = ticket->kind == TICKET_CONTENDERS && client->exited && !ticket->settled;
    view->code = unanswered ? ZKL_CLOSED : ticket->code;
    memcpy(view->token, ticket->token, sizeof view->token);
    memcpy(view->node, ticket->node, sizeof view->node);
    view->message[0] = '\0';
    if (ticket->message != NULL) {
        snprintf(view->message, sizeof view->message, "%s", ticket->message);
    } else if (view->phase == ZKL_CLAIM_WAITING && ticket->ahead[0] != '\0') {
        snprintf(view->message, sizeof view->message, "'%s' is ahead", ticket->ahead);
    }
    pthread_mutex_unlock(&client->mutex);
    if (view->phase == ZKL_CLAIM_GRANTED && atomic_load(&ticket->lapsed)) {
        view->phase = ZKL_CLAIM_LOST; /* seen here before the I/O thread has seen it */
        view->code = ZKL_LOST;
        snprintf(view->message, sizeof view->message, "'%.400s' is lost: its lease ran out", ticket->path);
    }
}

int64_t zkl_ticket_remaining(zkl_ticket *ticket)
{
    zkl_client *client = ticket->client;
    /* The lease before the phase: a lapsed claim is marked lost before its lease begins anew. */
    int64_t until = atomic_load_explicit(&client->lease_until, memory_order_acquire);
    if (atomic_load_explicit(&ticket->phase, memory_order_acquire) != ZKL_CLAIM_GRANTED ||
        atomic_load(&ticket->lapsed) || zkl_client_forked(client)) {
        return 0;
    }
    if (until == ZKL_NEVER) {
        return ZKL_NEVER;
    }
    int64_t left = until - zkl_clock();
    if (left > 0) {
        return left;
    }
    atomic_store(&ticket->lapsed, true); /* for good, whatever the I/O thread is about to learn */
    ask(ticket, TODO_LAPSED);
    return 0;
}

bool zkl_ticket_held(zkl_ticket *ticket)
{
    return zkl_ticket_remaining(ticket) > 0;
}

void zkl_ticket_end(zkl_ticket *ticket)
{
    if (!zkl_client_forked(ticket->client)) {
        ask(ticket, TODO_END);
    }
}

const zkl_contender *zkl_ticket_contenders(const zkl_ticket *ticket, int32_t *count)
{
    *count = ticket->contender_count;
    return ticket->contenders;
}

/* client: the I/O thread; opening, closing and reading the state of a client. */
#include "client_private.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* How long a closing client waits for replies, or for a connection over which to close the session. */
#define CLOSE_WITHIN ZKL_SECOND

/* Log lines kept until they are fetched; the oldest are dropped. */
#define LOG_LINES 64

/* A line of the C client's log is not repeated sooner. */
#define SAY_AGAIN_AFTER (10 * ZKL_SECOND)

/* Enough for getaddrinfo with any of its plugins. */
#define STACK_SIZE ((size_t)512 * 1024)

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

/* --- pipes --------------------------------------------------------------------------------------------------------- */

static void write_byte(int fd)
{
    while (write(fd, "", 1) < 0 && errno == EINTR) {
    }
}

/* Empties a pipe that never holds more than a byte or two. Returns whether there was a byte. */
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

void zkl_client_unlock_and_wake(zkl_client *client)
{
    bool write_it = !client->woken && !client->exited;
    client->woken = true;
    pthread_mutex_unlock(&client->mutex);
    if (write_it) {
        write_byte(client->wake_pipe[1]);
    }
}

void zkl_client_wake(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    zkl_client_unlock_and_wake(client);
}

void zkl_client_awake(zkl_client *client)
{
    drain(client->wake_pipe[0]);
    pthread_mutex_lock(&client->mutex);
    client->woken = false;
    pthread_mutex_unlock(&client->mutex);
}

bool zkl_client_has_notifications(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool any = client->unsignalled || client->signalled || !TAILQ_EMPTY(&client->notifications);
    pthread_mutex_unlock(&client->mutex);
    return any;
}

static void close_alarm(zkl_client *client)
{
    if (client->alarm >= 0) {
        close(client->alarm);
        client->alarm = -1;
    }
}

/* --- reference counts ---------------------------------------------------------------------------------------------- */

static void free_client(zkl_client *client)
{
    close_pipe(client->wake_pipe);
    close_pipe(client->notify_pipe);
    close_alarm(client);
    zkl_notify_socket_forget(client);
    if (client->notify_socket >= 0) {
        close(client->notify_socket);
    }
    zkl_free(client->lines);
    pthread_cond_destroy(&client->gone);
    pthread_mutex_destroy(&client->mutex);
    pthread_mutex_destroy(&client->engine_mutex);
    zkl_free(client);
}

void zkl_client_drop(zkl_client *client)
{
    if (atomic_fetch_sub(&client->references, 1) == 1) {
        free_client(client);
    }
}

/* --- callbacks of the engine --------------------------------------------------------------------------------------- */

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
    client->unsignalled = client->changed = true;
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
    client->unsignalled = client->changed = true;
    pthread_mutex_unlock(&client->mutex);
}

/*
 * The C client sends each request in two pieces, the length first. Corking holds all pieces back until the turn is over. They then
 * go out together: in one segment, for which the server wakes up once.
 */
static void on_sending(void *context)
{
    zkl_client *client = context;
    if (!client->corked && client->socket >= 0) {
        int on = 1;
        client->corked = setsockopt(client->socket, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0;
    }
    zkl_xid_begin();
}

static void on_sent(void *context)
{
    (void)context;
    zkl_xid_end();
}

/*
 * Ends corking at the end of a turn. If the C client has closed the socket meanwhile, its number may belong to another socket;
 * uncorking that is harmless.
 */
static void uncork(zkl_client *client)
{
    if (client->corked) {
        int off = 0;
        client->corked = false;
        setsockopt(client->socket, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    }
}

/* The C client's log callback has no context, so each I/O thread remembers its own client here. */
static _Thread_local zkl_client *thread_client __attribute__((tls_model("initial-exec")));

zkl_client *zkl_client_speaks(zkl_client *client)
{
    zkl_client *before = thread_client;
    thread_client = client;
    return before;
}

/* While no server answers, the C client logs the same two lines at every try, dozens of times a second. */
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
    int level = ZOO_LOG_LEVEL_INFO;
    const char *mark = strstr(line, ":ZOO_");
    if (mark != NULL) {
        level = mark[5] == 'E'   ? ZOO_LOG_LEVEL_ERROR
                : mark[5] == 'W' ? ZOO_LOG_LEVEL_WARN
                : mark[5] == 'I' ? ZOO_LOG_LEVEL_INFO
                                 : ZOO_LOG_LEVEL_DEBUG;
        const char *text = strstr(mark, ": ");
        line = text != NULL ? text + 2 : line;
    }
    if (level > ZKL_ZOOKEEPER_LOG_LEVEL && mark != NULL) {
        zkl_xid_read(line); /* the level is raised for a moment, to get this one line */
        return;
    }
    if (thread_client != NULL && thread_client->lines != NULL && !said_before(thread_client, line)) {
        on_log(thread_client, level, line);
    }
}

/* --- the I/O thread ------------------------------------------------------------------------------------------------ */

/* I/O thread. */
static void begin_close_if_wanted(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool begin = client->close_wanted && !client->closing;
    pthread_mutex_unlock(&client->mutex);
    if (begin) {
        client->closing = true;
        client->close_by = zkl_clock() + CLOSE_WITHIN;
        zkl_engine_close(client->engine, zkl_clock());
    }
}

/* engine_mutex held. Publishes what callers may read without that mutex. `silently`: no byte is written for notifications. */
static void publish(zkl_client *client, bool silently)
{
    pthread_mutex_lock(&client->mutex);
    client->stats = *zkl_engine_stats(client->engine);
    client->timeout_ms = zkl_engine_session_timeout(client->engine);
    bool write_it = client->unsignalled && !client->signalled && !silently;
    client->signalled = client->signalled || write_it;
    client->unsignalled = client->unsignalled && !client->signalled;
    pthread_mutex_unlock(&client->mutex);
    if (write_it && !zkl_client_ring(client)) {
        write_byte(client->notify_pipe[1]); /* after the unlock: a woken thread takes the mutex at once */
    }
}

int zkl_poll_timeout(int64_t until)
{
    if (until == ZKL_NEVER) {
        return -1;
    }
    int64_t left = until - zkl_clock();
    if (left <= 0) {
        return 0;
    }
    int64_t ms = (left + 999999) / 1000000;
    return ms > 60000 ? 60000 : (int)ms;
}

void zkl_client_end_turn(zkl_client *client, bool silently)
{
    uncork(client);
    zkl_handles_reap(client);
    if (!TAILQ_EMPTY(&client->flushes)) {
        publish(client, true); /* a flush's answer says that nothing is left, so the figures must show that before it */
        zkl_handles_finish_flushes(client);
    }
    publish(client, silently);
}

bool zkl_client_turn(zkl_client *client, zkl_poll *wanted, bool by_caller)
{
    zkl_handles_run(client);
    uncork(client); /* at once: what follows takes no longer than the server needs */
    if (!zkl_engine_may_call(client->engine)) {
        publish(client, by_caller); /* resolving a name, in the next call, may take long */
        if (by_caller) {
            return false;
        }
    }
    zkl_engine_prepare(client->engine, zkl_clock(), wanted);
    if (wanted->must_disconnect) {
        shutdown(wanted->fd, SHUT_RDWR);
    }
    if (wanted->fd >= 0 && (wanted->fd != client->socket || !zkl_engine_may_call(client->engine))) {
        /* The C client may have been built without SOCK_CLOEXEC, and a new socket may have the number of the last. */
        fcntl(wanted->fd, F_SETFD, FD_CLOEXEC);
    }
    client->socket = wanted->fd;
    zkl_client_end_turn(client, by_caller);
    return true;
}

/* Whether the thread may end: the session can be closed, or there is no connection to close it over, or the time is up. */
static bool may_leave(const zkl_client *client)
{
    if (zkl_clock() >= client->close_by) {
        return true;
    }
    return zkl_engine_drained(client->engine) && client->state != ZKL_STATE_SUSPENDED;
}

/* The last notification, which is never cleared: the fd is readable from now on. */
static void signal_end(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->unsignalled = false;
    client->signalled = client->changed = true;
    write_byte(client->notify_pipe[1]);
    zkl_client_ring(client);
    pthread_cond_broadcast(&client->gone);
    pthread_mutex_unlock(&client->mutex);
}

static void *run(void *argument)
{
    zkl_client *client = argument;
    zkl_client_speaks(client);
    pthread_mutex_lock(&client->engine_mutex);
    while (!client->closing || !may_leave(client)) {
        zkl_poll wanted;
        begin_close_if_wanted(client);
        zkl_client_turn(client, &wanted, false);
        if (client->closing && wanted.wake_at > client->close_by) {
            wanted.wake_at = client->close_by;
        }
        if (!client->closing || !may_leave(client)) {
            zkl_io_thread_sleep(client, &wanted);
        }
    }
    zkl_engine_shut_down(client->engine, zkl_clock());
    zkl_handles_reap(client);
    publish(client, false);
    zkl_registry_remove(client);
    zkl_engine_free(client->engine);
    client->engine = NULL;
    zkl_handles_abandon(client);
    signal_end(client);
    pthread_mutex_unlock(&client->engine_mutex);
    zkl_client_drop(client);
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

/* Copies the server list in random order, so that clients spread over the servers. */
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
        .acquisition_changed = zkl_handle_acquisition_changed,
        .lease_changed = on_lease_changed,
        .state_changed = on_state_changed,
        .log = on_log,
        .sending = on_sending,
        .sent = on_sent,
    };
    client->engine = zkl_engine_new(&config, &host);
    zkl_free(servers);
    return client->engine != NULL;
}

/* The I/O thread blocks all signals; they are for the program's threads. */
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
    zkl_registry_start();
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client"); /* unless another message is written below */
    zkl_client *client = zkl_alloc(sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    init_sync(client);
    client->forks = zkl_registry_forks();
    /* Without a timer the I/O thread is woken instead. */
    client->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    client->wake_pipe[0] = client->wake_pipe[1] = client->notify_pipe[0] = client->notify_pipe[1] = -1;
    client->socket = client->listener = -1;
    atomic_store(&client->notify_socket, -1);
    atomic_store(&client->references, 1);
    atomic_store(&client->lease_until, options->lease ? 0 : ZKL_NEVER);
    TAILQ_INIT(&client->handles);
    TAILQ_INIT(&client->flushes);
    TAILQ_INIT(&client->dying);
    TAILQ_INIT(&client->todo);
    TAILQ_INIT(&client->notifications);
    if (options->log && (client->lines = zkl_alloc((size_t)LOG_LINES * sizeof *client->lines)) == NULL) {
        goto fail;
    }
    if (!make_pipe(client->wake_pipe) || !make_pipe(client->notify_pipe)) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot make a pipe: %s", strerror(errno));
        goto fail;
    }
    if (!make_engine(client, options)) {
        goto fail;
    }
    zkl_registry_add(client);
    atomic_fetch_add(&client->references, 1); /* the thread's */
    int error = start_thread(client);
    if (error != 0) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot start a thread: %s", strerror(error));
        zkl_registry_remove(client);
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
    return client->forks != zkl_registry_forks();
}

void zkl_client_close(zkl_client *client)
{
    if (zkl_client_forked(client)) {
        return;
    }
    pthread_mutex_lock(&client->mutex);
    client->close_wanted = true;
    zkl_notify_socket_forget(client); /* If no peer has connected, nothing else would remove the directory at exit(). */
    zkl_client_unlock_and_wake(client);
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
        /* No thread writes to it after the exit; event loops may still poll the other pipe. */
        close_pipe(client->wake_pipe);
        close_alarm(client);
    }
}

void zkl_client_release(zkl_client *client)
{
    if (zkl_client_forked(client)) {
        return; /* This is a copy of the parent's memory, with its mutexes in any state: leave it alone. */
    }
    zkl_client_close(client);
    pthread_mutex_lock(&client->mutex);
    bool detach = !client->joined;
    client->joined = client->unread = true;
    pthread_mutex_unlock(&client->mutex);
    bool changed;
    while (zkl_client_next(client, &changed) != 0) {
        /* handles reference their client: the list of notifications would keep them, and so the client, alive */
    }
    if (detach) {
        pthread_detach(client->thread);
    }
    zkl_client_drop(client);
}

/* --- looking at a client ------------------------------------------------------------------------------------------- */

int zkl_client_fd(const zkl_client *client)
{
    return client->notify_pipe[0];
}

uint64_t zkl_client_next(zkl_client *client, bool *changed)
{
    uint64_t id = 0;
    *changed = false;
    pthread_mutex_lock(&client->mutex);
    zkl_handle *handle = TAILQ_FIRST(&client->notifications);
    if (handle != NULL) {
        TAILQ_REMOVE(&client->notifications, handle, in_notifications);
        handle->has_notification = false;
        id = handle->id;
    } else {
        *changed = client->changed;
        client->unsignalled = client->changed = false;
        if (client->signalled && (client->notify_socket >= 0 || drain(client->notify_pipe[0]))) {
            client->signalled = false; /* if the pipe's byte is not written yet, the next call reads it */
        }
    }
    pthread_mutex_unlock(&client->mutex);
    if (handle != NULL) {
        zkl_handle_drop(handle); /* the list's */
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
    /* closed means that the thread touches nothing any more */
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

bool zkl_client_busy(const zkl_client *client)
{
    return atomic_load(&client->open_acquisitions) > 0;
}

int32_t zkl_client_session_timeout(zkl_client *client)
{
    pthread_mutex_lock(&client->mutex);
    int32_t timeout = client->timeout_ms;
    pthread_mutex_unlock(&client->mutex);
    return timeout;
}

/* client: opening and closing a client, its I/O thread, and what exit() does with open clients. */
#include "client.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "client_object.h"
#include "handle.h"
#include "os/os.h"
#include "registry.h"

/* How long a closing client waits for replies, or for a connection over which to close the session. */
#define CLOSE_WITHIN ZKL_SECOND

/* How long exit() waits for all clients together to close their sessions. */
#define EXIT_WITHIN_SECONDS 2

/* --- the I/O thread ------------------------------------------------------------------------------------------------ */

static bool is_closing(const zkl_client *client)
{
    return zkl_life_has_reached(&client->desk.life, ZKL_LIFE_CLOSING);
}

/* I/O thread, engine_mutex held. */
static void begin_close_if_wanted(zkl_client *client)
{
    pthread_mutex_lock(&client->desk.mutex);
    bool begin = zkl_life_has_reached(&client->desk.life, ZKL_LIFE_CLOSE_WANTED) && !is_closing(client);
    if (begin) {
        zkl_life_enter(&client->desk.life, ZKL_LIFE_CLOSING);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    if (begin) {
        client->desk.life.close_by = zkl_clock() + CLOSE_WITHIN;
        zkl_engine_close(client->engine, zkl_clock());
    }
}

/* I/O thread. Whether it may end: the session can be closed, or there is no connection to close it over, or the time is up. */
static bool may_leave(const zkl_client *client)
{
    if (zkl_clock() >= client->desk.life.close_by) {
        return true;
    }
    return zkl_engine_drained(client->engine) && client->published.state != ZKL_STATE_SUSPENDED;
}

/* The last notification: the client has ENDED. */
static void signal_end(zkl_client *client)
{
    pthread_mutex_lock(&client->desk.mutex);
    zkl_notifications_end(&client->desk.notifications);
    pthread_cond_broadcast(&client->desk.life.gone);
    pthread_mutex_unlock(&client->desk.mutex);
}

static void *run_io_thread(void *argument)
{
    zkl_client *client = argument;
    zkl_log_speaks(&client->log);
    pthread_mutex_lock(&client->engine_mutex);
    while (!is_closing(client) || !may_leave(client)) {
        zkl_poll wanted;
        begin_close_if_wanted(client);
        zkl_client_turn(client, &wanted, false);
        if (is_closing(client) && wanted.wake_at > client->desk.life.close_by) {
            wanted.wake_at = client->desk.life.close_by;
        }
        if (!is_closing(client) || !may_leave(client)) {
            zkl_io_thread_sleep(client, &wanted);
        }
    }
    zkl_engine_shut_down(client->engine, zkl_clock());
    zkl_handles_reap(&client->desk);
    zkl_client_publish(client, false);
    zkl_registry_remove(&client->registration);
    zkl_engine_free(client->engine);
    client->engine = NULL;
    zkl_tls_link_free(client->tls_link);
    client->tls_link = NULL;
    zkl_connector_free(client->connector);
    client->log.connector = client->connector = NULL;
    zkl_handles_abandon(&client->desk);
    signal_end(client);
    pthread_mutex_unlock(&client->engine_mutex);
    zkl_desk_drop(&client->desk);
    return NULL;
}

/* --- exit() -------------------------------------------------------------------------------------------------------- */

/* The registry is locked. The client stays until the process has ended. */
static void close_at_exit(zkl_client *client)
{
    atomic_fetch_add(&client->desk.life.references, 1);
    zkl_client_close(client);
}

static void await_end(zkl_client *client, const struct timespec *until)
{
    pthread_mutex_lock(&client->desk.mutex);
    while (!zkl_life_ended(&client->desk.life) &&
           pthread_cond_timedwait(&client->desk.life.gone, &client->desk.mutex, until) == 0) {
    }
    pthread_mutex_unlock(&client->desk.mutex);
}

/* Closes every open client, so that its locks pass on now and not after the session timeout. */
static void close_all_at_exit(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += EXIT_WITHIN_SECONDS;
    zkl_client *client;
    while ((client = zkl_registry_take(close_at_exit)) != NULL) {
        await_end(client, &until);
    }
}

/* Once a process, before its first client. */
static void set_up_process(void)
{
    zkl_registry_start();
    atexit(close_all_at_exit);
    zoo_set_debug_level(ZKL_ZOOKEEPER_LOG_LEVEL);
}

/* --- the object ---------------------------------------------------------------------------------------------------- */

static void free_client(zkl_desk *desk)
{
    zkl_client *client = zkl_client_of(desk);
    zkl_alarm_close(&client->poll_owner.alarm);
    zkl_log_close(&client->log);
    zkl_servers_free(&client->servers);
    zkl_tls_link_free(client->tls_link);
    zkl_connector_free(client->connector);
    zkl_desk_free(desk);
    pthread_mutex_destroy(&client->engine_mutex);
    zkl_free(client);
}

/*
 * Returns a new client without an engine and without a thread, with one reference. Returns NULL if the system refuses memory or a
 * pipe; `message` (ZKL_MESSAGE_SIZE bytes) then says which.
 */
static zkl_client *new_client(const zkl_client_options *options, char *message)
{
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client"); /* unless another message is written below */
    zkl_client *client = zkl_alloc(sizeof *client);
    if (client == NULL) {
        return NULL;
    }
    pthread_mutex_init(&client->engine_mutex, NULL);
    zkl_alarm_open(&client->poll_owner.alarm);
    client->socket.fd = -1;
    atomic_store(&client->published.lease_until, options->lease ? 0 : ZKL_NEVER);
    bool able = zkl_desk_init(&client->desk, free_client);
    if (!able) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot make a pipe: %s", strerror(errno));
    }
    if (!able || !zkl_log_open(&client->log, &client->desk, options->log)) {
        free_client(&client->desk);
        return NULL;
    }
    return client;
}

/* --- TLS ----------------------------------------------------------------------------------------------------------- */

/* Returns false if there is to be TLS and it cannot be; `message` and *code then say why. */
static bool make_tls_link(zkl_client *client, const zkl_client_options *options, char *message, zkl_code *code)
{
    if (options->tls == NULL) {
        return true;
    }
    bool first;
    client->tls_link = zkl_tls_link_new(options->tls, zkl_log_add, &client->log, message, code, &first);
    if (first) {
        /* Again: exit() calls it before anything that OpenSSL itself, or the program for it, has registered. */
        atexit(close_all_at_exit);
    }
    if (client->tls_link == NULL) {
        return false;
    }
    if (!options->tls->verify) {
        zkl_log_add(&client->log, ZOO_LOG_LEVEL_WARN,
                    "tls.verify is off: whoever can intercept connections can pose as a server and read everything");
    }
    return true;
}

static void tls_closing(void *context)
{
    const zkl_client *client = context;
    zkl_tls_link_closing(client->tls_link);
}

static void tls_closed(void *context)
{
    const zkl_client *client = context;
    zkl_tls_link_closed(client->tls_link);
}

/* --- connecting ----------------------------------------------------------------------------------------------------- */

static bool make_connector(zkl_client *client, const zkl_client_options *options, char *message)
{
    client->servers.given = zkl_copy(options->servers, strlen(options->servers));
    char *servers = client->servers.given != NULL ? zkl_servers_text("", client->servers.given) : NULL;
    if (servers == NULL) {
        return false;
    }
    uint64_t random;
    zkl_random(&random, sizeof random);
    client->connector =
        zkl_connector_new(servers, options->session_timeout_ms, random, zkl_log_add, &client->log, message);
    client->log.connector = client->connector;
    zkl_free(servers);
    return client->connector != NULL;
}

static bool reach_server(void *context, int64_t *wake_at)
{
    zkl_client *client = context;
    if (client->tls_link != NULL) {
        zkl_tls_link_end(client->tls_link);
    }
    if (!client->socket.may_block) {
        *wake_at = zkl_clock(); /* the connection was lost in a caller's turn */
        return false;
    }
    bool reached = zkl_connector_reach(client->connector, wake_at);
    client->socket.connecting = !reached;
    return reached;
}

static void reached(void *context, int fd)
{
    zkl_client *client = context;
    if (client->tls_link != NULL) {
        zkl_tls_link_begin(client->tls_link, client->connector, fd);
        return;
    }
    zkl_server *server;
    int socket = zkl_connector_take(client->connector, &server);
    if (!zkl_connector_replace(client->connector, fd, socket)) {
        zkl_log_add(&client->log, ZOO_LOG_LEVEL_ERROR, strerror(errno));
    }
}

static void answered(void *context, int32_t timeout_ms)
{
    const zkl_client *client = context;
    zkl_connector_answered(client->connector, timeout_ms);
}

static const char *problem(void *context, zkl_code *code)
{
    const zkl_client *client = context;
    const char *text = client->tls_link != NULL ? zkl_tls_link_problem(client->tls_link, code) : NULL;
    if (text == NULL) {
        *code = ZKL_DISCONNECTED;
        text = zkl_connector_problem(client->connector);
    }
    return text;
}

static void log_line(void *context, int level, const char *message)
{
    zkl_client *client = context;
    zkl_log_add(&client->log, level, message);
}

static bool make_engine(zkl_client *client, const zkl_client_options *options)
{
    zkl_engine_config config = {
        .session.servers = options->servers,
        .session.addresses = zkl_connector_addresses(client->connector),
        .session.tls = client->tls_link != NULL,
        .session.session_timeout_ms = options->session_timeout_ms,
        .session.lease = options->lease,
        .session.auths = options->auths,
        .session.auth_count = options->auth_count,
        .session.zookeeper_log = zkl_zookeeper_log,
    };
    zkl_random(config.random, sizeof config.random);
    const zkl_host host = {
        .session.context = client,
        .acquisition_changed = zkl_handle_acquisition_changed,
        .session.lease_changed = zkl_publish_lease,
        .session.state_changed = zkl_publish_state,
        .session.log = log_line,
        .session.sending = zkl_turn_sending,
        .session.sent = zkl_turn_sent,
        .session.closing = client->tls_link != NULL ? tls_closing : NULL,
        .session.closed = client->tls_link != NULL ? tls_closed : NULL,
        .session.reach = reach_server,
        .session.reached = reached,
        .session.answered = answered,
        .session.problem = problem,
        .session.configured = options->follow ? zkl_client_configured : NULL,
        .hold_over = zkl_handle_hold_over,
    };
    client->engine = zkl_engine_new(&config, &host);
    return client->engine != NULL;
}

zkl_client *zkl_client_open(const zkl_client_options *options, char *message, zkl_code *code)
{
    zkl_code unwanted = ZKL_OK;
    code = code != NULL ? code : &unwanted;
    *code = ZKL_FAILED;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up_process);
    zkl_client *client = new_client(options, message);
    if (client == NULL) {
        return NULL;
    }
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client"); /* unless another message is written below */
    if (!make_connector(client, options, message) || !make_tls_link(client, options, message, code) ||
        !make_engine(client, options)) {
        goto fail;
    }
    zkl_registry_add(&client->registration, client);
    atomic_fetch_add(&client->desk.life.references, 1); /* the thread's */
    int error = zkl_thread_start(&client->desk.life.thread, run_io_thread, client);
    if (error != 0) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot start a thread: %s", strerror(error));
        zkl_registry_remove(&client->registration);
        zkl_engine_free(client->engine);
        atomic_fetch_sub(&client->desk.life.references, 1);
        goto fail;
    }
    return client;
fail:
    zkl_desk_drop(&client->desk);
    return NULL;
}

void zkl_client_close(zkl_client *client)
{
    if (zkl_client_forked(client)) {
        return;
    }
    pthread_mutex_lock(&client->desk.mutex);
    if (!zkl_life_has_reached(&client->desk.life, ZKL_LIFE_CLOSE_WANTED)) {
        zkl_life_enter(&client->desk.life, ZKL_LIFE_CLOSE_WANTED);
    }
    /* If no peer has connected, nothing else would remove the directory at exit(). */
    zkl_notify_socket_forget(&client->desk.notifications.socket);
    zkl_desk_unlock_and_wake(&client->desk);
}

void zkl_client_join(zkl_client *client)
{
    if (zkl_client_forked(client)) {
        return;
    }
    pthread_mutex_lock(&client->desk.mutex);
    bool join = zkl_life_ended(&client->desk.life) && !zkl_life_has_reached(&client->desk.life, ZKL_LIFE_JOINED) &&
                !client->desk.life.released;
    if (join) {
        zkl_life_enter(&client->desk.life, ZKL_LIFE_JOINED);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    if (join) {
        pthread_join(client->desk.life.thread, NULL);
        zkl_desk_end_wakes(&client->desk); /* event loops may still poll the other pipe */
        zkl_alarm_close(&client->poll_owner.alarm);
    }
}

void zkl_client_release(zkl_client *client)
{
    if (zkl_client_forked(client)) {
        return; /* This is a copy of the parent's memory, with its mutexes in any state: leave it alone. */
    }
    zkl_client_close(client);
    pthread_mutex_lock(&client->desk.mutex);
    bool detach = !zkl_life_has_reached(&client->desk.life, ZKL_LIFE_JOINED);
    client->desk.life.released = true;
    pthread_mutex_unlock(&client->desk.mutex);
    bool changed;
    while (zkl_client_next(client, &changed) != 0) {
        /* handles reference their client: the list of notifications would keep them, and so the client, alive */
    }
    if (detach) {
        pthread_detach(client->desk.life.thread);
    }
    zkl_desk_drop(&client->desk);
}

int zkl_client_next_log(zkl_client *client, char *text, size_t size)
{
    return zkl_log_take(&client->log, text, size);
}

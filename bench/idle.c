/*
 * idle: sessions that do nothing but stay alive, of the same C client that zklock uses: one thread, many handles.
 *
 * idle SERVERS COUNT TIMEOUT_MS REQUEST EVERY_MS DIR
 *     Opens COUNT sessions, evenly spread over SERVERS (host:port,host:port,...). Each session sends a REQUEST every
 *     EVERY_MS milliseconds: sync, exists, or none. With none the C client sends its pings, every third of the timeout.
 *     When all sessions are open it makes DIR/ready-1. It ends when there is a file DIR/go, and prints how many requests
 *     were answered.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

#define CONNECT_TIMEOUT_S 60

/* Time between two checks of all sessions. */
#define TURN_MS 20

/* This many connections are opened at once: a server's queue of new connections is short. */
#define AT_ONCE 30

enum request {
    NONE,
    EXISTS,
    SYNC
};

struct session {
    zhandle_t *handle;
    int64_t due; /* when the next request is sent, in milliseconds */
};

static long answered;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void die(const char *what, int rc)
{
    fprintf(stderr, "idle: %s: %s\n", what, zerror(rc));
    exit(1);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh, (void)type, (void)path, (void)context;
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
        die("a session ended", ZSESSIONEXPIRED);
    }
}

static void note_answer(int rc)
{
    if (rc != ZOK && rc != ZCLOSING) {
        die("a request", rc);
    }
    answered += rc == ZOK ? 1 : 0;
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    (void)stat, (void)data;
    note_answer(rc);
}

static void on_synced(int rc, const char *text, const void *data)
{
    (void)text, (void)data;
    note_answer(rc);
}

static void send_request(zhandle_t *handle, enum request request)
{
    int rc = request == SYNC     ? zoo_async(handle, "/", on_synced, NULL)
             : request == EXISTS ? zoo_aexists(handle, "/", 0, on_stat, NULL)
                                 : ZOK;
    if (rc != ZOK) {
        die("sending a request", rc);
    }
}

/* Lets all sessions send and receive; sleeps first. */
static void turn(struct session *sessions, struct pollfd *polled, int count)
{
    for (int i = 0; i < count; i++) {
        int fd = -1, interest = 0;
        struct timeval wait;
        int rc = zookeeper_interest(sessions[i].handle, &fd, &interest, &wait);
        if (rc != ZOK && zoo_state(sessions[i].handle) == ZOO_CONNECTED_STATE) {
            die("zookeeper_interest", rc);
        }
        polled[i] = (struct pollfd){
            .fd = rc == ZOK ? fd : -1,
            .events = (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                              ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0)),
        };
    }
    poll(NULL, 0, TURN_MS);
    if (poll(polled, (nfds_t)count, 0) < 0 && errno != EINTR) {
        perror("idle: poll");
        exit(1);
    }
    for (int i = 0; i < count; i++) {
        int events = ((polled[i].revents & ~POLLOUT) != 0 ? ZOOKEEPER_READ : 0) |
                     ((polled[i].revents & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0);
        int rc = events != 0 ? zookeeper_process(sessions[i].handle, events) : ZOK;
        if (rc != ZOK && rc != ZNOTHING) {
            die("zookeeper_process", rc);
        }
    }
}

/* Waits until at most `left` sessions of `count` are not connected. */
static void await_connected(struct session *sessions, struct pollfd *polled, int count, int left)
{
    int64_t give_up = now_ms() + CONNECT_TIMEOUT_S * 1000;
    for (;;) {
        int missing = 0;
        for (int i = 0; i < count; i++) {
            missing += zoo_state(sessions[i].handle) != ZOO_CONNECTED_STATE ? 1 : 0;
        }
        if (missing <= left) {
            return;
        }
        if (now_ms() > give_up) {
            die("connecting", ZOPERATIONTIMEOUT);
        }
        turn(sessions, polled, count);
    }
}

/* Opens the sessions, each at the next one of the servers. */
static void open_sessions(struct session *sessions, struct pollfd *polled, int count, const char *servers,
                          int timeout_ms)
{
    const char *server = servers;
    for (int i = 0; i < count; i++) {
        char address[256];
        size_t length = strcspn(server, ",");
        snprintf(address, sizeof address, "%.*s", (int)length, server);
        server = server[length] == ',' ? server + length + 1 : servers;
        sessions[i].handle = zookeeper_init2(address, on_session, timeout_ms, NULL, NULL, ZOO_NO_LOG_CLIENTENV, NULL);
        if (sessions[i].handle == NULL) {
            perror("idle: zookeeper_init");
            exit(1);
        }
        await_connected(sessions, polled, i + 1, AT_ONCE);
    }
    await_connected(sessions, polled, count, 0);
    for (int i = 0; i < count; i++) {
        zoo_set_servers_resolution_delay(sessions[i].handle, -1); /* otherwise every turn calls getaddrinfo */
    }
}

static bool exists(const char *name)
{
    return access(name, F_OK) == 0;
}

int main(int argc, char **argv)
{
    int count = argc == 7 ? atoi(argv[2]) : 0;
    if (count < 1) {
        fprintf(stderr, "Usage: idle SERVERS COUNT TIMEOUT_MS sync|exists|none EVERY_MS DIR\n");
        return 2;
    }
    enum request request = strcmp(argv[4], "sync") == 0 ? SYNC : strcmp(argv[4], "exists") == 0 ? EXISTS : NONE;
    int every_ms = atoi(argv[5]);
    char ready[512], go[512];
    snprintf(ready, sizeof ready, "%s/ready-1", argv[6]);
    snprintf(go, sizeof go, "%s/go", argv[6]);
    struct session *sessions = calloc((size_t)count, sizeof *sessions);
    struct pollfd *polled = calloc((size_t)count, sizeof *polled);
    if (sessions == NULL || polled == NULL) {
        perror("idle");
        return 1;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    open_sessions(sessions, polled, count, argv[1], atoi(argv[3]));
    int64_t began = now_ms();
    for (int i = 0; i < count; i++) {
        sessions[i].due = began + (int64_t)every_ms * i / count;
    }
    FILE *file = fopen(ready, "w");
    if (file == NULL || fclose(file) != 0) {
        perror(ready);
        return 1;
    }
    while (!exists(go)) {
        int64_t now = now_ms();
        for (int i = 0; i < count && request != NONE; i++) {
            if (now >= sessions[i].due) {
                send_request(sessions[i].handle, request);
                sessions[i].due += every_ms;
            }
        }
        turn(sessions, polled, count);
    }
    printf("name=idle count=%d failures=0 answered=%ld\n", count, answered);
    for (int i = 0; i < count; i++) {
        zookeeper_close(sessions[i].handle);
    }
    free(sessions);
    free(polled);
    return 0;
}

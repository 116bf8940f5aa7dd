/*
 * world_real: cases run against libzookeeper_st and a server that tools/zookeeper starts. Each client has a tools/faultproxy.lua
 * between itself and the server, which takes commands over a socket.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

const bool world_is_real = true;

/* A turn waits at most this long, ms. */
#define MOMENT 50

typedef struct {
    char host[64];
    int control;
    int descriptor; /* of the connection, from the last zookeeper_interest */
    bool requests_held, replies_held;
    int said, reads;
} client_link;

static char server[64];
static client_link links[WORLD_CLIENTS];

static void die(const char *what)
{
    fprintf(stderr, "conformance: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

/* ---- the server ---- */

/* Asks the server by a four-letter word, which is no request of a session, and takes no zxid. Writes the answer to `text`. */
static void ask_server(const char *word, char *text, size_t size)
{
    size_t used = 0;
    ssize_t got;
    const char *port = strrchr(server, ':');
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)strtol(port + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        send(fd, word, strlen(word), MSG_NOSIGNAL) != (ssize_t)strlen(word))
        die(word);
    while (used + 1 < size && (got = recv(fd, text + used, size - used - 1, 0)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
}

const char *world_server_version(void)
{
    static char version[64];
    char text[4096];
    ask_server("srvr", text, sizeof(text));
    if (sscanf(text, "Zookeeper version: %63s", version) != 1)
        die("srvr has no version");
    return version;
}

const char *world_client_version(void)
{
    return ZOO_VERSION;
}

/* ---- proxies ---- */

/* Sends a command to the proxy; its answer is one line, "ok …". */
static void command(int client, const char *line)
{
    char text[128];
    int length = snprintf(text, sizeof(text), "%s\n", line);
    if (send(links[client].control, text, (size_t)length, MSG_NOSIGNAL) != length)
        die(line);
    size_t used = 0;
    while (used == 0 || text[used - 1] != '\n') {
        ssize_t got = recv(links[client].control, text + used, sizeof(text) - used, 0);
        if (got <= 0)
            die(line);
        used += (size_t)got;
    }
    if (strncmp(text, "ok", 2) != 0) {
        fprintf(stderr, "conformance: %s: %.*s", line, (int)used, text);
        exit(EXIT_FAILURE);
    }
}

static bool start_proxy(client_link *at)
{
    char line[512];
    /* In the background, so that Ctrl-C does not end it: its owner does. */
    snprintf(line, sizeof(line), "LD_PRELOAD= tools/background lua5.4 tools/faultproxy.lua --target %s --owner %d 2>&1",
             server, (int)getpid());
    FILE *output = popen(line, "r");
    if (output == NULL)
        return false;
    static const char control[] = "CONTROL=127.0.0.1:";
    bool well = fgets(line, sizeof(line), output) != NULL && sscanf(line, "PROXY=%63s", at->host) == 1 &&
                fgets(line, sizeof(line), output) != NULL && strncmp(line, control, sizeof(control) - 1) == 0;
    long port = well ? strtol(line + sizeof(control) - 1, NULL, 10) : 0;
    if (!well)
        fprintf(stderr, "conformance: the proxy says %s\n", line);
    pclose(output);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at->control = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    return well && at->control >= 0 && connect(at->control, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           setsockopt(at->control, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0;
}

static void hold_as_told(int client)
{
    const client_link *at = &links[client];
    command(client, "resume");
    if (at->requests_held)
        command(client, "stall up");
    if (at->replies_held)
        command(client, "stall down");
}

/* ---- handles without a proxy, for administration ---- */

typedef struct {
    bool done;
    int rc;
    int count;
    char names[64][448];
} outcome;

static zhandle_t *janitor;

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

static outcome *outcome_of(const void *data)
{
    outcome *at = NULL;
    memcpy(&at, &data, sizeof(at));
    return at;
}

static void on_done(int rc, const void *data)
{
    outcome_of(data)->rc = rc;
    outcome_of(data)->done = true;
}

static void on_set(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    on_done(rc, data);
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    outcome *at = outcome_of(data);
    for (int i = 0; rc == ZOK && i < names->count && at->count < 64; i++)
        snprintf(at->names[at->count++], sizeof(at->names[0]), "%s", names->data[i]);
    on_done(rc, data);
}

static void turn(zhandle_t *zh)
{
    int fd = -1, interest = 0;
    struct timeval wait = {0, 0};
    if (zookeeper_interest(zh, &fd, &interest, &wait) != ZOK)
        return;
    struct pollfd one = {.fd = fd};
    one.events =
        (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
    int most = (int)(wait.tv_sec * 1000 + wait.tv_usec / 1000);
    poll(&one, 1, most < 1000 ? most : 1000);
    if (one.revents != 0)
        zookeeper_process(zh, ((one.revents & ~POLLOUT) != 0 ? ZOOKEEPER_READ : 0) |
                                  ((one.revents & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0));
}

/* `others`: handles that have their turns meanwhile; NULL: none. */
static zhandle_t *connect_directly(const clientid_t *session, zhandle_t *const *others)
{
    zhandle_t *zh = zookeeper_init2(server, on_event, WORLD_MOST_TIMEOUT, session, NULL, 0, NULL);
    if (zh == NULL)
        die("zookeeper_init2");
    while (zoo_state(zh) != ZOO_CONNECTED_STATE && zoo_state(zh) >= 0) {
        turn(zh);
        if (others != NULL)
            world_turn(others);
    }
    return zh;
}

static int await(zhandle_t *zh, const outcome *expected, int rc)
{
    if (rc != ZOK)
        return rc;
    while (!expected->done && zoo_state(zh) >= 0)
        turn(zh);
    return expected->rc;
}

/* Cases and programs restrict nodes with children to no identity but this one. */
static void authenticate_janitor(void)
{
    static const char credential[] = "user:password";
    outcome done = {.done = false};
    await(janitor, &done, zoo_add_auth(janitor, "digest", credential, (int)strlen(credential), on_done, &done));
}

static void remove_below(const char *path)
{
    outcome listed = {.done = false};
    struct ACL open_acl[] = {{0x1f, {"world", "anyone"}}};
    struct ACL_vector open_to_all = {1, open_acl};
    outcome opened = {.done = false};
    if (strcmp(path, "/") != 0)
        await(janitor, &opened, zoo_aset_acl(janitor, path, -1, &open_to_all, on_done, &opened));
    await(janitor, &listed, zoo_aget_children(janitor, path, 0, on_names, &listed));
    for (int i = 0; i < listed.count; i++) {
        char child[1024];
        snprintf(child, sizeof(child), "%s/%s", strcmp(path, "/") == 0 ? "" : path, listed.names[i]);
        if (strcmp(child, "/zookeeper") == 0)
            continue;
        remove_below(child);
        outcome removed = {.done = false};
        if (strcmp(child, WORLD_NEARLY_FULL) != 0)
            await(janitor, &removed, zoo_adelete(janitor, child, -1, on_done, &removed));
    }
}

/* ---- the world ---- */

bool world_start(void)
{
    char line[512];
    snprintf(line, sizeof(line),
             "LD_PRELOAD= tools/zookeeper start --owner %d --option minSessionTimeout=%d --option maxSessionTimeout=%d "
             "--seed-sequence %s=%d --java-option -Dznode.container.checkIntervalMs=200 "
             "--java-option -Dzookeeper.DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=",
             (int)getpid(), WORLD_LEAST_TIMEOUT, WORLD_MOST_TIMEOUT, WORLD_NEARLY_FULL, INT32_MAX - 1);
    FILE *output = popen(line, "r");
    if (output == NULL)
        return false;
    while (fgets(line, sizeof(line), output) != NULL) {
        char directory[500];
        sscanf(line, "ZOOKEEPER=%63s", server);
        if (sscanf(line, "ZOOKEEPER_DIR=%499s", directory) == 1)
            setenv("ZOOKEEPER_DIR", directory, 1);
    }
    if (pclose(output) != 0 || server[0] == '\0')
        return false;
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        if (!start_proxy(&links[i]))
            return false;
    }
    return true;
}

void world_stop(void)
{
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        command(i, "quit");
        close(links[i].control);
    }
    if (system("tools/zookeeper stop >/dev/null") != 0)
        die("tools/zookeeper stop");
}

static void mend(void)
{
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        links[i].requests_held = links[i].replies_held = false;
        command(i, "disarm");
        command(i, "resume");
    }
}

void world_begin(uint64_t seed)
{
    (void)seed;
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        links[i].said = links[i].reads = 0;
        links[i].descriptor = -1;
    }
    mend();
    janitor = connect_directly(NULL, NULL);
    authenticate_janitor();
    remove_below("/");
    zookeeper_close(janitor);
}

void world_end(void)
{
    mend();
}

bool world_has_only(int sessions)
{
    char text[16384];
    ask_server("dump", text, sizeof(text));
    char *end = strstr(text, "ephemeral nodes dump");
    if (end == NULL)
        die("dump has no ephemeral nodes");
    *end = '\0';
    int count = 0;
    for (const char *each = text; (each = strstr(each, "0x")) != NULL; each += 2)
        count++;
    return count <= sessions;
}

const char *world_host(int client)
{
    return links[client].host;
}

const char *world_unknown_host(int client)
{
    (void)client;
    return "no-such-host.invalid:2181";
}

int64_t world_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t world_patience(void)
{
    return INT64_C(120) * 1000000000;
}

int world_said(int client)
{
    return links[client].said;
}

int world_reads(int client)
{
    return links[client].reads;
}

void world_turn(zhandle_t *const *handles)
{
    struct pollfd polled[WORLD_CLIENTS];
    int most = MOMENT;
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        polled[i] = (struct pollfd){.fd = -1};
        int fd = -1, interest = 0;
        struct timeval wait = {0, 0};
        if (handles[i] == NULL || zookeeper_interest(handles[i], &fd, &interest, &wait) != ZOK)
            continue;
        links[i].descriptor = fd;
        polled[i].fd = fd;
        polled[i].events = (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                                   ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0));
        int own = (int)(wait.tv_sec * 1000 + wait.tv_usec / 1000);
        most = own < most ? own : most;
    }
    poll(polled, WORLD_CLIENTS, most);
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        short found = polled[i].revents;
        if (polled[i].fd < 0 || found == 0)
            continue;
        bool readable = (found & ~POLLOUT) != 0;
        links[i].said = zookeeper_process(handles[i], (readable ? ZOOKEEPER_READ : 0) |
                                                          ((found & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0));
        links[i].reads += readable && links[i].said == ZOK;
    }
}

void world_cut(int client)
{
    command(client, "cut");
}

void world_hold_requests(int client, bool hold)
{
    links[client].requests_held = hold;
    hold_as_told(client);
}

void world_hold_replies(int client, bool hold)
{
    links[client].replies_held = hold;
    hold_as_told(client);
}

void world_lose_next_create(int client)
{
    command(client, "arm create after");
}

void world_lose_next_delete(int client)
{
    command(client, "arm delete after");
}

void world_fail_next_send(int client)
{
    if (shutdown(links[client].descriptor, SHUT_WR) != 0)
        die("shutdown");
}

/*
 * A handle with the session's id and password takes the session over, and ends it. zookeeper_close waits for at most 1.5 s. The client
 * of the case could take a session back that has not ended by then.
 */
void world_end_session(const clientid_t *session, zhandle_t *const *handles)
{
    zhandle_t *others[WORLD_CLIENTS] = {NULL};
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        if (handles[i] != NULL && zoo_client_id(handles[i])->client_id != session->client_id)
            others[i] = handles[i];
    }
    char text[16384], id[24];
    snprintf(id, sizeof(id), "0x%llx\n", (unsigned long long)session->client_id);
    zookeeper_close(connect_directly(session, others));
    for (ask_server("dump", text, sizeof(text)); strstr(text, id) != NULL; ask_server("dump", text, sizeof(text)))
        world_turn(others);
}

void world_restart_server(void)
{
    if (system("tools/zookeeper kill 1 && tools/zookeeper restart 1 >/dev/null") != 0)
        die("tools/zookeeper restart");
}

void world_refuse_credentials(void)
{
}

void world_forbid(const char *path, int permissions)
{
    outcome done = {.done = false};
    struct ACL remaining[] = {{ZOO_PERM_ALL & ~permissions, {"world", "anyone"}}};
    struct ACL_vector acl = {1, remaining};
    zhandle_t *zh = connect_directly(NULL, NULL);
    if (await(zh, &done, zoo_aset_acl(zh, path, -1, &acl, on_done, &done)) != ZOK)
        die("zoo_aset_acl");
    zookeeper_close(zh);
}

/* Only the superuser may do that. */
void world_configure(const char *text)
{
    static const char superuser[] = "super:secret";
    outcome known = {.done = false}, done = {.done = false};
    zhandle_t *zh = connect_directly(NULL, NULL);
    await(zh, &known, zoo_add_auth(zh, "digest", superuser, (int)strlen(superuser), on_done, &known));
    if (await(zh, &done, zoo_aset(zh, ZOO_CONFIG_NODE, text, (int)strlen(text), -1, on_set, &done)) != ZOK)
        die("zoo_aset");
    zookeeper_close(zh);
}

void world_reap(void)
{
}

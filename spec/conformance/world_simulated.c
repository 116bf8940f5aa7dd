/* world_simulated: cases run against spec/simulation. Its time passes only in world_turn. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"
#include "world.h"

const bool world_is_real = false;

static bool requests_held[WORLD_CLIENTS], replies_held[WORLD_CLIENTS];
static int said[WORLD_CLIENTS], reads[WORLD_CLIENTS];

const char *world_server_version(void)
{
    return sim_server_version();
}

const char *world_client_version(void)
{
    return sim_client_version();
}

bool world_start(void)
{
    return true;
}

void world_stop(void)
{
}

static void run_until_led(void)
{
    while (sim_leader() < 0 && sim_step()) {
    }
}

void world_begin(uint64_t seed)
{
    sim_options options = {.seed = seed,
                           .servers = 1,
                           .min_session_timeout_ms = WORLD_LEAST_TIMEOUT,
                           .max_session_timeout_ms = WORLD_MOST_TIMEOUT,
                           .tick_ms = 500,
                           .delay = SIM_MILLISECOND,
                           .auth_lasts = true,
                           .own_nodes = true};
    sim_begin(&options, NULL);
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        requests_held[i] = replies_held[i] = false;
        said[i] = reads[i] = 0;
    }
    run_until_led();
    sim_preset_counter(WORLD_NEARLY_FULL, INT32_MAX - 1);
    sim_foreign_create(0, WORLD_NEARLY_FULL, "", ZOO_PERSISTENT);
}

void world_end(void)
{
    sim_end();
}

const char *world_host(int client)
{
    sim_set_caller(client);
    sim_set_names(client, true);
    return "simulated:2181";
}

const char *world_unknown_host(int client)
{
    sim_set_caller(client);
    sim_set_names(client, false);
    return "simulated:2181";
}

int64_t world_now(void)
{
    return sim_now();
}

int64_t world_patience(void)
{
    return 300 * SIM_SECOND;
}

int world_said(int client)
{
    return said[client];
}

int world_reads(int client)
{
    return reads[client];
}

/* New connections are held back as older ones are. */
static void hold(void)
{
    for (sim_connection *each = sim_connections(); each != NULL; each = each->next) {
        if (each->reset || each->caller >= WORLD_CLIENTS)
            continue;
        if (each->up.cut != requests_held[each->caller])
            sim_channel_set_cut(&each->up, requests_held[each->caller]);
        if (each->down.cut != replies_held[each->caller])
            sim_channel_set_cut(&each->down, replies_held[each->caller]);
    }
}

static void turn(int client, zhandle_t *zh)
{
    int fd = -1, interest = 0;
    struct timeval wait = {0, 0};
    sim_set_caller(client);
    if (zookeeper_interest(zh, &fd, &interest, &wait) != ZOK || fd < 0)
        return;
    hold();
    int events = ((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) | ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0);
    short found = sim_poll(fd, (short)events);
    if (found == 0)
        return;
    said[client] = zookeeper_process(zh, ((found & POLLIN) != 0 ? ZOOKEEPER_READ : 0) |
                                             ((found & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0));
    reads[client] += (found & POLLIN) != 0 && said[client] == ZOK;
}

void world_turn(zhandle_t *const *handles)
{
    for (int i = 0; i < WORLD_CLIENTS; i++) {
        if (handles[i] != NULL)
            turn(i, handles[i]);
    }
    hold();
    sim_step();
}

void world_cut(int client)
{
    for (sim_connection *each = sim_connections(); each != NULL; each = each->next) {
        if (each->caller != client || each->handle == NULL || each->reset)
            continue;
        sim_channel_drop(&each->down, 0);
        each->down.cut = false;
        each->inbox = each->inbox_last = NULL;
        sim_connection_abort(each, false);
        each->reset = each->established;
    }
}

void world_hold_requests(int client, bool wanted)
{
    requests_held[client] = wanted;
    hold();
}

void world_hold_replies(int client, bool wanted)
{
    replies_held[client] = wanted;
    hold();
}

void world_lose_next_create(int client)
{
    sim_lose_next_write(client, 0);
}

void world_lose_next_delete(int client)
{
    sim_lose_next_write(client, 0);
}

void world_fail_next_send(int client)
{
    sim_fail_next_send(client);
}

void world_end_session(const clientid_t *session, zhandle_t *const *handles)
{
    (void)handles; /* the end of a session takes no time here */
    sim_foreign_expire(session->client_id);
    while (sim_session_lives(session->client_id) && sim_step()) {
    }
}

void world_restart_server(void)
{
    sim_crash_server(0);
    sim_restart_server(0);
    run_until_led();
}

void world_refuse_credentials(void)
{
    sim.options.auth_fails = true;
}

void world_forbid(const char *path, int permissions)
{
    sim_deny(path, permissions);
}

void world_configure(const char *text)
{
    sim_foreign_set(0, ZOO_CONFIG_NODE, text);
}

/* Each case has a new server. */
bool world_has_only(int sessions)
{
    (void)sessions;
    return true;
}

void world_reap(void)
{
    sim_reap_containers();
}

/*
 * connections: the connector (csrc/client/connector.h) with simulated connections, by the linker's --wrap. The race (csrc/client/race.h)
 * and the list of servers are the real ones.
 */
#include <stdio.h>
#include <string.h>

#include "client/connector.h"
#include "client/race.h"
#include "sim_zookeeper.h"

/* The C client's address: it resolves, and nobody listens there. */
#define NOWHERE "127.0.0.1:1"

/* A connection that is not established after so long: the address does not answer. */
#define LATE_AFTER ZKL_SECOND

typedef struct {
    int descriptor; /* 0: none */
    int32_t server;
    int64_t begun_at;
} attempt;

struct zkl_connector {
    zkl_server_list servers;
    zkl_race race;
    char *hosts;
    char *addresses;
    attempt attempts[ZKL_RACE_MOST_PENDING];
    int descriptor; /* RACING: to poll; else -1 */
    int reached;    /* 0: none */
    int64_t took;
    char problem[ZKL_MESSAGE_SIZE];
};

zkl_connector *__wrap_zkl_connector_new(const char *servers, int32_t session_timeout_ms, uint64_t random,
                                        zkl_connector_log_fn log, void *log_context, char *message);
void __wrap_zkl_connector_free(zkl_connector *connector);
const char *__wrap_zkl_connector_addresses(const zkl_connector *connector);
bool __wrap_zkl_connector_reach(zkl_connector *connector, int64_t *wake_at);
int __wrap_zkl_connector_take(zkl_connector *connector, zkl_server **server);
bool __wrap_zkl_connector_replace(zkl_connector *connector, int fd, int socket);
void __wrap_zkl_connector_answered(zkl_connector *connector);
bool __wrap_zkl_connector_overdue(const zkl_connector *connector, int64_t *wake_at);
void __wrap_zkl_connector_give_up(zkl_connector *connector);
struct pollfd __wrap_zkl_connector_poll(const zkl_connector *connector);
const char *__wrap_zkl_connector_problem(const zkl_connector *connector);
bool __wrap_zkl_connector_hides(const zkl_connector *connector, const char *line);

zkl_connector *__wrap_zkl_connector_new(const char *servers, int32_t session_timeout_ms, uint64_t random,
                                        zkl_connector_log_fn log, void *log_context, char *message)
{
    (void)log;
    (void)log_context;
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client");
    zkl_connector *connector = zkl_alloc(sizeof *connector);
    if (connector == NULL) {
        return NULL;
    }
    connector->descriptor = -1;
    size_t length = strcspn(servers, "/");
    size_t size = sizeof NOWHERE + strlen(servers + length);
    connector->hosts = zkl_copy(servers, length);
    connector->addresses = zkl_alloc(size);
    if (connector->hosts == NULL || connector->addresses == NULL ||
        !zkl_server_list_init(&connector->servers, servers) ||
        !zkl_race_init(&connector->race, connector->servers.count, session_timeout_ms * (ZKL_SECOND / 1000), random)) {
        __wrap_zkl_connector_free(connector);
        return NULL;
    }
    snprintf(connector->addresses, size, NOWHERE "%s", servers + length);
    return connector;
}

static void end_attempts(zkl_connector *connector)
{
    for (int i = 0; i < ZKL_RACE_MOST_PENDING; i++) {
        attempt *made = &connector->attempts[i];
        if (made->descriptor != 0) {
            if (sim_dial_state(made->descriptor) == SIM_DIAL_PENDING && zkl_clock() - made->begun_at >= LATE_AFTER) {
                zkl_race_late(&connector->race, made->server, zkl_clock());
            }
            sim_hang_up(made->descriptor);
            made->descriptor = 0;
        }
    }
    connector->descriptor = -1;
}

void __wrap_zkl_connector_free(zkl_connector *connector)
{
    if (connector == NULL) {
        return;
    }
    if (connector->race.servers != NULL) {
        end_attempts(connector);
    }
    if (connector->reached != 0) {
        sim_hang_up(connector->reached);
    }
    zkl_race_free(&connector->race);
    zkl_server_list_free(&connector->servers);
    zkl_free(connector->addresses);
    zkl_free(connector->hosts);
    zkl_free(connector);
}

const char *__wrap_zkl_connector_addresses(const zkl_connector *connector)
{
    return connector->addresses;
}

static void collect(zkl_connector *connector)
{
    for (int i = 0; i < ZKL_RACE_MOST_PENDING; i++) {
        attempt *made = &connector->attempts[i];
        sim_dialed state = made->descriptor != 0 ? sim_dial_state(made->descriptor) : SIM_DIAL_PENDING;
        if (state == SIM_DIAL_CONNECTED) {
            connector->reached = made->descriptor;
            connector->took = zkl_clock() - made->begun_at;
            made->descriptor = 0;
            zkl_race_reached(&connector->race, made->server);
            end_attempts(connector);
            return;
        }
        if (state == SIM_DIAL_FAILED) {
            sim_hang_up(made->descriptor);
            made->descriptor = 0;
            snprintf(connector->problem, sizeof connector->problem, "cannot connect to '%s': Connection refused",
                     connector->hosts);
            zkl_race_failed(&connector->race, zkl_clock());
        }
    }
}

static void begin_attempts(zkl_connector *connector)
{
    zkl_race_turn turn;
    while (zkl_race_next(&connector->race, zkl_clock(), &turn)) {
        const char *host = connector->servers.servers[turn.server].text;
        bool resolves = turn.resolve ? sim_resolves(host) : turn.address == 0;
        if (turn.resolve) {
            zkl_race_resolved(&connector->race, turn.server, resolves);
        }
        if (!resolves) {
            zkl_race_not_begun(&connector->race, zkl_clock());
            continue;
        }
        attempt *made = connector->attempts;
        while (made->descriptor != 0) {
            made++;
        }
        *made = (attempt){.descriptor = sim_dial(host), .server = turn.server, .begun_at = zkl_clock()};
        zkl_race_begun(&connector->race, made->begun_at);
    }
}

bool __wrap_zkl_connector_reach(zkl_connector *connector, int64_t *wake_at)
{
    zkl_race *race = &connector->race;
    int64_t now = zkl_clock();
    if (race->state == ZKL_RACE_TRYING && now >= race->answer_by) {
        zkl_race_late(race, race->current, now);
    }
    if (connector->reached != 0) {
        sim_hang_up(connector->reached);
        connector->reached = 0;
    }
    zkl_race_want(race, now);
    if (race->state == ZKL_RACE_RACING) {
        if (connector->descriptor < 0) {
            connector->descriptor = sim_dials_descriptor();
            snprintf(connector->problem, sizeof connector->problem, "no server of '%s' answers", connector->hosts);
        }
        collect(connector);
        begin_attempts(connector);
    }
    if (race->state == ZKL_RACE_REACHED) {
        sim_hand_over(connector->reached);
        return true;
    }
    if (race->state == ZKL_RACE_RACING && zkl_race_over(race, zkl_clock())) {
        end_attempts(connector);
    }
    int64_t next = zkl_race_wake_at(race);
    *wake_at = next < *wake_at ? next : *wake_at;
    return false;
}

int __wrap_zkl_connector_take(zkl_connector *connector, zkl_server **server)
{
    connector->reached = 0;
    connector->problem[0] = '\0';
    zkl_race_try(&connector->race, zkl_clock(), connector->took);
    *server = &connector->servers.servers[connector->race.current];
    return -1;
}

bool __wrap_zkl_connector_replace(zkl_connector *connector, int fd, int socket)
{
    (void)connector;
    (void)fd;
    (void)socket;
    return true; /* the C client has the connection that was handed over */
}

void __wrap_zkl_connector_answered(zkl_connector *connector)
{
    if (connector->race.state == ZKL_RACE_TRYING) {
        zkl_race_answered(&connector->race, zkl_clock());
    }
}

bool __wrap_zkl_connector_overdue(const zkl_connector *connector, int64_t *wake_at)
{
    if (connector->race.state != ZKL_RACE_TRYING) {
        return false;
    }
    int64_t by = connector->race.answer_by;
    bool overdue = zkl_clock() >= by;
    *wake_at = !overdue && by < *wake_at ? by : *wake_at;
    return overdue;
}

void __wrap_zkl_connector_give_up(zkl_connector *connector)
{
    snprintf(connector->problem, sizeof connector->problem, "no server of '%s' answers", connector->hosts);
}

struct pollfd __wrap_zkl_connector_poll(const zkl_connector *connector)
{
    return (struct pollfd){.fd = connector->descriptor, .events = POLLIN};
}

const char *__wrap_zkl_connector_problem(const zkl_connector *connector)
{
    return connector->problem[0] != '\0' && connector->descriptor < 0 ? connector->problem : NULL;
}

bool __wrap_zkl_connector_hides(const zkl_connector *connector, const char *line)
{
    (void)connector;
    (void)line;
    return false;
}

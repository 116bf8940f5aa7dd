/* connector: connects the unchanged C client to the server that can be reached first. */
#include "connector.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include "base/base.h"
#include "dial.h"
#include "os/os.h"
#include "race.h"
#include "server_list.h"

/* A connection that is not established after so long: the address does not answer. */
#define LATE_AFTER ZKL_SECOND

/* A connection that was begun with an address of a server. */
typedef struct {
    zkl_dial dial;
    int32_t server;
    int32_t address;
    int64_t begun_at;
} attempt;

struct zkl_connector {
    zkl_server_list servers;
    zkl_server_list replaced; /* An earlier list: the latest zkl_connector_take has returned one of its servers. */
    zkl_race race;
    char *hosts;     /* The connection string without the chroot, for messages. */
    char *addresses; /* The C client connects to these: the listener, twice, and the chroot. */
    char listener_address[ZKL_LISTENER_SIZE];
    int listener;
    int dials; /* RACING: where the attempts are. Otherwise -1. */
    attempt attempts[ZKL_RACE_MOST_PENDING];
    attempt winner;  /* The latest that was reached. It has its socket until zkl_connector_take. */
    int64_t took;    /* From its beginning until it was reached. */
    int error;       /* The latest errno of this race, or 0. */
    bool unresolved; /* No server of this race could be resolved. */
    zkl_connector_log_fn log;
    void *log_context;
    char problem[ZKL_MESSAGE_SIZE];
};

static void log_problem(zkl_connector *connector, int32_t server, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void log_problem(zkl_connector *connector, int32_t server, const char *format, ...)
{
    char line[ZKL_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (zkl_server_has_news(&connector->servers.servers[server], line)) {
        connector->log(connector->log_context, ZOO_LOG_LEVEL_WARN, line);
    }
}

static const char *text_of(const zkl_connector *connector, int32_t server)
{
    return connector->servers.servers[server].text;
}

/* --- what has not answered ------------------------------------------------------------------------------------------ */

/* The address has not answered in time. Its server has its turn last once this is true of all its addresses. */
static void note_late(zkl_connector *connector, const attempt *made, int64_t now)
{
    zkl_server *server = &connector->servers.servers[made->server];
    if (made->address < server->count) {
        server->addresses[made->address].late_until = now + ZKL_RACE_LATE_FOR;
    }
    for (int32_t i = 0; i < server->count; i++) {
        if (server->addresses[i].late_until <= now) {
            return;
        }
    }
    zkl_race_late(&connector->race, made->server, now);
}

/* --- attempts ------------------------------------------------------------------------------------------------------- */

static void stop_dialing(zkl_connector *connector)
{
    zkl_dials_close(connector->dials);
    connector->dials = -1;
}

/* The name of a server is not resolved. */
static void note_unresolved(zkl_connector *connector, int32_t server, const char *why)
{
    log_problem(connector, server, "cannot resolve '%s': %s", connector->servers.servers[server].host, why);
}

/* Names that are being resolved go on: the next race may have the answer. */
static void note_late_names(zkl_connector *connector, int64_t now)
{
    for (int32_t i = 0; i < connector->servers.count; i++) {
        const zkl_server *server = &connector->servers.servers[i];
        if (server->resolution != NULL && now - server->asked_at >= LATE_AFTER &&
            zkl_resolution_answer(server->resolution) == NULL) {
            zkl_race_late(&connector->race, i, now);
            note_unresolved(connector, i, "there is no answer yet");
        }
    }
}

static void end_attempts(zkl_connector *connector, int64_t now)
{
    note_late_names(connector, now);
    for (int i = 0; i < ZKL_RACE_MOST_PENDING; i++) {
        attempt *made = &connector->attempts[i];
        if (made->dial.fd >= 0 && now - made->begun_at >= LATE_AFTER) {
            note_late(connector, made, now);
            log_problem(connector, made->server, "'%s' does not answer: no TCP connection within %.3g s",
                        text_of(connector, made->server), (double)(now - made->begun_at) / 1e9);
        }
        zkl_dial_end(&made->dial);
    }
    stop_dialing(connector);
}

static void attempt_failed(zkl_connector *connector, int32_t server, int error)
{
    connector->error = error;
    connector->unresolved = false;
    log_problem(connector, server, "cannot connect to '%s': %s", text_of(connector, server), strerror(error));
}

/* There is one: the race has no turn while ZKL_RACE_MOST_PENDING connections are pending. */
static attempt *free_attempt(zkl_connector *connector)
{
    attempt *made = connector->attempts;
    while (made->dial.fd >= 0) {
        made++;
    }
    return made;
}

/* Whether a connection with the address of this turn is under way: it has had its turn before. */
static bool is_pending(const zkl_connector *connector, const zkl_race_turn *turn)
{
    for (int i = 0; i < ZKL_RACE_MOST_PENDING; i++) {
        const attempt *made = &connector->attempts[i];
        if (made->dial.fd >= 0 && made->server == turn->server && made->address == turn->address) {
            return true;
        }
    }
    return false;
}

/* The answer about a server's name is there. */
static void take_name(zkl_connector *connector, int32_t index)
{
    zkl_server *server = &connector->servers.servers[index];
    int64_t now = zkl_clock();
    const char *problem = zkl_server_resolved(server, now);
    if (problem != NULL) {
        note_unresolved(connector, index, problem);
    } else {
        connector->unresolved = false;
    }
    zkl_race_resolved(&connector->race, index, problem == NULL ? server->count : 0, now);
}

/* RACING. It is the turn of this server's name. */
static void resolve_server(zkl_connector *connector, int32_t index)
{
    zkl_server *server = &connector->servers.servers[index];
    int64_t now = zkl_clock();
    bool begun = zkl_server_resolve(server, now);
    if (begun && zkl_resolution_answer(server->resolution) != NULL) {
        take_name(connector, index);
    } else if (begun && zkl_dials_add(connector->dials, zkl_resolution_fd(server->resolution))) {
        zkl_race_resolving(&connector->race, index, now);
    } else {
        note_unresolved(connector, index, strerror(begun ? errno : ENOMEM));
        zkl_race_resolved(&connector->race, index, 0, now);
    }
}

/* RACING. Takes the answers that have come for names. */
static void take_answers(zkl_connector *connector)
{
    for (int32_t i = 0; i < connector->servers.count; i++) {
        const zkl_resolution *resolution = connector->servers.servers[i].resolution;
        if (connector->race.servers[i].name == ZKL_RACE_RESOLVING && zkl_resolution_answer(resolution) != NULL) {
            zkl_dials_remove(connector->dials, zkl_resolution_fd(resolution));
            take_name(connector, i);
        }
    }
}

/* RACING. Begins the connection of this turn. */
static void begin_attempt(zkl_connector *connector, const zkl_race_turn *turn)
{
    if (is_pending(connector, turn)) {
        zkl_race_not_begun(&connector->race, false, zkl_clock());
        return;
    }
    attempt *made = free_attempt(connector);
    *made = (attempt){.dial = {-1, made}, .server = turn->server, .address = turn->address, .begun_at = zkl_clock()};
    const zkl_address *addresses = connector->servers.servers[turn->server].addresses;
    if (zkl_dial_begin(&made->dial, connector->dials, &addresses[turn->address])) {
        zkl_race_begun(&connector->race, made->begun_at);
    } else {
        attempt_failed(connector, turn->server, errno);
        zkl_race_not_begun(&connector->race, true, made->begun_at);
    }
}

/* RACING. Takes the turns that are due. */
static void take_turns(zkl_connector *connector)
{
    zkl_race_turn turn;
    while (zkl_race_next(&connector->race, zkl_clock(), &turn)) {
        if (turn.address < 0) {
            resolve_server(connector, turn.server);
        } else {
            begin_attempt(connector, &turn);
        }
    }
}

/* RACING. The connection of an attempt is established: the others end, and its socket can be taken. */
static void reach_by(zkl_connector *connector, attempt *made)
{
    int64_t now = zkl_clock();
    connector->winner = *made;
    connector->winner.dial.fd = zkl_dial_take(&made->dial, connector->dials);
    connector->took = now - made->begun_at;
    zkl_race_reached(&connector->race, made->server);
    end_attempts(connector, now);
}

/* RACING. Handles attempts that are established or have failed. */
static void collect(zkl_connector *connector)
{
    int error;
    zkl_dial *decided;
    while ((decided = zkl_dials_next(connector->dials, &error)) != NULL) {
        attempt *made = decided->owner;
        if (error == 0) {
            reach_by(connector, made);
            return;
        }
        attempt_failed(connector, made->server, error);
        zkl_dial_end(decided);
        zkl_race_failed(&connector->race, zkl_clock());
    }
}

/* --- for the driver ------------------------------------------------------------------------------------------------- */

static void note_race_problem(zkl_connector *connector)
{
    char *problem = connector->problem;
    size_t size = sizeof connector->problem;
    if (connector->unresolved) {
        snprintf(problem, size, "cannot resolve any server of '%s'", connector->hosts);
    } else if (connector->error != 0) {
        snprintf(problem, size, "cannot connect to '%s': %s", connector->hosts, strerror(connector->error));
    } else {
        snprintf(problem, size, "no server of '%s' answers", connector->hosts);
    }
}

/* RACING. Returns whether there can be attempts. */
static bool start_dialing(zkl_connector *connector)
{
    if (connector->dials < 0) {
        connector->dials = zkl_dials_open();
        connector->error = connector->dials < 0 ? errno : 0;
        connector->unresolved = connector->dials >= 0;
    }
    return connector->dials >= 0;
}

bool zkl_connector_reach(zkl_connector *connector, int64_t *wake_at)
{
    zkl_race *race = &connector->race;
    int64_t now = zkl_clock();
    if (race->state == ZKL_RACE_TRYING && now >= race->answer_by) {
        note_late(connector, &connector->winner, now);
    }
    zkl_dial_end(&connector->winner.dial); /* if the C client could not begin to connect */
    zkl_race_want(race, now);
    if (race->state == ZKL_RACE_RACING && start_dialing(connector)) {
        take_answers(connector);
        collect(connector);
        take_turns(connector);
    }
    if (race->state == ZKL_RACE_REACHED) {
        return true;
    }
    now = zkl_clock();
    if (race->state == ZKL_RACE_RACING && (connector->dials < 0 || zkl_race_over(race, now))) {
        if (connector->dials < 0) {
            zkl_race_give_up(race, now);
        }
        note_race_problem(connector);
        end_attempts(connector, now);
    }
    int64_t next = zkl_race_wake_at(race);
    *wake_at = next < *wake_at ? next : *wake_at;
    return false;
}

int zkl_connector_take(zkl_connector *connector, zkl_server **server)
{
    int fd = connector->winner.dial.fd;
    connector->winner.dial.fd = -1;
    connector->problem[0] = '\0';
    zkl_server_list_free(&connector->replaced);
    zkl_race_try(&connector->race, zkl_clock(), connector->took);
    *server = &connector->servers.servers[connector->winner.server];
    return fd;
}

bool zkl_connector_replace(zkl_connector *connector, int fd, int socket)
{
    return zkl_listener_replace(connector->listener, fd, socket);
}

void zkl_connector_answered(zkl_connector *connector, int32_t timeout_ms)
{
    if (connector->race.state != ZKL_RACE_TRYING) {
        return;
    }
    zkl_server *server = &connector->servers.servers[connector->winner.server];
    char line[ZKL_MESSAGE_SIZE];
    snprintf(line, sizeof line, "connected to '%s'", server->text);
    connector->log(connector->log_context, ZOO_LOG_LEVEL_INFO, line);
    zkl_server_forget_news(server);
    if (connector->winner.address < server->count) {
        server->addresses[connector->winner.address].late_until = 0;
    }
    zkl_race_answered(&connector->race, zkl_clock(), timeout_ms * (ZKL_SECOND / 1000));
}

bool zkl_connector_overdue(const zkl_connector *connector, int64_t *wake_at)
{
    if (connector->race.state != ZKL_RACE_TRYING) {
        return false;
    }
    if (zkl_clock() < connector->race.answer_by) {
        *wake_at = connector->race.answer_by < *wake_at ? connector->race.answer_by : *wake_at;
        return false;
    }
    return true;
}

void zkl_connector_give_up(zkl_connector *connector)
{
    log_problem(connector, connector->winner.server, "'%s' accepts connections and does not answer",
                text_of(connector, connector->winner.server));
    snprintf(connector->problem, sizeof connector->problem, "no server of '%s' answers", connector->hosts);
}

struct pollfd zkl_connector_poll(const zkl_connector *connector)
{
    return (struct pollfd){.fd = connector->dials, .events = POLLIN};
}

const char *zkl_connector_problem(const zkl_connector *connector)
{
    return connector->problem[0] != '\0' ? connector->problem : NULL;
}

/* --- the object ----------------------------------------------------------------------------------------------------- */

/*
 * Opens the listener and writes connector->addresses. The address stands there twice: with one alone, the C client would pause after
 * each failure. Returns false if there is no loopback or no memory; then errno says which.
 */
static bool open_listener(zkl_connector *connector, const char *chroot)
{
    connector->listener = zkl_listener_open(connector->listener_address);
    if (connector->listener < 0) {
        return false;
    }
    size_t size = (size_t)2 * ZKL_LISTENER_SIZE + strlen(chroot);
    connector->addresses = zkl_alloc(size);
    if (connector->addresses == NULL) {
        errno = ENOMEM;
        return false;
    }
    const char *address = connector->listener_address;
    snprintf(connector->addresses, size, "%s,%s%s", address, address, chroot);
    return true;
}

zkl_connector *zkl_connector_new(const char *servers, int32_t session_timeout_ms, uint64_t random,
                                 zkl_connector_log_fn log, void *log_context, char *message)
{
    snprintf(message, ZKL_MESSAGE_SIZE, "not enough memory for a client"); /* unless another message is written below */
    zkl_connector *connector = zkl_alloc(sizeof *connector);
    if (connector == NULL) {
        return NULL;
    }
    connector->listener = connector->dials = connector->winner.dial.fd = -1;
    for (int i = 0; i < ZKL_RACE_MOST_PENDING; i++) {
        connector->attempts[i].dial.fd = -1;
    }
    connector->log = log;
    connector->log_context = log_context;
    size_t length = strcspn(servers, "/");
    connector->hosts = zkl_copy(servers, length);
    int64_t timeout = (int64_t)session_timeout_ms * (ZKL_SECOND / 1000);
    if (connector->hosts == NULL || !zkl_server_list_init(&connector->servers, servers) ||
        !zkl_race_init(&connector->race, connector->servers.count, timeout, random)) {
        goto fail;
    }
    if (open_listener(connector, servers + length)) {
        return connector;
    }
    if (errno != ENOMEM) {
        snprintf(message, ZKL_MESSAGE_SIZE, "cannot listen on loopback, which connections begin with: %s",
                 strerror(errno));
    }
fail:
    zkl_connector_free(connector);
    return NULL;
}

void zkl_connector_free(zkl_connector *connector)
{
    if (connector == NULL) {
        return;
    }
    for (int i = 0; i < ZKL_RACE_MOST_PENDING; i++) {
        zkl_dial_end(&connector->attempts[i].dial);
    }
    zkl_dial_end(&connector->winner.dial);
    stop_dialing(connector);
    zkl_dials_close(connector->listener);
    zkl_race_free(&connector->race);
    zkl_server_list_free(&connector->servers);
    zkl_server_list_free(&connector->replaced);
    zkl_free(connector->addresses);
    zkl_free(connector->hosts);
    zkl_free(connector);
}

/* Returns the index of the server with this text; -1: there is none. */
static int32_t find_server(const zkl_server_list *list, const char *text)
{
    for (int32_t i = 0; i < list->count; i++) {
        if (strcmp(list->servers[i].text, text) == 0) {
            return i;
        }
    }
    return -1;
}

bool zkl_connector_set_servers(zkl_connector *connector, const char *servers, bool *leave)
{
    zkl_race_state state = connector->race.state;
    bool connected = state == ZKL_RACE_TRYING || state == ZKL_RACE_ANSWERED;
    zkl_server_list list = {.servers = NULL};
    char *hosts = zkl_copy(servers, strcspn(servers, "/"));
    bool able = hosts != NULL && zkl_server_list_init(&list, servers);
    int32_t current = able && connected ? find_server(&list, text_of(connector, connector->winner.server)) : -1;
    if (!able || !zkl_race_renew(&connector->race, list.count, current)) {
        zkl_server_list_free(&list);
        zkl_free(hosts);
        return false;
    }
    for (int i = 0; i < ZKL_RACE_MOST_PENDING; i++) {
        zkl_dial_end(&connector->attempts[i].dial);
    }
    stop_dialing(connector);
    if (connector->replaced.servers == NULL) {
        connector->replaced = connector->servers;
    } else {
        zkl_server_list_free(&connector->servers); /* nothing of it was taken */
    }
    connector->servers = list;
    connector->winner.server = current >= 0 ? current : 0;
    zkl_free(connector->hosts);
    connector->hosts = hosts;
    *leave = connected && current < 0;
    return true;
}

bool zkl_connector_connected(const zkl_connector *connector)
{
    return connector->race.state == ZKL_RACE_ANSWERED;
}

const char *zkl_connector_addresses(const zkl_connector *connector)
{
    return connector->addresses;
}

bool zkl_connector_hides(const zkl_connector *connector, const char *line)
{
    static const char delay[] = "Exceeded deadline"; /* since it was called last: the connector has let it wait */
    if (connector->race.state == ZKL_RACE_REACHED && strncmp(line, delay, sizeof delay - 1) == 0) {
        return true;
    }
    const char *found = strstr(line, connector->listener_address);
    return found != NULL && strspn(found + strlen(connector->listener_address), "0123456789") == 0;
}

/* servers: which servers the connector of a client is to use. */
#include "client_object.h"

#include <stdio.h>
#include <string.h>

char *zkl_shuffle_servers(const char *servers)
{
    char *copy = zkl_copy(servers, strlen(servers));
    if (copy == NULL) {
        return NULL;
    }
    const char *all[64];
    size_t lengths[64];
    uint32_t count = 0;
    const char *end = servers + strcspn(servers, "/");
    for (const char *server = servers; server < end && count < 64; count++) {
        lengths[count] = strcspn(server, ",/");
        all[count] = server;
        server += lengths[count] + 1;
    }
    if (count < 2 || count == 64) {
        return copy;
    }
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t random;
        zkl_random(&random, sizeof random);
        uint32_t j = random % (i + 1);
        const char *server = all[i];
        size_t length = lengths[i];
        all[i] = all[j];
        lengths[i] = lengths[j];
        all[j] = server;
        lengths[j] = length;
    }
    char *to = copy;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(to, all[i], lengths[i]);
        to += lengths[i];
        *to++ = ',';
    }
    memcpy(to - 1, end, strlen(end) + 1);
    return copy;
}

void zkl_servers_free(zkl_servers *servers)
{
    zkl_free(servers->given);
    zkl_free(servers->followed);
}

/* Returns the servers of `first`, and behind them those of `given` that are not among them, with the chroot of `given`. */
static char *join(const char *first, const char *given)
{
    size_t length = strlen(first);
    char *joined = zkl_alloc(length + strlen(given) + 2);
    if (joined == NULL) {
        return NULL;
    }
    memcpy(joined, first, length);
    while (*given != '\0' && *given != '/') {
        size_t here = strcspn(given, ",/");
        if (!zkl_has_member(first, given, here)) {
            if (length > 0) {
                joined[length++] = ',';
            }
            memcpy(joined + length, given, here);
            length += here;
        }
        given += here + (given[here] == ',');
    }
    memcpy(joined + length, given, strlen(given) + 1);
    return joined;
}

bool zkl_servers_take(zkl_client *client)
{
    zkl_servers *servers = &client->servers;
    bool leave = false;
    pthread_mutex_lock(&client->desk.mutex);
    if (servers->changed) {
        char *taken = join(servers->followed != NULL ? servers->followed : "", servers->given);
        /* memory is short: the next turn tries again */
        servers->changed = taken == NULL || !zkl_connector_set_servers(client->connector, taken, &leave);
        zkl_free(taken);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    return leave;
}

/* Returns whether each server of one list is in the other one. */
static bool is_part(const char *one, const char *other)
{
    while (*one != '\0') {
        size_t here = strcspn(one, ",");
        if (!zkl_has_member(other, one, here)) {
            return false;
        }
        one += here + (one[here] == ',');
    }
    return true;
}

/*
 * Takes `servers`, and returns true, unless they are followed already, or the program has set others since the connection was begun: the
 * servers at its other end may not be those that the program means now.
 */
static bool follow(zkl_client *client, char *servers)
{
    zkl_servers *known = &client->servers;
    pthread_mutex_lock(&client->desk.mutex);
    char *before = known->followed;
    bool same = before != NULL && is_part(before, servers) && is_part(servers, before);
    bool set = before == NULL && known->changed;
    if (same || set || !zkl_connector_connected(client->connector)) {
        pthread_mutex_unlock(&client->desk.mutex);
        return false;
    }
    known->followed = servers;
    known->changed = true;
    zkl_desk_unlock_and_wake(&client->desk);
    zkl_free(before);
    return true;
}

/* Returns the port of the first server, with TLS all have the same, and whether one of the own servers is on this machine. */
static void read_given(zkl_client *client, char port[sizeof "65535"], bool *local)
{
    pthread_mutex_lock(&client->desk.mutex);
    *local = zkl_has_loopback(client->servers.given);
    size_t end = strcspn(client->servers.given, ",/");
    size_t begin = end;
    while (begin > 0 && client->servers.given[begin - 1] != ':') {
        begin--;
    }
    snprintf(port, sizeof "65535", "%.*s", (int)(end - begin), client->servers.given + begin);
    pthread_mutex_unlock(&client->desk.mutex);
}

/* Logs once why the servers stay as they are. */
static void tell(zkl_client *client, const char *why)
{
    if (!client->servers.told) {
        char line[ZKL_MESSAGE_SIZE];
        snprintf(line, sizeof line,
                 "cannot follow the configuration of the servers, '%s': %s; the list of servers stays", ZOO_CONFIG_NODE,
                 why);
        zkl_log_add(&client->log, ZOO_LOG_LEVEL_WARN, line);
        client->servers.told = true;
    }
}

bool zkl_client_configured(void *context, int rc, const char *configuration, int32_t length)
{
    zkl_client *client = context;
    if (rc != ZOK) {
        tell(client, zkl_words_of(rc));
        return true;
    }
    char port[sizeof "65535"];
    bool local;
    read_given(client, port, &local);
    char *servers = zkl_members(configuration, length, client->tls_link != NULL ? port : NULL, local);
    char *shuffled = servers != NULL && *servers != '\0' ? zkl_shuffle_servers(servers) : NULL;
    bool able = servers != NULL && (*servers == '\0' || shuffled != NULL);
    if (servers != NULL && *servers == '\0') {
        tell(client, client->tls_link != NULL ? "it names no servers" : "it names no ports for clients");
    } else if (shuffled != NULL && follow(client, shuffled)) {
        shuffled = NULL;
        char line[ZKL_MESSAGE_SIZE];
        snprintf(line, sizeof line, "the servers of the ensemble are '%.400s'", servers);
        zkl_log_add(&client->log, ZOO_LOG_LEVEL_INFO, line);
    }
    zkl_free(shuffled);
    zkl_free(servers);
    return able;
}

bool zkl_client_set_servers(zkl_client *client, const char *servers)
{
    char *shuffled = zkl_client_forked(client) ? NULL : zkl_shuffle_servers(servers);
    if (shuffled == NULL) {
        return false;
    }
    pthread_mutex_lock(&client->desk.mutex);
    if (zkl_life_has_reached(&client->desk.life, ZKL_LIFE_CLOSE_WANTED)) {
        pthread_mutex_unlock(&client->desk.mutex);
        zkl_free(shuffled);
        return false;
    }
    zkl_servers *known = &client->servers;
    char *given = known->given, *followed = known->followed;
    known->given = shuffled;
    known->followed = NULL;
    known->changed = true;
    zkl_desk_unlock_and_wake(&client->desk);
    zkl_free(given);
    zkl_free(followed);
    return true;
}

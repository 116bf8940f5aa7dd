/* servers: which servers the connector of a client is to use. */
#include "client_object.h"

#include <stdio.h>
#include <string.h>

/*
 * Writes the servers of a connection string to `to`, each with a comma behind it: in random order, so that clients spread over them, and
 * without those that `others` has. Returns the end of the text; NULL: there is no memory.
 */
static char *write_shuffled(char *to, const char *servers, const char *others)
{
    typedef struct {
        const char *text;
        size_t length;
    } server;
    const char *end = servers + strcspn(servers, "/");
    server *all = zkl_alloc((size_t)(end - servers) * sizeof *all);
    if (all == NULL) {
        return NULL;
    }
    uint32_t count = 0;
    for (const char *at = servers; at < end; at += all[count - 1].length + 1) {
        all[count++] = (server){at, strcspn(at, ",/")};
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t random;
        zkl_random(&random, sizeof random);
        const server last = all[i - 1];
        all[i - 1] = all[random % i];
        all[random % i] = last;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!zkl_has_member(others, all[i].text, all[i].length)) {
            memcpy(to, all[i].text, all[i].length);
            to += all[i].length;
            *to++ = ',';
        }
    }
    zkl_free(all);
    return to;
}

char *zkl_servers_text(const char *followed, const char *given)
{
    char *text = zkl_alloc(strlen(followed) + strlen(given) + 3);
    char *end = text != NULL ? write_shuffled(text, followed, "") : NULL;
    end = end != NULL ? write_shuffled(end, given, followed) : NULL;
    if (end == NULL) {
        zkl_free(text);
        return NULL;
    }
    const char *chroot = given + strcspn(given, "/");
    memcpy(end > text ? end - 1 : end, chroot, strlen(chroot) + 1);
    return text;
}

void zkl_servers_free(zkl_servers *servers)
{
    zkl_free(servers->given);
    zkl_free(servers->followed);
}

bool zkl_servers_take(zkl_client *client)
{
    zkl_servers *servers = &client->servers;
    bool leave = false;
    pthread_mutex_lock(&client->desk.mutex);
    if (servers->changed) {
        char *taken = zkl_servers_text(servers->followed != NULL ? servers->followed : "", servers->given);
        /* memory is short: the next turn tries again */
        servers->changed = taken == NULL || !zkl_connector_set_servers(client->connector, taken, &leave);
        zkl_free(taken);
    }
    pthread_mutex_unlock(&client->desk.mutex);
    return leave;
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
    bool same = before != NULL && strcmp(before, servers) == 0;
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
    if (servers == NULL) {
        return false;
    }
    if (*servers == '\0') {
        tell(client, client->tls_link != NULL ? "it names no servers" : "it names no ports for clients");
        zkl_free(servers);
        return true;
    }
    char line[ZKL_MESSAGE_SIZE];
    snprintf(line, sizeof line, "the servers of the ensemble are '%.400s'", servers);
    if (follow(client, servers)) {
        zkl_log_add(&client->log, ZOO_LOG_LEVEL_INFO, line);
    } else {
        zkl_free(servers);
    }
    return true;
}

bool zkl_client_set_servers(zkl_client *client, const char *servers)
{
    char *copy = zkl_client_forked(client) ? NULL : zkl_copy(servers, strlen(servers));
    if (copy == NULL) {
        return false;
    }
    pthread_mutex_lock(&client->desk.mutex);
    if (zkl_life_has_reached(&client->desk.life, ZKL_LIFE_CLOSE_WANTED)) {
        pthread_mutex_unlock(&client->desk.mutex);
        zkl_free(copy);
        return false;
    }
    zkl_servers *known = &client->servers;
    char *given = known->given, *followed = known->followed;
    known->given = copy;
    known->followed = NULL;
    known->changed = true;
    zkl_desk_unlock_and_wake(&client->desk);
    zkl_free(given);
    zkl_free(followed);
    return true;
}

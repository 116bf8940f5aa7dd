/*
 * configuration: the ensemble's own configuration.
 *
 * The C client does not put the chroot before the path of this node, and knows the watch by the server's path. So a chroot changes
 * nothing, and the watch outlasts a connection. It is read on each connection all the same: it may be a server of another version.
 */
#include "configuration.h"

#include <string.h>

static void read_configuration(void *owner);

static void on_changed(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    (void)path;
    zkl_configuration *configuration = context;
    if (type != ZOO_SESSION_EVENT) {
        configuration->wire->stats.notifications++;
        configuration->wanted = true;
        read_configuration(configuration);
    }
}

static void on_read(void *owner, int rc, const zkl_reply *reply)
{
    zkl_configuration *configuration = owner;
    const zkl_session_host *host = &configuration->wire->host;
    bool lost = zkl_outcome_unknown(rc); /* it is read on the next connection */
    if (rc == ZTHROTTLEDOP || (!lost && !host->configured(host->context, rc, reply->data, reply->length))) {
        configuration->wanted = true;
        zkl_try_later(configuration->wire);
    }
}

/* Reads it if that is wanted and possible; otherwise later. */
static void read_configuration(void *owner)
{
    zkl_configuration *configuration = owner;
    zkl_wire *wire = configuration->wire;
    if (!configuration->wanted || !wire->usable) {
        return;
    }
    const zkl_ask ask = {.on_reply = on_read, .owner = configuration};
    if (zkl_wire_has_room(wire) && zkl_send_configuration(wire, &ask, on_changed, configuration) == ZOK) {
        configuration->wanted = false;
    } else {
        zkl_try_later(wire);
    }
}

static void on_ready(void *owner)
{
    zkl_configuration *configuration = owner;
    configuration->wanted = true;
    read_configuration(configuration);
}

const zkl_session_listener zkl_configuration_listener = {.ready = on_ready, .retry = read_configuration};

bool zkl_configuration_watched(const zkl_wire *wire, const char *path, bool children)
{
    return wire->host.configured != NULL && !children && wire->chroot_length == 0 && strcmp(path, ZOO_CONFIG_NODE) == 0;
}

/*
 * dials: the sockets of a connector (csrc/client/dial.h), and the names of its servers, in a simulated network, by the linker's --wrap.
 * The connector, its race and its list of servers are the real ones.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "client/dial.h"
#include "sim_zookeeper.h"

/* The most connections that are being made at once, by all clients. */
#define MOST_DIALS 512

/* Those that are being made. */
static zkl_dial *dialing[MOST_DIALS];

int __wrap_zkl_listener_open(char address[ZKL_LISTENER_SIZE]);
bool __wrap_zkl_listener_replace(int listener, int fd, int socket);
int __wrap_zkl_dials_open(void);
bool __wrap_zkl_dial_begin(zkl_dial *dial, int dials, const zkl_address *address);
zkl_dial *__wrap_zkl_dials_next(int dials, int *error);
int __wrap_zkl_dial_take(zkl_dial *dial, int dials);
void __wrap_zkl_dial_end(zkl_dial *dial);
void __wrap_zkl_dials_close(int fd);
int __wrap_zkl_server_resolve(zkl_server *server, int64_t now);

/* The C client's address. It resolves, and nobody listens there. */
int __wrap_zkl_listener_open(char address[ZKL_LISTENER_SIZE])
{
    snprintf(address, ZKL_LISTENER_SIZE, "127.0.0.1:1");
    return 0;
}

bool __wrap_zkl_listener_replace(int listener, int fd, int socket)
{
    (void)listener;
    (void)fd;
    (void)socket;
    return true; /* the C client has the connection that was handed over */
}

int __wrap_zkl_dials_open(void)
{
    return sim_dials_descriptor();
}

/* A simulated address is the text of its server. */
int __wrap_zkl_server_resolve(zkl_server *server, int64_t now)
{
    (void)now;
    if (!sim_resolves(server->text)) {
        return EAI_NONAME;
    }
    if (server->addresses == NULL) {
        server->addresses = zkl_alloc(sizeof *server->addresses);
        if (server->addresses == NULL) {
            return EAI_MEMORY;
        }
        const char *text = server->text;
        memcpy(&server->addresses->address, &text, sizeof text);
        server->count = 1;
    }
    return 0;
}

bool __wrap_zkl_dial_begin(zkl_dial *dial, int dials, const zkl_address *address)
{
    (void)dials;
    const char *text;
    memcpy(&text, &address->address, sizeof text);
    for (int i = 0; i < MOST_DIALS; i++) {
        if (dialing[i] == NULL) {
            dialing[i] = dial;
            dial->fd = sim_dial(text);
            return true;
        }
    }
    errno = EMFILE;
    return false;
}

/* Returns the place of a connection of this client that is decided; -1: there is none. */
static int decided(int dials)
{
    for (int i = 0; i < MOST_DIALS; i++) {
        if (dialing[i] != NULL && sim_dial_is_of(dialing[i]->fd, dials) &&
            sim_dial_state(dialing[i]->fd) != SIM_DIAL_PENDING) {
            return i;
        }
    }
    return -1;
}

zkl_dial *__wrap_zkl_dials_next(int dials, int *error)
{
    int place = decided(dials);
    if (place < 0) {
        return NULL;
    }
    *error = sim_dial_state(dialing[place]->fd) == SIM_DIAL_CONNECTED ? 0 : ECONNREFUSED;
    return dialing[place];
}

static void forget(const zkl_dial *dial)
{
    for (int i = 0; i < MOST_DIALS; i++) {
        dialing[i] = dialing[i] == dial ? NULL : dialing[i];
    }
}

int __wrap_zkl_dial_take(zkl_dial *dial, int dials)
{
    (void)dials;
    int fd = dial->fd;
    forget(dial);
    dial->fd = -1;
    sim_hand_over(fd);
    return fd;
}

void __wrap_zkl_dial_end(zkl_dial *dial)
{
    if (dial->fd >= 0) {
        forget(dial);
        sim_hang_up(dial->fd);
        dial->fd = -1;
    }
}

void __wrap_zkl_dials_close(int fd)
{
    (void)fd;
}

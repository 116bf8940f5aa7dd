/*
 * dials: the sockets of a connector (csrc/net/dial.h), and its resolver (resolver.h), in a simulated network, by the linker's --wrap.
 * The connector, its race and its list of servers are the real ones.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "client/client.h"
#include "net/dial.h"
#include "os/os.h"
#include "sim_zookeeper.h"

/* The most connections that are being made at once, by all clients. */
#define MOST_DIALS 512

/* Those that are being made. */
static zkl_dial *dialing[MOST_DIALS];

int __wrap_zkl_listener_open(char address[ZKL_LISTENER_SIZE]);
bool __wrap_zkl_listener_replace(int listener, int fd, int socket);
int __wrap_zkl_dials_open(void);
bool __wrap_zkl_dials_add(int dials, int fd);
void __wrap_zkl_dials_remove(int dials, int fd);
bool __wrap_zkl_dial_begin(zkl_dial *dial, int dials, const zkl_address *address);
zkl_dial *__wrap_zkl_dials_next(int dials, int *error);
int __wrap_zkl_dial_take(zkl_dial *dial, int dials);
void __wrap_zkl_dial_end(zkl_dial *dial);
void __wrap_zkl_dials_close(int fd);
zkl_resolution *__wrap_zkl_resolution_begin(const char *host, const char *port, bool numeric);
const zkl_answer *__wrap_zkl_resolution_answer(zkl_resolution *resolution);
int __wrap_zkl_resolution_fd(const zkl_resolution *resolution);
void __wrap_zkl_resolution_end(zkl_resolution *resolution);

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

/* What is added are names that are being resolved: sim_poll knows when they are answered. */
bool __wrap_zkl_dials_add(int dials, int fd)
{
    (void)dials;
    (void)fd;
    return true;
}

void __wrap_zkl_dials_remove(int dials, int fd)
{
    (void)dials;
    (void)fd;
}

/* A simulated address is the text of its server. */
struct zkl_resolution {
    struct sockaddr_storage text;
    struct addrinfo address;
    zkl_answer answer;
};

zkl_resolution *__wrap_zkl_resolution_begin(const char *host, const char *port, bool numeric)
{
    (void)numeric;
    zkl_resolution *resolution = zkl_alloc(sizeof *resolution);
    if (resolution != NULL) {
        snprintf((char *)&resolution->text, sizeof resolution->text, "%s:%s", host, port);
        resolution->address.ai_addr = (struct sockaddr *)&resolution->text;
        resolution->address.ai_addrlen = sizeof resolution->text;
    }
    return resolution;
}

const zkl_answer *__wrap_zkl_resolution_answer(zkl_resolution *resolution)
{
    if (resolution->answer.at == 0) {
        sim_name found = sim_resolve((const char *)&resolution->text);
        if (found == SIM_NAME_PENDING) {
            return NULL;
        }
        resolution->answer = (zkl_answer){
            .error = found == SIM_NAME_FOUND ? 0 : EAI_NONAME, .found = &resolution->address, .at = zkl_clock()};
    }
    return &resolution->answer;
}

int __wrap_zkl_resolution_fd(const zkl_resolution *resolution)
{
    (void)resolution;
    return -1;
}

void __wrap_zkl_resolution_end(zkl_resolution *resolution)
{
    zkl_free(resolution);
}

bool __wrap_zkl_dial_begin(zkl_dial *dial, int dials, const zkl_address *address)
{
    (void)dials;
    for (int i = 0; i < MOST_DIALS; i++) {
        if (dialing[i] == NULL) {
            dialing[i] = dial;
            dial->fd = sim_dial((const char *)&address->address);
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
    sim_note_answers();
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

/*
 * The pipe that wakes the I/O thread, when a thread that is about to write to it stands still until the client was closed and joined.
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../csrc/base/base.h"
#include "../../csrc/client/client.h"
#include "../../csrc/os/os.h"

#define PATIENCE (30 * ZKL_SECOND)

/* --- a writer that stands still, by the linker's --wrap ---------------------------------------------------------------------- */

static sem_t stands_still, goes_on;
static _Thread_local bool stop_before_write, go_on_at_poll;
static atomic_int to_write = -1; /* the descriptor to which the writer is about to write */
static atomic_bool closed_early;

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (!stop_before_write) {
        return __real_write(fd, bytes, size);
    }
    stop_before_write = false;
    atomic_store(&to_write, fd);
    sem_post(&stands_still);
    sem_wait(&goes_on);
    atomic_store(&to_write, -1);
    return __real_write(fd, bytes, size);
}

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
    if (fd == atomic_load(&to_write)) {
        atomic_store(&closed_early, true);
    }
    return __real_close(fd);
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (go_on_at_poll) {
        go_on_at_poll = false;
        sem_post(&goes_on);
    }
    return __real_poll(fds, count, timeout);
}

/* --- the test -------------------------------------------------------------------------------------------------------- */

static void wait_for_notification(zkl_client *client)
{
    struct pollfd fd = {.fd = zkl_client_fd(client), .events = POLLIN};
    poll(&fd, 1, 1000);
    bool changed;
    while (zkl_client_next(client, &changed) != 0) {
    }
}

#include "real_client.h" /* uses the functions above */

static void *close_slowly(void *client)
{
    stop_before_write = true;
    zkl_client_close(client);
    return NULL;
}

static void a_late_byte_goes_to_no_other_descriptor(void **state)
{
    (void)state;
    char message[ZKL_MESSAGE_SIZE];
    const zkl_client_options options = {.servers = "127.0.0.1:1", .session_timeout_ms = 10000};
    zkl_client *client = zkl_client_open(&options, message, NULL);
    assert_non_null(client);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, close_slowly, client), 0);
    sem_wait(&stands_still);
    wait_for_state(client, ZKL_STATE_CLOSED); /* the I/O thread looks by itself whether it is to close */
    go_on_at_poll = true;
    zkl_client_join(client);
    if (go_on_at_poll) {
        sem_post(&goes_on);
    }
    pthread_join(writer, NULL);
    assert_false(atomic_load(&closed_early));
    close_client(client);
}

static void gives_all_memory_back(void **state)
{
    (void)state;
    assert_int_equal(zkl_memory_in_use(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_byte_goes_to_no_other_descriptor),
        cmocka_unit_test(gives_all_memory_back),
    };
    sem_init(&stands_still, 0, 0);
    sem_init(&goes_on, 0, 0);
    return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}

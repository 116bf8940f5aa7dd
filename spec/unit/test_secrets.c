/*
 * Credentials do not stay in the heap: zklock frees no memory that still contains a credential. Copies that the C client makes are
 * not checked.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../csrc/base/base.h"
#include "../../csrc/client/client.h"
#include "../../csrc/os/os.h"

#define PATIENCE (30 * ZKL_SECOND)
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char SECRET[] = "user:a password that nobody else has";

/* --- free, replaced by the linker's --wrap -------------------------------------------------------------------------------- */

static _Atomic bool left_behind;

void __real_free(void *memory);
void __wrap_free(void *memory);

void __wrap_free(void *memory)
{
    if (memory != NULL && memmem(memory, malloc_usable_size(memory), SECRET, sizeof SECRET - 1) != NULL) {
        atomic_store(&left_behind, true);
    }
    __real_free(memory);
}

/* --- the tests --------------------------------------------------------------------------------------------------------- */

static const zkl_auth auths[] = {
    {"digest", SECRET, (int32_t)sizeof SECRET - 1},
    {"digest", SECRET, (int32_t)sizeof SECRET - 1},
};

/* Without this the other tests would prove nothing. */
static void notices_what_is_left(void **state)
{
    (void)state;
    char *copy = zkl_copy(SECRET, sizeof SECRET - 1);
    assert_non_null(copy);
    zkl_free(copy);
    assert_true(atomic_exchange(&left_behind, false));
}

static void leaves_no_credential_of_an_engine(void **state)
{
    (void)state;
    const zkl_engine_config config = {
        .session.servers = "127.0.0.1:1",
        .session.session_timeout_ms = 5000,
        .session.lease = true,
        .session.auths = auths,
        .session.auth_count = (int32_t)COUNT(auths),
    };
    const zkl_host host = {0};
    zkl_engine *engine = NULL;
    for (int64_t successes = 0; engine == NULL; successes++) {
        assert_true(successes < 1000);
        zkl_memory_fail_after(successes);
        engine = zkl_engine_new(&config, &host);
        zkl_memory_fail_after(-1);
    }
    zkl_engine_free(engine);
    assert_false(atomic_load(&left_behind));
    assert_int_equal(zkl_memory_in_use(), 0);
}

static void leaves_no_credential_of_a_client(void **state)
{
    (void)state;
    const zkl_client_options options = {
        .servers = "127.0.0.1:1",
        .session_timeout_ms = 5000,
        .lease = true,
        .auths = auths,
        .auth_count = (int32_t)COUNT(auths),
    };
    char message[ZKL_MESSAGE_SIZE];
    zkl_client *client = zkl_client_open(&options, message, NULL);
    assert_non_null(client);
    zkl_client_close(client);
    zkl_code code;
    for (int64_t until = zkl_clock() + PATIENCE; zkl_client_state(client, message, &code) != ZKL_STATE_CLOSED;) {
        assert_true(zkl_clock() < until);
        zkl_client_wait(client, ZKL_SECOND / 10);
        for (bool changed = true; zkl_client_next(client, &changed) != 0 || changed;) {
        }
    }
    zkl_client_join(client);
    zkl_client_release(client);
    assert_false(atomic_load(&left_behind));
    assert_int_equal(zkl_memory_in_use(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_what_is_left),
        cmocka_unit_test(leaves_no_credential_of_an_engine),
        cmocka_unit_test(leaves_no_credential_of_a_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

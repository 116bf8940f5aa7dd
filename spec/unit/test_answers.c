/*
 * Answers of a server that the C client does not check. Fixed errors, a line each:
 *   - a name of negative length in a list arrives as NULL, and was compared;
 *   - a count of names below zero was taken for memory of nearly 2^64 bytes, and the allocation failed.
 * An acl is shown although parts are missing, too.
 * Answers that need an engine are in the corpus of fuzz_server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../csrc/zk/zk.h"

static bool sound(const char *first, const char *second, int32_t count)
{
    char *names[2] = {(char *)(uintptr_t)first, (char *)(uintptr_t)second};
    const struct String_vector list = {count, names};
    return zkl_list_is_sound(&list);
}

static void takes_any_name_that_a_node_can_have(void **state)
{
    (void)state;
    const struct String_vector none = {0, NULL};
    assert_true(zkl_list_is_sound(&none));
    assert_true(sound("lock-0000000001", "\xff\xfe", 2));
}

static void takes_no_name_that_no_node_can_have(void **state)
{
    (void)state;
    assert_false(sound("lock-0000000001", NULL, 2));
    assert_false(sound("", "lock-0000000001", 2));
    assert_false(sound("lock-0000000001", "a/lock-0000000001", 2));
    assert_false(sound("lock-0000000001", NULL, -1));
    const struct String_vector missing = {3, NULL};
    assert_false(zkl_list_is_sound(&missing));
}

static void asks_for_no_memory_beyond_what_there_can_be(void **state)
{
    (void)state;
    int64_t before = zkl_memory_in_use();
    assert_null(zkl_alloc(SIZE_MAX));
    assert_null(zkl_alloc(SIZE_MAX - 7));
    assert_int_equal(zkl_memory_in_use(), before);
}

static void check_acl(const struct ACL_vector *acl, const char *expected)
{
    int32_t length;
    char *text = zkl_acl_text(acl, &length);
    assert_string_equal(text, expected);
    assert_int_equal(length, strlen(expected));
    zkl_free(text);
}

static void makes_text_of_any_acl(void **state)
{
    (void)state;
    char scheme[] = "digest";
    char id[] = "fleet:aGFzaA==";
    struct ACL entries[] = {{31, {scheme, id}}, {1, {scheme, NULL}}, {-1, {NULL, id}}, {0, {NULL, NULL}}};
    check_acl(&(struct ACL_vector){1, entries}, "digest:fleet:aGFzaA==:rwcda");
    check_acl(&(struct ACL_vector){4, entries}, "digest:fleet:aGFzaA==:rwcda,digest::r,:fleet:aGFzaA==:rwcda,::");
    check_acl(&(struct ACL_vector){0, NULL}, "");
    check_acl(&(struct ACL_vector){2, NULL}, "");
    check_acl(&(struct ACL_vector){-1, entries}, "");
    check_acl(NULL, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_any_name_that_a_node_can_have),
        cmocka_unit_test(takes_no_name_that_no_node_can_have),
        cmocka_unit_test(asks_for_no_memory_beyond_what_there_can_be),
        cmocka_unit_test(makes_text_of_any_acl),
    };
    return cmocka_run_group_tests_name("answers", tests, NULL, NULL);
}

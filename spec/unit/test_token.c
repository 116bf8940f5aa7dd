/*
 * test_token: a token's text, and that it is ordered as the token is: by bytes, and in a locale that orders letters otherwise.
 */
#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <locale.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const char *text_of(int64_t number, int32_t grants, char text[ZKL_TOKEN_SIZE])
{
    zkl_token_format((zkl_token){number, grants}, text);
    return text;
}

static void has_a_fixed_width(void **state)
{
    (void)state;
    char text[ZKL_TOKEN_SIZE];
    assert_string_equal(text_of(0, 0, text), "");
    assert_string_equal(text_of(1, 0, text), "0000000000000000001-0000000000");
    assert_string_equal(text_of(INT64_C(0x900000abc), 16, text), "0000000038654708412-0000000016");
    assert_string_equal(text_of(INT64_MAX, INT32_MAX, text), "9223372036854775807-2147483647");
    assert_int_equal(strlen(text), ZKL_TOKEN_SIZE - 1);
}

/* Numbers around which the text changes: powers of ten and of two, and numbers that are special in hexadecimal. */
static int numbers(int64_t *into)
{
    int count = 0;
    for (int64_t power = 1; power <= INT64_MAX / 10; power *= 10) {
        into[count++] = power;
        into[count++] = power * 10 - 1;
    }
    for (int bit = 4; bit < 63; bit++) {
        into[count++] = INT64_C(1) << bit;
        into[count++] = (INT64_C(1) << bit) + (INT64_C(1) << (bit - 4)) * 10;
    }
    into[count++] = 0xa9;
    into[count++] = 0xaa;
    into[count++] = 0xab;
    into[count++] = INT64_MAX;
    return count;
}

static int sign(int64_t value)
{
    return (value > 0) - (value < 0);
}

/* Whether the texts of all pairs of tokens are in the order of the tokens. */
static void assert_ordered(int (*compare)(const char *, const char *))
{
    int64_t all[256];
    int count = numbers(all);
    assert_true(count <= COUNT(all));
    static const int32_t grants[] = {0, 9, 10, 0xaa, 0xab, INT32_MAX};
    static char texts[COUNT(all) * COUNT(grants)][ZKL_TOKEN_SIZE];
    for (int i = 0; i < count * COUNT(grants); i++) {
        int64_t number = all[i / COUNT(grants)];
        int32_t served = grants[i % COUNT(grants)];
        text_of(number, served, texts[i]);
        for (int j = 0; j <= i; j++) {
            int64_t other_number = all[j / COUNT(grants)];
            int32_t other_served = grants[j % COUNT(grants)];
            int expected = number != other_number ? (number > other_number ? 1 : -1) : sign(served - other_served);
            if (sign(compare(texts[i], texts[j])) != expected) {
                fail_msg("'%s' and '%s' compare as %d", texts[i], texts[j], sign(compare(texts[i], texts[j])));
            }
        }
    }
}

static void is_ordered_by_bytes(void **state)
{
    (void)state;
    assert_ordered(strcmp);
}

static void is_ordered_in_danish(void **state)
{
    (void)state;
    char directory[4096];
    FILE *tool = popen("tools/locale.sh da_DK", "r"); /* NOLINT(cert-env33-c) */
    assert_non_null(tool);
    assert_non_null(fgets(directory, sizeof directory, tool));
    assert_int_equal(pclose(tool), 0);
    directory[strcspn(directory, "\n")] = '\0';
    setenv("LOCPATH", directory, 1);                       /* NOLINT(concurrency-mt-unsafe) */
    assert_non_null(setlocale(LC_COLLATE, "da_DK.UTF-8")); /* NOLINT(concurrency-mt-unsafe) */
    assert_true(strcoll("aa", "z") > 0);
    assert_true(strcoll("00000009000000aa-00000000", "00000009000000ab-00000000") > 0); /* hexadecimal digits */
    assert_ordered(strcoll);
    setlocale(LC_COLLATE, "C"); /* NOLINT(concurrency-mt-unsafe) */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_a_fixed_width),
        cmocka_unit_test(is_ordered_by_bytes),
        cmocka_unit_test(is_ordered_in_danish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

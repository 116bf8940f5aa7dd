/* The servers of an ensemble's configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "net/members.h"

typedef struct {
    const char *configuration;
    const char *servers;  /* with each server's own port */
    const char *with_tls; /* with the port 2281 */
} row;

static const row rows[] = {
    {"", "", ""},
    {"version=0", "", ""},
    {"server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888:observer;0.0.0.0:2182\nversion=100000000",
     "zk1:2181,zk2:2182", "zk1:2281,zk2:2281"},
    /* the address for clients counts, and without one the quorum's */
    {"server.1=zk1:2888:3888:participant;10.0.0.1:2181\nserver.2=zk2:2888:3888;2181\nserver.3=zk3:2888:3888;:2181",
     "10.0.0.1:2181,zk2:2181,zk3:2181", "10.0.0.1:2281,zk2:2281,zk3:2281"},
    {"server.1=zk1:2888:3888:participant;[0:0:0:0:0:0:0:0]:2181\nserver.2=zk2:2888:3888:participant;[::]:2181",
     "zk1:2181,zk2:2181", "zk1:2281,zk2:2281"},
    {"server.1=[2001:db8::1]:2888:3888:participant;2181\nserver.2=zk2:1:2;[2001:db8:0:0:0:0:0:2]:2181",
     "[2001:db8::1]:2181,[2001:db8:0:0:0:0:0:2]:2181", "[2001:db8::1]:2281,[2001:db8:0:0:0:0:0:2]:2281"},
    /* several addresses of a server */
    {"server.1=zk1a:2888:3888|[::2]:2889:3889|zk1c:1:2:participant;0.0.0.0:2181\n", "zk1a:2181,[::2]:2181,zk1c:2181",
     "zk1a:2281,[::2]:2281,zk1c:2281"},
    {"server.1=zk1a:2888:3888|zk1b:2888:3888:participant;zk1:2181", "zk1:2181", "zk1:2281"},
    /* a static configuration; later servers also name a port for TLS */
    {"server.1=zk1:2888:3888:participant\nserver.2=zk2:2888:3888:participant\nversion=0", "", "zk1:2281,zk2:2281"},
    {"server.1=zk1:2888:3888:participant;0.0.0.0:2181;0.0.0.0:2381\nserver.2=zk2:1:2:participant;;0.0.0.0:2381",
     "zk1:2181", "zk1:2281,zk2:2281"},
    /* clients without TLS are let in on the server's own machine only */
    {"server.1=zk1:1:2;127.0.0.1:2181\nserver.2=zk2:1:2;localhost:2181\nserver.3=zk3:1:2;[0:0:0:0:0:0:0:1]:2181",
     "127.0.0.1:2181,localhost:2181,[0:0:0:0:0:0:0:1]:2181", "zk1:2281,zk2:2281,zk3:2281"},
    {"server.1=127.0.0.1:1:2;127.0.0.1:2181", "127.0.0.1:2181", "127.0.0.1:2281"},
    /* the same server twice, other lines, other line ends */
    {"server.1=zk1:1:2;2181\r\ngroup.1=1:2\nserver.2=zk1:3:4;2181 \n\nweight.1=1\nserver.3=zk3:1:2;2181",
     "zk1:2181,zk3:2181", "zk1:2281,zk3:2281"},
    /* what no server writes */
    {"server.1=zk1:1:2;0\nserver.2=zk2:1:2;65536\nserver.3=zk3:1:2;x\nserver.4=zk4:1:2;-1\nserver.5=zk5:1:2;021811", "",
     "zk1:2281,zk2:2281,zk3:2281,zk4:2281,zk5:2281"},
    {"server.1=zk1,evil:1:2;2181\nserver.2=zk2/root:1:2;2181\nserver.3=[zk3]:1:2;2181\nserver.4=:1:2;2181\nserver.5",
     "", ""},
    {"server.=zk1:1:2;2181\nxserver.1=zk1:1:2;2181\nserver.1=;2181\nserver.1=[::1;2181\nserver.1=0.0.0.0:1:2;2181\n=",
     "", ""},
};
#define ROWS ((int)(sizeof rows / sizeof *rows))

/* In a block of its exact size, so that the address sanitizer sees each byte that is read behind it. */
static char *members(const char *configuration, size_t length, const char *port, bool local)
{
    char *copy = malloc(length > 0 ? length : 1);
    assert_non_null(copy);
    memcpy(copy, configuration, length);
    char *servers = zkl_members(copy, (int32_t)length, port, local);
    assert_non_null(servers);
    free(copy);
    return servers;
}

static void check(const row *each, const char *port, const char *expected)
{
    char *servers = members(each->configuration, strlen(each->configuration), port, true);
    assert_string_equal(servers, expected);
    zkl_free(servers);
}

static void names_the_servers(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        check(&rows[i], NULL, rows[i].servers);
        check(&rows[i], "2281", rows[i].with_tls);
    }
}

/* Each beginning of a configuration gives servers, one "host:port" behind the other, none of them twice. */
static void reads_what_is_cut_off(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        for (size_t length = strlen(rows[i].configuration); length-- > 0;) {
            char *servers = members(rows[i].configuration, length, length % 2 == 0 ? "2281" : NULL, length % 3 != 0);
            for (const char *at = servers; *at != '\0';) {
                size_t here = strcspn(at, ",");
                const char *rest = at[here] == ',' ? at + here + 1 : "";
                assert_non_null(memchr(at, ':', here));
                assert_false(zkl_has_member(rest, at, here));
                assert_true(*rest != '\0' || at[here] == '\0');
                at = rest;
            }
            zkl_free(servers);
        }
    }
}

/* More servers than an ensemble can have do not overflow the list. */
static void bounds_their_number(void **state)
{
    (void)state;
    char text[20000];
    size_t length = 0;
    for (int i = 1; i <= 600; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "server.%d=h%d:1:2;65535\n", i, i);
    }
    char *servers = members(text, length, NULL, true);
    const char *last = strrchr(servers, ',');
    assert_string_equal(last, ",h255:65535");
    zkl_free(servers);
}

/* On the machine of the client there may be a server of another ensemble. */
static void leaves_out_the_own_machine(void **state)
{
    (void)state;
    static const char text[] =
        "server.1=zk1:1:2;127.0.0.1:2181\nserver.2=zk2:1:2;localhost:2181\n"
        "server.3=zk3:1:2;[0:0:0:0:0:0:0:1]:2181\nserver.4=zk4:1:2;2181\nserver.5=[::1]:1:2;2181";
    char *servers = members(text, sizeof text - 1, NULL, false);
    assert_string_equal(servers, "zk4:2181");
    zkl_free(servers);
    servers = members(text, sizeof text - 1, "2281", false);
    assert_string_equal(servers, "zk1:2281,zk2:2281,zk3:2281,zk4:2281");
    zkl_free(servers);
    assert_true(zkl_has_loopback("zk1:2181,127.0.0.1:2182"));
    assert_true(zkl_has_loopback("localhost:2181/root"));
    assert_true(zkl_has_loopback("zk1:2181,[::1]:2181"));
    assert_false(zkl_has_loopback("zk1:2181,zk2:2181/localhost"));
}

static void finds_members(void **state)
{
    (void)state;
    assert_true(zkl_has_member("a:1,b:2/c:3", "a:1", 3));
    assert_true(zkl_has_member("a:1,b:2/c:3", "b:2", 3));
    assert_false(zkl_has_member("a:1,b:2/c:3", "c:3", 3));
    assert_false(zkl_has_member("a:1,b:2/c:3", "a:11", 4));
    assert_false(zkl_has_member("a:11", "a:1", 3));
    assert_false(zkl_has_member("", "a:1", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_servers),   cmocka_unit_test(reads_what_is_cut_off),
        cmocka_unit_test(bounds_their_number), cmocka_unit_test(leaves_out_the_own_machine),
        cmocka_unit_test(finds_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_names: the names of every client that may share a directory, the edges of their numbers, and which node waits for which.
 */
#include "lock/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UUID "0f8fad5b-d9cb-469f-a165-70867728950e"
#define OTHER_UUID "7c9e6679-7425-40de-944b-e07fc1f90ae7"
#define HEX "0f8fad5bd9cb469fa16570867728950e"

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

static void assert_parses(const char *name, zkl_node_kind kind, int32_t sequence)
{
    zkl_node node = zkl_node_parse(name);
    if (node.kind != kind || node.sequence != sequence) {
        fail_msg("\"%s\" gave kind %d number %d, not kind %d number %d", name, (int)node.kind, node.sequence, (int)kind,
                 sequence);
    }
}

static void assert_stranger(const char *name)
{
    zkl_node node = zkl_node_parse(name);
    if (node.kind != ZKL_NODE_STRANGER) {
        fail_msg("\"%s\" gave kind %d number %d, not a stranger", name, (int)node.kind, node.sequence);
    }
}

static void knows_curator(void **state)
{
    (void)state;
    assert_parses("_c_" UUID "-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("_c_" UUID "-__WRIT__0000000007", ZKL_NODE_EXCLUSIVE, 7);
    assert_parses("_c_" UUID "-__READ__0000000008", ZKL_NODE_SHARED, 8);
    assert_parses("_c_" UUID "-lease-0000000003", ZKL_NODE_LEASE, 3);
    assert_parses("lock-0000000001", ZKL_NODE_EXCLUSIVE, 1);
    assert_parses("__READ__0000000001", ZKL_NODE_SHARED, 1);
    assert_parses("lease-0000000001", ZKL_NODE_LEASE, 1);
}

static void knows_go_zookeeper(void **state)
{
    (void)state;
    assert_parses("_c_" HEX "-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
}

static void knows_kazoo(void **state)
{
    (void)state;
    assert_parses(HEX "__lock__0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses(HEX "__rlock__0000000043", ZKL_NODE_SHARED, 43);
    assert_parses(HEX "__lock__-000000005", ZKL_NODE_EXCLUSIVE, -5);
}

static void knows_zk_ruby(void **state)
{
    (void)state;
    assert_parses("ex0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("sh0000000043", ZKL_NODE_SHARED, 43);
    assert_parses("ex-000000005", ZKL_NODE_EXCLUSIVE, -5);
    assert_stranger("index0000000042");
    assert_stranger("push0000000042");
    assert_stranger("ex1");
    assert_stranger("sh2024");
}

static void knows_c_and_java_recipes(void **state)
{
    (void)state;
    assert_parses("x-0100000a5b3c0001-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("x-72057594037927937-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("x--72057594037927937-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("x-0100000a5b3c0001--000000005", ZKL_NODE_EXCLUSIVE, -5);
    assert_parses("x--5--2147483648", ZKL_NODE_EXCLUSIVE, INT32_MIN);
    assert_stranger("x-1-2");
    /* ZooKeeper writes 0 without a hyphen. */
    assert_stranger(HEX "__lock__-000000000");
    assert_stranger("x-0100000a5b3c0001--000000000");
    assert_stranger("x-0000000042");
    assert_stranger("x--0000000042");
    assert_stranger("x---0000000042");
    assert_stranger("x-session-0000000042");
    assert_stranger("y-0100000a5b3c0001-0000000042");
    assert_stranger("ax-0100000a5b3c0001-0000000042");
}

/* xuqil/zk-lock puts the locks of many keys into one directory: `_c_<32hex>-<key>-`. */
static void leaves_other_keys_of_one_directory_alone(void **state)
{
    (void)state;
    assert_stranger("_c_" HEX "-orders-0000000042");
    assert_stranger("_c_" HEX "-my-lock-0000000042");
    assert_stranger("_c_" HEX "-a__lock__0000000042");
    assert_stranger("_c_" HEX "-ex0000000042");
    assert_stranger("_c_" HEX "--lock-0000000042");
    assert_stranger("_c_" UUID "-orders-0000000042");
    assert_stranger("_c_" UUID "-x-0100000a5b3c0001-0000000042");
    assert_stranger("_c_" HEX "-0000000042");
}

static void honours_unknown_prefixes_before_a_marker(void **state)
{
    (void)state;
    assert_parses("worker7-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("_c_not-a-uuid-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("_c_-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("\xff\xfe-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("lock-0000000001-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_stranger("block-0000000042");
    assert_stranger("release-0000000042");
}

static void reads_every_number_that_zookeeper_writes(void **state)
{
    (void)state;
    assert_parses("_c_" UUID "-lock-0000000000", ZKL_NODE_EXCLUSIVE, 0);
    assert_parses("_c_" UUID "-lock-2147483647", ZKL_NODE_EXCLUSIVE, INT32_MAX);
    assert_parses("_c_" UUID "-lock--000000001", ZKL_NODE_EXCLUSIVE, -1);
    assert_parses("_c_" UUID "-lock--2147483648", ZKL_NODE_EXCLUSIVE, INT32_MIN);
    assert_parses("_c_" UUID "-lock--2147483647", ZKL_NODE_EXCLUSIVE, -INT32_MAX);
    assert_parses("_c_" UUID "-__READ__-000000009", ZKL_NODE_SHARED, -9);
    assert_parses("_c_" UUID "-__WRIT__-2147483648", ZKL_NODE_EXCLUSIVE, INT32_MIN);
    assert_parses("_c_" UUID "-lease--000000001", ZKL_NODE_LEASE, -1);
    assert_parses("lock--2147483648", ZKL_NODE_EXCLUSIVE, INT32_MIN);
}

/* ZooKeeper writes %010d. A name with a number of another width may be the name of a lock below a lock. */
static void refuses_other_widths(void **state)
{
    (void)state;
    static const char *const heads[] = {"_c_" UUID "-lock-",
                                        "_c_" UUID "-__WRIT__",
                                        "_c_" UUID "-__READ__",
                                        "_c_" UUID "-lease-",
                                        "lock-",
                                        "import-lock-",
                                        HEX "__lock__",
                                        HEX "__rlock__",
                                        "ex",
                                        "x-0100000a-"};
    static const char *const numbers[] = {
        "7",           "42",        "123456789",   "01234567890", "00000000000000000000000000000042",
        "-7",          "-00000005", "-0000000005", "-0123456789", "-00000000005",
        "-02147483648"};
    for (int32_t i = 0; i < COUNT(heads); i++) {
        for (int32_t j = 0; j < COUNT(numbers); j++) {
            char name[128];
            snprintf(name, sizeof name, "%s%s", heads[i], numbers[j]);
            assert_stranger(name);
        }
    }
    assert_parses("_c_" UUID "-lock-1234567890", ZKL_NODE_EXCLUSIVE, 1234567890);
    assert_parses("_c_" UUID "-lock--999999999", ZKL_NODE_EXCLUSIVE, -999999999);
    assert_parses("_c_" UUID "-lock--1000000000", ZKL_NODE_EXCLUSIVE, -1000000000);
}

static void refuses_numbers_beyond_32_bits(void **state)
{
    (void)state;
    assert_stranger("_c_" UUID "-lock-2147483648");
    assert_stranger("_c_" UUID "-lock--2147483649");
    assert_stranger("_c_" UUID "-lock-4294967296");
    assert_stranger("_c_" UUID "-lock-10000000000");
    assert_stranger("_c_" UUID "-lock-18446744073709551616");
    assert_stranger("_c_" UUID "-lock-99999999999999999999999999999999999999999999");
    assert_stranger("ex2147483648");
}

static void refuses_names_without_a_number_at_the_end(void **state)
{
    (void)state;
    assert_stranger("_c_" UUID "-lock-");
    assert_stranger("_c_" UUID "-lock--");
    assert_stranger("_c_" UUID "-lock---5");
    assert_stranger("_c_" UUID "-lock-+5");
    assert_stranger("_c_" UUID "-lock- 5");
    assert_stranger("_c_" UUID "-lock-0000000042 ");
    assert_stranger("_c_" UUID "-lock-0000000042x");
    assert_stranger("_c_" UUID "-lock-0000000042.bak");
    assert_stranger("_c_" UUID "-lock-0000000042-0000000043");
    assert_stranger("_c_" UUID "-lock-00000x0042");
    assert_stranger("_c_" UUID "-lock-\xd9\xa1\xd9\xa2"); /* Arabic digits */
    assert_stranger("_c_" UUID "-LOCK-0000000042");
    assert_stranger("_c_" UUID "lock-0000000042");
    assert_stranger("_c_" UUID "-__READ__-");
    assert_stranger(HEX "__lock__");
    assert_stranger(HEX "_lock_0000000042");
}

static void refuses_odd_names(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "",
        "0",
        "-",
        "--",
        "-1",
        "lock",
        "lock-",
        "lock--",
        "x",
        "x-",
        "ex",
        "sh",
        "_c_",
        "_c_-",
        "leader",
        "config",
        "0000000042",
        "-0000000042",
        "4294967296",
        "__READ__",
        "\xff",
        "\xc3\x28",
        "\3770000000001",
        "locks",
        "leases",
        "n_0000000042",
        "guid_0000000042",
        "qn-0000000042",
        "election_0000000042",
    };
    for (int32_t i = 0; i < COUNT(odd); i++) {
        assert_stranger(odd[i]);
    }
    assert_stranger("_c_" UUID);
    assert_stranger("_c_" UUID "-");
}

/* A whole id and then another hyphen, or hyphens in other places: neither Curator nor go-zookeeper makes such ids. */
static void tells_ids_from_what_resembles_them(void **state)
{
    (void)state;
    assert_stranger("_c_" UUID "-7-lock-0000000042");
    assert_parses("_c_0f8fad5bd-9cb-469f-a165-70867728950e-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("_c_0f8fad5b-d9cb469fa16570867728950e-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("_c_0f8fad5b-d9cb469fa16570867728950e-my-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("_c_" UUID "x-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_parses("_c_0F8FAD5B-D9CB-469F-A165-70867728950E-lock-0000000042", ZKL_NODE_EXCLUSIVE, 42);
    assert_stranger("_c_0F8FAD5B-D9CB-469F-A165-70867728950E-my-lock-0000000042");
}

static void makes_names_that_it_understands(void **state)
{
    (void)state;
    char name[ZKL_NODE_NAME_SIZE];
    assert_int_equal(zkl_node_prefix(name, ZKL_NODE_EXCLUSIVE, false, UUID), strlen("_c_" UUID "-lock-"));
    assert_string_equal(name, "_c_" UUID "-lock-");
    assert_int_equal(zkl_node_prefix(name, ZKL_NODE_LEASE, false, UUID), strlen("_c_" UUID "-lease-"));
    assert_string_equal(name, "_c_" UUID "-lease-");
    assert_int_equal(zkl_node_prefix(name, ZKL_NODE_SHARED, true, UUID), strlen("_c_" UUID "-__READ__"));
    assert_string_equal(name, "_c_" UUID "-__READ__");
    size_t length = zkl_node_prefix(name, ZKL_NODE_EXCLUSIVE, true, UUID);
    assert_string_equal(name, "_c_" UUID "-__WRIT__");
    assert_true(length + strlen("-2147483648") < ZKL_NODE_NAME_SIZE);
    memcpy(name + length, "-2147483648", sizeof("-2147483648"));
    assert_parses(name, ZKL_NODE_EXCLUSIVE, INT32_MIN);
    assert_true(zkl_node_has_uuid(name, UUID));
}

static void finds_its_uuid(void **state)
{
    (void)state;
    assert_true(zkl_node_has_uuid("_c_" UUID "-lock-0000000042", UUID));
    assert_true(zkl_node_has_uuid("_c_" UUID "-", UUID));
    assert_false(zkl_node_has_uuid("_c_" UUID, UUID));
    assert_false(zkl_node_has_uuid("_c_" UUID "0-lock-0000000042", UUID));
    assert_false(zkl_node_has_uuid("_c_" OTHER_UUID "-lock-0000000042", UUID));
    assert_false(zkl_node_has_uuid(UUID "-lock-0000000042", UUID));
    assert_false(zkl_node_has_uuid("_c_0f8fad5b", UUID));
    assert_false(zkl_node_has_uuid("_c", UUID));
    assert_false(zkl_node_has_uuid("", UUID));
}

/* A contender that passes its lock on is known by the version of its uuid, 8. */
static void tells_who_may_pass_a_lock_on(void **state)
{
    (void)state;
#define OURS "0f8fad5b-d9cb-869f-a165-70867728950e"
    assert_true(zkl_node_may_pass("_c_" OURS "-lock-0000000042"));
    static const char *const others[] = {"",
                                         "_c_" UUID "-lock-0000000042",
                                         "_c_" OURS "-__WRIT__0000000042",
                                         "_c_" OURS "-lease-0000000042",
                                         "_c_" OURS,
                                         OURS "-lock-0000000042",
                                         "_c_0f8fad5bd9cb869fa16570867728950e-lock-0000000042"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(zkl_node_may_pass(others[i]));
    }
}

/* What the names of an acquisition's nodes share: all but the last three digits of a uuid. */
static void tells_the_nodes_of_an_acquisition(void **state)
{
    (void)state;
    static const char *const without[] = {"", "_c", "lock-0000000001",
                                          "0f8fad5bd9cb469fa16570867728950e__lock__0000000001",
                                          "_c_0f8fad5bd9cb469fa16570867728950e-lock-0000000001"};
    size_t length, other_length;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        assert_null(zkl_node_acquisition(without[i], &length));
    }
    assert_null(zkl_node_acquisition("_c_" UUID, &length));
    const char *place = zkl_node_acquisition("_c_" UUID "-lock-0000000042", &length);
    const char *other = zkl_node_acquisition("_c_" OTHER_UUID "-lease-0000000042", &other_length);
    assert_int_equal(ZKL_UUID_LENGTH - 3, length);
    assert_int_equal(length, other_length);
    assert_memory_equal(UUID, place, length);
    assert_memory_not_equal(place, other, length);
    assert_int_equal(4096, ZKL_SERIAL_BLOCK);
}

static void lets_only_readers_share(void **state)
{
    (void)state;
    for (int mine = ZKL_NODE_STRANGER; mine <= ZKL_NODE_LEASE; mine++) {
        for (int other = ZKL_NODE_STRANGER; other <= ZKL_NODE_LEASE; other++) {
            bool both_lock = (mine == ZKL_NODE_EXCLUSIVE || mine == ZKL_NODE_SHARED) &&
                             (other == ZKL_NODE_EXCLUSIVE || other == ZKL_NODE_SHARED);
            bool expected = both_lock && !(mine == ZKL_NODE_SHARED && other == ZKL_NODE_SHARED);
            assert_int_equal(zkl_kind_conflicts((zkl_node_kind)mine, (zkl_node_kind)other), expected);
        }
    }
}

/* The names of one directory, as ZooKeeper's client library returns them. */
typedef struct {
    char *names[16];
    int32_t count;
} directory;

static directory list(const char *const *names, int32_t count)
{
    directory made = {.count = count};
    assert_true(count <= COUNT(made.names));
    for (int32_t i = 0; i < count; i++) {
        made.names[i] = strdup(names[i]);
        assert_non_null(made.names[i]);
    }
    return made;
}

/* `nearest` is the expected name, NULL for none. */
static void assert_standing(const char *const *names, int32_t count, const char *own, zkl_node_kind mine, bool listed,
                            bool tied, int32_t blocking, const char *nearest)
{
    directory made = list(names, count);
    zkl_standing standing = zkl_names_standing(made.names, made.count, own, mine);
    assert_int_equal(standing.listed, listed);
    assert_int_equal(standing.tied, tied);
    assert_int_equal(standing.blocking, blocking);
    if (listed && mine == ZKL_NODE_EXCLUSIVE && zkl_node_parse(own).kind != ZKL_NODE_STRANGER) {
        assert_int_equal(standing.earlier, blocking); /* every earlier node blocks it */
    }
    assert_true(!listed || standing.earlier >= blocking || zkl_node_parse(own).kind == ZKL_NODE_STRANGER);
    if (nearest == NULL) {
        assert_int_equal(standing.nearest, -1);
    } else {
        assert_true(standing.nearest >= 0 && standing.nearest < count);
        assert_string_equal(made.names[standing.nearest], nearest);
    }
    for (int32_t i = 0; i < made.count; i++) {
        free(made.names[i]);
    }
}

#define OWN(tail) "_c_" UUID "-" tail
#define THEIRS(tail) "_c_" OTHER_UUID "-" tail
#define KAZOO(tail) HEX tail

static void stands_alone(void **state)
{
    (void)state;
    static const char *const names[] = {OWN("lock-0000000005")};
    assert_standing(names, COUNT(names), names[0], ZKL_NODE_EXCLUSIVE, true, false, 0, NULL);
    assert_standing(names, 0, names[0], ZKL_NODE_EXCLUSIVE, false, false, 0, NULL);
}

static void waits_for_the_nearest_before_it(void **state)
{
    (void)state;
    static const char *const names[] = {
        THEIRS("lock-0000000009"), KAZOO("__lock__0000000003"),  OWN("lock-0000000007"), "ex0000000005",
        "x-0100000a-0000000006",   "_c_" HEX "-lock-0000000001",
    };
    assert_standing(names, COUNT(names), names[2], ZKL_NODE_EXCLUSIVE, true, false, 4, "x-0100000a-0000000006");
}

static void counts_readers_before_a_reader(void **state)
{
    (void)state;
    char *const names[] = {OWN("__READ__0000000004"), THEIRS("__READ__0000000003"), "ballast"};
    zkl_standing standing = zkl_names_standing(names, 3, names[0], ZKL_NODE_SHARED);
    assert_int_equal(standing.blocking, 0);
    assert_int_equal(standing.earlier, 1);
}

static void orders_by_number_and_not_by_text(void **state)
{
    (void)state;
    static const char *const names[] = {
        "_c_" UUID "-lock-0000000010",
        "_c_" OTHER_UUID "-lock-0000000009",
        "_c_" OTHER_UUID "-lock-0000000011",
        "_c_" OTHER_UUID "-lock--000000001",
    };
    assert_standing(names, COUNT(names), names[0], ZKL_NODE_EXCLUSIVE, true, false, 2, names[1]);
}

static void is_never_blocked_by_strangers(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "0",
        "-",
        "x",
        "lock-",
        "\xff\xfe",
        "config",
        THEIRS("orders-0000000001"),
        THEIRS("lock-0000000001.bak"),
        THEIRS("lock-99999999999"),
        "locks",
        "leases",
        "block-0000000001",
        OWN("lock-0000000005"),
    };
    assert_standing(names, COUNT(names), OWN("lock-0000000005"), ZKL_NODE_EXCLUSIVE, true, false, 0, NULL);
    assert_standing(names, COUNT(names), OWN("lock-0000000005"), ZKL_NODE_SHARED, true, false, 0, NULL);
    assert_standing(names, COUNT(names) - 1, OWN("lock-0000000005"), ZKL_NODE_EXCLUSIVE, false, false, 0, NULL);
}

static void is_never_blocked_by_permits(void **state)
{
    (void)state;
    static const char *const names[] = {THEIRS("lease-0000000001"), THEIRS("lease-0000000005"), OWN("lock-0000000005")};
    assert_standing(names, COUNT(names), names[2], ZKL_NODE_EXCLUSIVE, true, false, 0, NULL);
    assert_standing(names, COUNT(names), names[1], ZKL_NODE_LEASE, true, true, 0, NULL);
}

static void lets_readers_pass_readers(void **state)
{
    (void)state;
    static const char *const names[] = {
        THEIRS("__READ__0000000001"), THEIRS("__WRIT__0000000002"), THEIRS("__READ__0000000003"),
        OWN("__READ__0000000004"),    OWN("__WRIT__0000000005"),    KAZOO("__rlock__0000000006"),
    };
    assert_standing(names, COUNT(names), names[0], ZKL_NODE_SHARED, true, false, 0, NULL);
    assert_standing(names, COUNT(names), names[1], ZKL_NODE_EXCLUSIVE, true, false, 1, names[0]);
    assert_standing(names, COUNT(names), names[3], ZKL_NODE_SHARED, true, false, 1, names[1]);
    assert_standing(names, COUNT(names), names[4], ZKL_NODE_EXCLUSIVE, true, false, 4, names[3]);
    assert_standing(names, COUNT(names), names[5], ZKL_NODE_SHARED, true, false, 2, names[4]);
}

/* Curator's writer that also reads: a reader with the writer's number. While both exist, and after the writer's node is gone. */
static void honours_a_downgraded_reader_of_curator(void **state)
{
    (void)state;
    static const char *const both[] = {
        THEIRS("__READ__0000000005"),
        THEIRS("__WRIT__0000000005"),
        OWN("__WRIT__0000000006"),
        OWN("__READ__0000000007"),
    };
    assert_standing(both, COUNT(both), both[2], ZKL_NODE_EXCLUSIVE, true, false, 2, both[1]);
    assert_standing(both, 2, both[3], ZKL_NODE_SHARED, false, false, 1, both[1]);

    static const char *const reading[] = {
        THEIRS("__READ__0000000005"),
        OWN("__READ__0000000006"),
        OWN("__WRIT__0000000007"),
    };
    assert_standing(reading, COUNT(reading), reading[1], ZKL_NODE_SHARED, true, false, 0, NULL);
    assert_standing(reading, COUNT(reading), reading[2], ZKL_NODE_EXCLUSIVE, true, false, 2, reading[1]);
}

/* A directory whose numbers have run out. */
static void reports_ties(void **state)
{
    (void)state;
    static const char *const writers[] = {OWN("lock-2147483647"), THEIRS("lock-2147483647"), "ex2147483646"};
    assert_standing(writers, 3, writers[0], ZKL_NODE_EXCLUSIVE, true, true, 2, writers[1]);
    assert_standing(writers, 2, writers[0], ZKL_NODE_EXCLUSIVE, true, true, 1, writers[1]);
    assert_standing(writers, 2, writers[1], ZKL_NODE_EXCLUSIVE, true, true, 1, writers[0]);
    static const char *const readers[] = {OWN("__READ__2147483647"), KAZOO("__rlock__2147483647")};
    assert_standing(readers, 2, readers[0], ZKL_NODE_SHARED, true, true, 0, NULL);
    static const char *const others[] = {THEIRS("lock-0000000001"), KAZOO("__lock__0000000001"),
                                         OWN("lock-0000000002")};
    assert_standing(others, 3, others[2], ZKL_NODE_EXCLUSIVE, true, false, 2, others[0]);
}

static void counts_everybody_for_one_who_is_not_listed(void **state)
{
    (void)state;
    static const char *const names[] = {
        THEIRS("lock-0000000009"),
        THEIRS("__READ__0000000003"),
        THEIRS("lock-0000000001"),
        THEIRS("lock-0000000007"),
        "0",
    };
    /* If its number were used, it would put the node between them, or make a tie. */
    assert_standing(names, COUNT(names), OWN("lock-0000000002"), ZKL_NODE_EXCLUSIVE, false, false, 4, names[0]);
    assert_standing(names, COUNT(names), OWN("lock-0000000007"), ZKL_NODE_EXCLUSIVE, false, false, 4, names[0]);
    assert_standing(names, COUNT(names), OWN("__READ__0000000002"), ZKL_NODE_SHARED, false, false, 3, names[0]);
    assert_standing(names, COUNT(names), "", ZKL_NODE_EXCLUSIVE, false, false, 4, names[0]);
}

static void never_places_an_own_name_without_a_number(void **state)
{
    (void)state;
    static const char *const names[] = {THEIRS("lock-0000000009"), OWN("lock-")};
    assert_standing(names, COUNT(names), names[1], ZKL_NODE_EXCLUSIVE, true, true, 1, names[0]);
    assert_standing(names + 1, 1, names[1], ZKL_NODE_EXCLUSIVE, true, true, 0, NULL);
}

static void keeps_signed_order_after_the_overflow(void **state)
{
    (void)state;
    static const char *const names[] = {
        THEIRS("lock--2147483648"),
        OWN("lock-2147483647"),
        THEIRS("lock-0000000000"),
        THEIRS("lock--000000001"),
    };
    assert_standing(names, COUNT(names), names[1], ZKL_NODE_EXCLUSIVE, true, false, 3, names[2]);
    assert_standing(names, COUNT(names), names[0], ZKL_NODE_EXCLUSIVE, true, false, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_curator),
        cmocka_unit_test(knows_go_zookeeper),
        cmocka_unit_test(knows_kazoo),
        cmocka_unit_test(knows_zk_ruby),
        cmocka_unit_test(knows_c_and_java_recipes),
        cmocka_unit_test(leaves_other_keys_of_one_directory_alone),
        cmocka_unit_test(honours_unknown_prefixes_before_a_marker),
        cmocka_unit_test(reads_every_number_that_zookeeper_writes),
        cmocka_unit_test(refuses_other_widths),
        cmocka_unit_test(refuses_numbers_beyond_32_bits),
        cmocka_unit_test(refuses_names_without_a_number_at_the_end),
        cmocka_unit_test(refuses_odd_names),
        cmocka_unit_test(tells_ids_from_what_resembles_them),
        cmocka_unit_test(makes_names_that_it_understands),
        cmocka_unit_test(finds_its_uuid),
        cmocka_unit_test(tells_who_may_pass_a_lock_on),
        cmocka_unit_test(tells_the_nodes_of_an_acquisition),
        cmocka_unit_test(lets_only_readers_share),
        cmocka_unit_test(stands_alone),
        cmocka_unit_test(waits_for_the_nearest_before_it),
        cmocka_unit_test(counts_readers_before_a_reader),
        cmocka_unit_test(orders_by_number_and_not_by_text),
        cmocka_unit_test(is_never_blocked_by_strangers),
        cmocka_unit_test(is_never_blocked_by_permits),
        cmocka_unit_test(lets_readers_pass_readers),
        cmocka_unit_test(honours_a_downgraded_reader_of_curator),
        cmocka_unit_test(reports_ties),
        cmocka_unit_test(counts_everybody_for_one_who_is_not_listed),
        cmocka_unit_test(never_places_an_own_name_without_a_number),
        cmocka_unit_test(keeps_signed_order_after_the_overflow),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}

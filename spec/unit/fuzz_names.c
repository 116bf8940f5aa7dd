/*
 * fuzz_names: what must be true of any names, under libFuzzer.
 *
 * The input becomes the children of one directory. Each name is in a block of its exact length, so that the address sanitizer sees
 * each byte that is read past its end. The properties are not stated by the parser's own steps but by round trips, by permutations,
 * and by a plain quadratic definition of which node blocks which.
 */
#include "lock/names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 12
#define MAX_NAME 96

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *property, const char *name)
{
    fprintf(stderr, "violated: %s, with \"%s\"\n", property, name);
    abort();
}

static void hold(bool condition, const char *property, const char *name)
{
    if (!condition) {
        fail(property, name);
    }
}

/* The bytes that are not used yet. */
typedef struct {
    const uint8_t *at;
    size_t left;
} input;

static uint8_t take(input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

static int32_t take_number(input *in)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) {
        bits = bits << 8 | take(in);
    }
    /* Small numbers are likelier to tie. */
    if ((bits & 3) != 0) {
        bits = bits >> 8 & 7;
    }
    int32_t number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

static char *own_block(const char *text, size_t length)
{
    char *block = malloc(length + 1);
    if (block == NULL) {
        abort();
    }
    memcpy(block, text, length);
    block[length] = '\0';
    return block;
}

/* Makes a uuid from the input. */
static void take_uuid(input *in, char uuid[ZKL_UUID_LENGTH + 1])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t seed = take(in);
    for (int i = 0; i < ZKL_UUID_LENGTH; i++) {
        bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
        uuid[i] = '-';
        if (!hyphen) {
            uuid[i] = digits[seed & 15];
            seed = (uint8_t)(seed * 5 + 3);
        }
    }
    uuid[ZKL_UUID_LENGTH] = '\0';
}

/* Raw bytes, or a form of the recipes with a number that the input chooses. */
static char *take_name(input *in)
{
    static const struct {
        const char *before; /* before the id */
        const char *after;  /* after the id; NULL: no id */
        const char *behind; /* before the number */
    } forms[] = {
        {"_c_", "-lock-", ""},    {"_c_", "-__READ__", ""}, {"_c_", "-__WRIT__", ""},  {"_c_", "-lease-", ""},
        {"", "__lock__", ""},     {"", "__rlock__", ""},    {"_c_", "-other-", ""},    {"lock-", NULL, ""},
        {"ex", NULL, ""},         {"sh", NULL, ""},         {"x-0100000a-", NULL, ""}, {"block-", NULL, ""},
        {"_c_", "-my-lock-", ""}, {"", NULL, ""},           {"_c_", "-lock-", ".bak"},
    };
    char text[MAX_NAME + 1];
    uint8_t choice = take(in);
    if (choice < 64) {
        size_t length = 0;
        for (uint8_t byte = take(in); byte != '\0' && length < MAX_NAME; byte = take(in)) {
            text[length++] = (char)byte;
        }
        return own_block(text, length);
    }
    char uuid[ZKL_UUID_LENGTH + 1];
    take_uuid(in, uuid);
    size_t form = choice % (sizeof(forms) / sizeof(forms[0]));
    bool has_id = forms[form].after != NULL;
    int length = snprintf(text, sizeof(text), "%s%s%s%010d%s", forms[form].before, has_id ? uuid : "",
                          has_id ? forms[form].after : "", take_number(in), forms[form].behind);
    return own_block(text, (size_t)length);
}

static bool same_node(zkl_node a, zkl_node b)
{
    return a.kind == b.kind && (a.kind == ZKL_NODE_STRANGER || a.sequence == b.sequence);
}

static bool is_lock(zkl_node node)
{
    return node.kind == ZKL_NODE_EXCLUSIVE || node.kind == ZKL_NODE_SHARED;
}

/*
 * A lock node's name ends in its number as ZooKeeper writes it: %010d, and no digit before it. Names with other ends are foreign.
 */
static void check_parse(const char *name)
{
    const zkl_node node = zkl_node_parse(name);
    hold(same_node(node, zkl_node_parse(name)), "parsing is a function of the name", name);
    size_t length = strlen(name);
    if (node.kind != ZKL_NODE_STRANGER) {
        char number[16];
        size_t width = (size_t)snprintf(number, sizeof(number), "%010d", node.sequence);
        hold(length > width && strcmp(name + length - width, number) == 0, "a lock node's name ends in its number",
             name);
        char before = name[length - width - 1];
        hold(before < '0' || before > '9', "no digit stands before that", name);
    }
    char *junk = malloc(length + 2);
    if (junk == NULL) {
        abort();
    }
    memcpy(junk, name, length);
    junk[length] = 'z';
    junk[length + 1] = '\0';
    hold(zkl_node_parse(junk).kind == ZKL_NODE_STRANGER, "junk behind the number makes a stranger", junk);
    free(junk);
}

static void check_round_trip(input *in)
{
    char uuid[ZKL_UUID_LENGTH + 1];
    char other[ZKL_UUID_LENGTH + 1];
    take_uuid(in, uuid);
    take_uuid(in, other);
    int32_t number = take_number(in);
    for (int kind = ZKL_NODE_EXCLUSIVE; kind <= ZKL_NODE_LEASE; kind++) {
        for (int readwrite = 0; readwrite <= 1; readwrite++) {
            char name[ZKL_NODE_NAME_SIZE];
            size_t length = zkl_node_prefix(name, (zkl_node_kind)kind, readwrite != 0, uuid);
            hold(length == strlen(name), "the prefix's length is returned", name);
            hold(zkl_node_parse(name).kind == ZKL_NODE_STRANGER, "a prefix without a number is a stranger", name);
            int written = snprintf(name + length, sizeof(name) - length, "%010d", number);
            hold((size_t)written < sizeof(name) - length, "there is room for the number", name);
            char *block = own_block(name, length + (size_t)written);
            const zkl_node node = zkl_node_parse(block);
            hold(node.kind == (zkl_node_kind)kind && node.sequence == number, "prefix and number round-trip", block);
            hold(zkl_node_has_uuid(block, uuid), "a name has the uuid that it was made with", block);
            hold(zkl_node_has_uuid(block, other) == (strcmp(uuid, other) == 0), "and no other", block);
            free(block);
        }
    }
}

/* Whether the node `other` blocks `own`, by definition. */
static bool blocks(const char *other, const char *own, zkl_node_kind mine, bool listed)
{
    const zkl_node node = zkl_node_parse(other);
    const zkl_node self = zkl_node_parse(own);
    bool before = !listed || self.kind == ZKL_NODE_STRANGER || node.sequence <= self.sequence;
    return strcmp(other, own) != 0 && zkl_kind_conflicts(mine, node.kind) && before;
}

static void check_standing(char *const *names, int32_t count, const char *own, zkl_node_kind mine)
{
    const zkl_standing standing = zkl_names_standing(names, count, own, mine);
    const zkl_node self = zkl_node_parse(own);
    bool listed = false;
    bool tied = false;
    int32_t blocking = 0;
    for (int32_t i = 0; i < count; i++) {
        listed = listed || strcmp(names[i], own) == 0;
    }
    for (int32_t i = 0; i < count; i++) {
        const zkl_node node = zkl_node_parse(names[i]);
        if (blocks(names[i], own, mine, listed)) {
            blocking++;
            hold(standing.nearest >= 0, "whoever is blocked has somebody to watch", own);
            hold(node.sequence <= zkl_node_parse(names[standing.nearest]).sequence, "the nearest is the latest",
                 names[i]);
        }
        tied = tied || (listed && strcmp(names[i], own) != 0 && is_lock(node) && node.sequence == self.sequence);
    }
    hold(standing.listed == listed, "listed means listed", own);
    if (self.kind != ZKL_NODE_STRANGER) {
        hold(standing.tied == tied, "tied means that another lock node has the number", own);
    } else {
        hold(standing.tied == listed, "a name without a number is never to be granted", own);
    }
    hold(standing.blocking == blocking, "blocking counts those that block", own);
    hold(standing.nearest == -1 || standing.nearest < count, "the nearest is in the list", own);
    hold((standing.nearest == -1) == (blocking == 0), "the nearest is there if anybody blocks", own);
    hold(standing.nearest == -1 || blocks(names[standing.nearest], own, mine, listed), "the nearest blocks", own);

    /* Any rotation of the reversed list stands for any order of the children. */
    for (int32_t turn = 0; turn < count; turn++) {
        char *shuffled[MAX_NAMES];
        for (int32_t i = 0; i < count; i++) {
            shuffled[(turn + count - i) % count] = names[i];
        }
        const zkl_standing again = zkl_names_standing(shuffled, count, own, mine);
        hold(again.listed == standing.listed && again.tied == standing.tied && again.blocking == standing.blocking,
             "the order of the list does not matter", own);
        hold((again.nearest == -1) == (standing.nearest == -1), "nor for whether there is a nearest", own);
        hold(again.nearest == -1 || strcmp(shuffled[again.nearest], names[standing.nearest]) == 0,
             "nor for which one it is", own);
    }

    /* Without the foreign names the answer is the same. */
    char *locks[MAX_NAMES];
    int32_t lock_count = 0;
    for (int32_t i = 0; i < count; i++) {
        if (is_lock(zkl_node_parse(names[i])) || strcmp(names[i], own) == 0) {
            locks[lock_count++] = names[i];
        }
    }
    hold(zkl_names_standing(locks, lock_count, own, mine).blocking == blocking, "strangers do not matter", own);
}

/* Of two nodes that are listed, conflict and have different numbers, exactly one waits: never both, and never neither. */
static void check_pair(char *a, char *b)
{
    const zkl_node node_a = zkl_node_parse(a);
    const zkl_node node_b = zkl_node_parse(b);
    if (strcmp(a, b) == 0 || !zkl_kind_conflicts(node_a.kind, node_b.kind)) {
        return;
    }
    char *pair[] = {a, b};
    const zkl_standing of_a = zkl_names_standing(pair, 2, a, node_a.kind);
    const zkl_standing of_b = zkl_names_standing(pair, 2, b, node_b.kind);
    hold(of_a.blocking + of_b.blocking == (of_a.tied ? 2 : 1), "of two rivals exactly one waits, both if tied", a);
    hold(of_a.tied == of_b.tied, "a tie has two sides", a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    check_round_trip(&in);
    char *names[MAX_NAMES];
    int32_t count = 0;
    while (in.left > 0 && count < MAX_NAMES) {
        names[count] = take_name(&in);
        check_parse(names[count]);
        count++;
    }
    for (int32_t i = 0; i < count; i++) {
        const zkl_node_kind kind = zkl_node_parse(names[i]).kind;
        check_standing(names, count, names[i], kind == ZKL_NODE_STRANGER ? ZKL_NODE_EXCLUSIVE : kind);
        /* Also for a node that is gone, or that never existed. */
        check_standing(names + i, count - i, names[0], ZKL_NODE_SHARED);
        check_pair(names[i], names[0]);
    }
    check_standing(names, count, "", ZKL_NODE_EXCLUSIVE);
    for (int32_t i = 0; i < count; i++) {
        free(names[i]);
    }
    return 0;
}

/*
 * names: what the names of a lock's children mean.
 *
 * A name is read from its end: first the number, which ZooKeeper appended, then the recipe's marker right before the
 * number. The rest of the name, each library's own form of a unique prefix, need not be understood.
 */
#include "names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * ZooKeeper writes its numbers as %010d: this many characters, the sign included, and one more for numbers that do not
 * fit.
 */
#define SEQUENCE_WIDTH 10

#define PROTECTED "_c_"
#define PROTECTED_LENGTH (sizeof(PROTECTED) - 1)

/* The length of a uuid without its hyphens, as go-zookeeper and kazoo write it. */
#define HEX_ID_LENGTH 32

typedef struct {
    const char *text;
    size_t length;
    zkl_node_kind kind;
} marker;

#define MARKER(text, kind)                                                                                             \
    {                                                                                                                  \
        (text), sizeof(text) - 1, (kind)                                                                               \
    }

/*
 * Markers that must stand right before the number. A marker of the first group fills everything between the unique
 * prefix and the number. The second group is kazoo's; its markers follow the prefix without a separator.
 */
static const marker separated[] = {
    MARKER("lock-", ZKL_NODE_EXCLUSIVE),
    MARKER("__WRIT__", ZKL_NODE_EXCLUSIVE),
    MARKER("__READ__", ZKL_NODE_SHARED),
    MARKER("lease-", ZKL_NODE_LEASE),
};
static const marker attached[] = {
    MARKER("__lock__", ZKL_NODE_EXCLUSIVE),
    MARKER("__rlock__", ZKL_NODE_SHARED),
};
/* zk-ruby's names consist of one of these and the number. */
static const marker bare[] = {
    MARKER("ex", ZKL_NODE_EXCLUSIVE),
    MARKER("sh", ZKL_NODE_SHARED),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool ends_with(const char *text, size_t length, const marker *end)
{
    return length >= end->length && memcmp(text + length - end->length, end->text, end->length) == 0;
}

/*
 * Returns the length of `_c_<id>-` at the start of `head`, 0 if there is none. The id is a uuid with or without its
 * hyphens.
 */
static size_t protection_length(const char *head, size_t length)
{
    if (length < PROTECTED_LENGTH || memcmp(head, PROTECTED, PROTECTED_LENGTH) != 0) {
        return 0;
    }
    size_t at = PROTECTED_LENGTH;
    size_t digits = 0;
    while (at < length && digits < HEX_ID_LENGTH) {
        size_t id_at = at - PROTECTED_LENGTH;
        bool hyphen = head[at] == '-' && (id_at == 8 || id_at == 13 || id_at == 18 || id_at == 23);
        if (!hyphen && !is_hex(head[at])) {
            return 0;
        }
        digits += hyphen ? 0 : 1;
        at++;
    }
    size_t id_length = at - PROTECTED_LENGTH;
    bool whole = digits == HEX_ID_LENGTH && (id_length == HEX_ID_LENGTH || id_length == ZKL_UUID_LENGTH);
    return whole && at < length && head[at] == '-' ? at + 1 : 0;
}

/*
 * Whether `head`, which has this length, consists of `_c_`, 36 characters with a uuid's first hyphen, and a hyphen. The
 * marker that follows is then separated from the prefix, even if the 36 characters are not a uuid: no shorter id can
 * end before them. Nearly all names have this form, and long queues have thousands of names.
 */
static bool has_usual_head(const char *head, size_t length)
{
    return length == PROTECTED_LENGTH + ZKL_UUID_LENGTH + 1 && head[PROTECTED_LENGTH + 8] == '-' &&
           head[length - 1] == '-';
}

/*
 * Whether `head` is `x-<session>-`. The C recipe writes the session in hexadecimal, the Java recipe as a signed
 * decimal.
 */
static bool is_session_head(const char *head, size_t length)
{
    if (length < 4 || head[0] != 'x' || head[1] != '-' || head[length - 1] != '-') {
        return false;
    }
    size_t at = head[2] == '-' ? 3 : 2;
    if (at == length - 1) {
        return false;
    }
    while (at < length - 1 && is_hex(head[at])) {
        at++;
    }
    return at == length - 1;
}

/*
 * Returns the kind of node whose name has `head` before its number.
 *
 * Only the marker may follow `_c_<id>-`. In `_c_<id>-my-lock-`, "lock-" is the end of another lock's key: some
 * libraries keep the locks of many keys in one directory.
 */
static zkl_node_kind head_kind(const char *head, size_t length)
{
    for (size_t i = 0; i < COUNT(separated); i++) {
        if (ends_with(head, length, &separated[i])) {
            size_t before = length - separated[i].length;
            if (has_usual_head(head, before)) {
                return separated[i].kind;
            }
            size_t protection = protection_length(head, length);
            bool apart = protection > 0 ? before == protection : before == 0 || head[before - 1] == '-';
            return apart ? separated[i].kind : ZKL_NODE_STRANGER;
        }
    }
    if (protection_length(head, length) > 0) {
        return ZKL_NODE_STRANGER;
    }
    for (size_t i = 0; i < COUNT(attached); i++) {
        if (ends_with(head, length, &attached[i])) {
            return attached[i].kind;
        }
    }
    for (size_t i = 0; i < COUNT(bare); i++) {
        if (length == bare[i].length && ends_with(head, length, &bare[i])) {
            return bare[i].kind;
        }
    }
    return is_session_head(head, length) ? ZKL_NODE_EXCLUSIVE : ZKL_NODE_STRANGER;
}

/*
 * Whether ZooKeeper would write a number with these digits, behind a hyphen if `negative`. ZooKeeper pads numbers with
 * zeros to SEQUENCE_WIDTH characters and no further. So a directory `import-lock-2` below a lock's path, which is
 * another lock, is no contender.
 */
static bool is_written_number(const char *digits, size_t count, bool negative)
{
    if (negative && count == SEQUENCE_WIDTH - 1) {
        return true;
    }
    return count == SEQUENCE_WIDTH && !(negative && digits[0] == '0');
}

/*
 * Reads the number that `digits` (at least one) stand for. Returns false, and writes nothing, if it does not fit, or is a
 * zero behind a hyphen.
 */
static bool read_sequence(const char *digits, size_t count, bool negative, int32_t *sequence)
{
    const int64_t limit = negative ? -(int64_t)INT32_MIN : INT32_MAX;
    int64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        value = value * 10 + (digits[i] - '0');
        if (value > limit) {
            return false;
        }
    }
    if (negative && value == 0) {
        return false;
    }
    *sequence = (int32_t)(negative ? -value : value);
    return true;
}

zkl_node zkl_node_parse(const char *name)
{
    zkl_node node = {ZKL_NODE_STRANGER, 0};
    size_t length = strlen(name);
    size_t head = length;
    while (head > 0 && is_digit(name[head - 1])) {
        head--;
    }
    size_t digits = length - head;
    /* A hyphen before the digits is the last character of the marker, unless a marker ends before the hyphen. */
    bool negative = false;
    zkl_node_kind kind = is_written_number(name + head, digits, false) ? head_kind(name, head) : ZKL_NODE_STRANGER;
    if (kind == ZKL_NODE_STRANGER && head > 0 && name[head - 1] == '-' &&
        is_written_number(name + head, digits, true)) {
        negative = true;
        kind = head_kind(name, head - 1);
    }
    if (kind != ZKL_NODE_STRANGER && read_sequence(name + head, digits, negative, &node.sequence)) {
        node.kind = kind;
    }
    return node;
}

size_t zkl_node_prefix(char *name, zkl_node_kind kind, bool readwrite, const char *uuid)
{
    const char *marker_text = NULL;
    switch (kind) {
    case ZKL_NODE_EXCLUSIVE:
        marker_text = readwrite ? "-__WRIT__" : "-lock-";
        break;
    case ZKL_NODE_SHARED:
        marker_text = "-__READ__";
        break;
    case ZKL_NODE_LEASE:
        marker_text = "-lease-";
        break;
    case ZKL_NODE_STRANGER:
        break;
    }
    assert(marker_text != NULL && strlen(uuid) == ZKL_UUID_LENGTH);
    char *end = name;
    memcpy(end, PROTECTED, PROTECTED_LENGTH);
    end += PROTECTED_LENGTH;
    memcpy(end, uuid, ZKL_UUID_LENGTH);
    end += ZKL_UUID_LENGTH;
    size_t marker_length = strlen(marker_text);
    memcpy(end, marker_text, marker_length + 1);
    return (size_t)(end - name) + marker_length;
}

bool zkl_node_has_uuid(const char *name, const char *uuid)
{
    return strncmp(name, PROTECTED, PROTECTED_LENGTH) == 0 &&
           strncmp(name + PROTECTED_LENGTH, uuid, ZKL_UUID_LENGTH) == 0 &&
           name[PROTECTED_LENGTH + ZKL_UUID_LENGTH] == '-';
}

const char *zkl_node_acquisition(const char *name, size_t *length)
{
    *length = ZKL_UUID_LENGTH - ZKL_SERIAL_DIGITS;
    bool has_uuid = protection_length(name, strlen(name)) == PROTECTED_LENGTH + ZKL_UUID_LENGTH + 1;
    return has_uuid ? name + PROTECTED_LENGTH : NULL;
}

bool zkl_node_may_pass(const char *name)
{
    static const size_t version = PROTECTED_LENGTH + 14;
    size_t end = PROTECTED_LENGTH + ZKL_UUID_LENGTH;
    return protection_length(name, strlen(name)) == end + 1 && name[version] == '8' &&
           strncmp(name + end, "-lock-", 6) == 0;
}

static bool takes_part(zkl_node_kind kind)
{
    return kind == ZKL_NODE_EXCLUSIVE || kind == ZKL_NODE_SHARED;
}

bool zkl_kind_conflicts(zkl_node_kind mine, zkl_node_kind other)
{
    return takes_part(mine) && takes_part(other) && (mine == ZKL_NODE_EXCLUSIVE || other == ZKL_NODE_EXCLUSIVE);
}

/* The blocking nodes that have been seen so far. */
typedef struct {
    int32_t count;
    int32_t nearest;  /* index; -1: none */
    int32_t sequence; /* of the nearest */
} obstacles;

static void add_obstacle(obstacles *found, char *const *names, int32_t index, int32_t sequence)
{
    found->count++;
    /*
     * Equal numbers (a downgraded reader and its writer) are ordered by name, so that the list's order does not matter.
     */
    if (found->nearest < 0 || sequence > found->sequence ||
        (sequence == found->sequence && strcmp(names[index], names[found->nearest]) > 0)) {
        found->nearest = index;
        found->sequence = sequence;
    }
}

zkl_standing zkl_names_standing(char *const *names, int32_t count, const char *own, zkl_node_kind mine)
{
    const zkl_node self = zkl_node_parse(own);
    /* Whether `own` is listed is known only at the end, so both answers are computed. */
    obstacles before = {0, -1, 0};
    obstacles all = {0, -1, 0};
    bool listed = false;
    bool tied = false;
    int32_t earlier = 0;
    for (int32_t i = 0; i < count; i++) {
        if (strcmp(names[i], own) == 0) {
            listed = true;
            continue;
        }
        const zkl_node node = zkl_node_parse(names[i]);
        if (!takes_part(node.kind)) {
            continue;
        }
        tied = tied || node.sequence == self.sequence;
        earlier += node.sequence <= self.sequence;
        if (!zkl_kind_conflicts(mine, node.kind)) {
            continue;
        }
        add_obstacle(&all, names, i, node.sequence);
        if (node.sequence <= self.sequence) {
            add_obstacle(&before, names, i, node.sequence);
        }
    }
    /* A name without a number has no place in the order. It counts as last, and its lock is never granted. */
    bool placed = self.kind != ZKL_NODE_STRANGER;
    const obstacles *found = listed && placed ? &before : &all;
    return (zkl_standing){
        .listed = listed,
        .tied = listed && (tied || !placed),
        .blocking = found->count,
        .nearest = found->nearest,
        .earlier = earlier,
    };
}

bool zkl_latch_parse(const char *data, int length, long count, char text[ZKL_LATCH_DATA_SIZE],
                     char gate[ZKL_LATCH_NAME_SIZE], long *left)
{
    char sound[2 * ZKL_LATCH_DATA_SIZE];
    snprintf(text, ZKL_LATCH_DATA_SIZE, "%.*s", length > 0 ? length : 0, length > 0 ? data : "");
    *left = strtol(text, NULL, 10);
    const char *name = strchr(text, ' ');
    snprintf(gate, ZKL_LATCH_NAME_SIZE, "%s", name != NULL ? name + 1 : "");
    snprintf(sound, sizeof sound, "%ld/%ld %s", *left, count, gate);
    return strcmp(text, sound) == 0 && strlen(text) == (size_t)length && *left >= 0 && *left <= count &&
           strncmp(gate, "gate-", 5) == 0 && strspn(gate + 5, "0123456789abcdef-") == ZKL_UUID_LENGTH;
}

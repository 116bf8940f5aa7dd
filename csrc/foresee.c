/*
 * foresee: who took turns behind somebody stands behind the same one again, and need not list the line to find him.
 *
 * Contenders that come back as soon as they have had the lock come back in the order in which they went: whoever stood right
 * before us last time stands right before us this time, unless somebody else has come or stayed away. zklock's names end in a
 * serial number, which grows evenly where a program does the same again and again. So the name of the node before ours can be
 * foretold: its serial from the two before it, its number from ours. If there is a node of that name it is the one to watch, since
 * none fits in between, and the request that arms the watch is the one that looks. If there is none, the line is listed as ever.
 *
 * A node foreseen says nothing about those before it, so that its end is followed by a list, which tells. But where its number
 * comes right after the one by which we held last (follow.c), it is the only one before ours, and its end is proof. So a turn between
 * two clients takes three requests, and one among many takes four.
 *
 * Only a list shows nodes of ours that no seat knows (line.c), and nobody else can remove them. So the line is listed once in a
 * while all the same, and always in a session in which a create was lost.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_private.h"

/* After a list the line may do for so long without another. */
#define SOON ZKL_SECOND

/* The name of a mutex's node, of the uuid that begins with `stem` and ends with `serial`; has room for ZKL_NODE_NAME_SIZE. */
static void name_of(char *name, const char *stem, uint64_t serial, int32_t sequence)
{
    char uuid[ZKL_UUID_LENGTH + 1]; /* a serial beyond 48 bits, which nobody has, is cut: there is no such node */
    snprintf(uuid, sizeof uuid, "%.*s%012" PRIx64, ZKL_UUID_STEM_LENGTH, stem, serial);
    size_t length = zkl_node_prefix(name, ZKL_NODE_EXCLUSIVE, false, uuid);
    snprintf(name + length, ZKL_NODE_NAME_SIZE - length, "%010d", (int)sequence);
}

/* Where the uuid is in such a name. */
static const char *uuid_in(const char *name)
{
    return name + strlen("_c_");
}

/* The serial number in a mutex's name, as zklock makes them; 0: it is not one. */
static uint64_t serial_of(const char *name, int32_t sequence)
{
    if (strlen(name) < strlen("_c_") + ZKL_UUID_LENGTH) {
        return 0;
    }
    char made[ZKL_NODE_NAME_SIZE];
    uint64_t serial = strtoull(uuid_in(name) + ZKL_UUID_STEM_LENGTH, NULL, 16);
    name_of(made, uuid_in(name), serial, sequence);
    return strcmp(made, name) == 0 ? serial : 0;
}

void zkl_seat_stands_behind(const zkl_seat *seat, const char *name)
{
    zkl_neighbour *known = &seat->line->neighbour;
    int32_t sequence = zkl_node_parse(name).sequence;
    uint64_t serial = serial_of(name, sequence);
    if (seat->role != ZKL_ROLE_MUTEX || serial == 0) {
        known->steady = false;
        return;
    }
    const char *stem = uuid_in(name);
    bool same = memcmp(stem, known->stem, ZKL_UUID_STEM_LENGTH) == 0;
    if (same && serial == known->serial) {
        return; /* looked at again */
    }
    uint64_t stride = same ? serial - known->serial : 0;
    bool next = (int64_t)sequence + 1 == seat->sequence;
    known->steady = same && next && stride == known->stride;
    known->stride = stride;
    known->serial = serial;
    memcpy(known->stem, stem, ZKL_UUID_STEM_LENGTH);
}

void zkl_line_lose_neighbour(zkl_line *line)
{
    line->neighbour = (zkl_neighbour){.steady = false};
    line->cleaned_at = 0;
}

bool zkl_seat_may_foresee(const zkl_seat *seat)
{
    const zkl_line *line = seat->line;
    int64_t now = seat->engine->now;
    return line->neighbour.steady && now - line->cleaned_at < SOON && !zkl_line_may_have_strays(line) &&
           seat->role == ZKL_ROLE_MUTEX && !seat->claim->try_only;
}

bool zkl_seat_foresee(zkl_seat *seat)
{
    const zkl_neighbour *known = &seat->line->neighbour;
    if (seat->listing || seat->sequence == 0 || !zkl_seat_may_foresee(seat)) {
        return false;
    }
    char name[ZKL_NODE_NAME_SIZE];
    name_of(name, known->stem, known->serial + known->stride, seat->sequence - 1);
    if (ZKL_BROKEN(ZKL_BREAK_FORESEE)) {
        seat->ahead = 1;
    }
    seat->foreseeing = true;
    zkl_watch_node(seat, name);
    return true;
}

void zkl_seat_foreseen(zkl_seat *seat, bool there)
{
    if (!seat->foreseeing) {
        return;
    }
    zkl_neighbour *known = &seat->line->neighbour;
    seat->foreseeing = false;
    if (there) {
        known->serial += known->stride;
        zkl_share_waits(seat);
    } else {
        known->steady = false;
        seat->ahead = INT32_MAX; /* the list will tell */
    }
}

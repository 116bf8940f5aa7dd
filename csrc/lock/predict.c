/*
 * predict: in a steady rotation the predecessor's name is predictable, so the list is skipped.
 *
 * Contenders that acquire again right after their release come back in the same order. So the same client is right
 * before us each time, unless another client has joined or stayed away. zklock's names end in a serial number, which
 * grows evenly while a program repeats the same steps. So the name of the node before ours can be predicted: its serial
 * number from its previous two, its sequence number from ours. If that node exists, it is the node to watch, since no
 * number fits in between. The request that arms the watch finds out. If the node does not exist, the queue is listed as
 * usual.
 *
 * A predicted predecessor says nothing about the nodes before it, so its end is followed by a list. There is one
 * exception: if its number is adjacent to the number by which we held last (adjacent.c), it is the only node before ours,
 * and its end is proof. So an acquisition and its release take three requests between two clients, and four among many
 * clients.
 *
 * If many wait in one client, its entries often stand one behind the other. Once a list has shown that, the predecessor
 * of the next entry is predicted to be the entry before it, whose name and number are known. So what an entry costs does
 * not grow with the length of the queue.
 *
 * Only a list shows nodes of ours that no entry knows (queue.c), and no other client can remove them. So the queue is
 * listed once a second all the same, and always in a session in which a create was lost.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "predict.h"

/* After a list no other list is needed for this long. */
#define SOON ZKL_SECOND

/*
 * Writes the name of a mutex's node. Its uuid begins with `stem` and ends with `serial`. `name` has room for
 * ZKL_NODE_NAME_SIZE.
 */
static void predicted_name(char *name, const char *stem, uint64_t serial, int32_t sequence)
{
    /* A serial number beyond 48 bits is cut. No client has such a number, so there is no such node. */
    char uuid[ZKL_UUID_LENGTH + 1];
    snprintf(uuid, sizeof uuid, "%.*s%012" PRIx64, ZKL_UUID_STEM_LENGTH, stem, serial);
    size_t length = zkl_node_prefix(name, ZKL_NODE_EXCLUSIVE, false, uuid);
    snprintf(name + length, ZKL_NODE_NAME_SIZE - length, "%010d", (int)sequence);
}

/* Returns the uuid in such a name. */
static const char *uuid_in(const char *name)
{
    return name + strlen("_c_");
}

/* Returns the serial number in the name of a mutex's node of zklock; 0 if it is another name. */
static uint64_t serial_of(const char *name, int32_t sequence)
{
    if (strlen(name) < strlen("_c_") + ZKL_UUID_LENGTH) {
        return 0;
    }
    char made[ZKL_NODE_NAME_SIZE];
    uint64_t serial = strtoull(uuid_in(name) + ZKL_UUID_STEM_LENGTH, NULL, 16);
    predicted_name(made, uuid_in(name), serial, sequence);
    return strcmp(made, name) == 0 ? serial : 0;
}

/* Returns the entry of ours that came to the queue before this one, if it has a node there, or is to have one; or NULL. */
static const zkl_entry *own_before(const zkl_entry *entry)
{
    const zkl_entry *own = TAILQ_PREV(entry, zkl_entry_list, in_queue);
    bool stays = own != NULL && own->state >= ZKL_ENTRY_JOINING && own->state <= ZKL_ENTRY_LINGERING;
    return stays && own->kind == entry->kind ? own : NULL;
}

void zkl_entry_note_predecessor(const zkl_entry *entry, const char *name)
{
    zkl_predecessor *known = &entry->queue->predecessor;
    const zkl_entry *own = own_before(entry);
    known->own = own != NULL && own->node != NULL && strcmp(zkl_entry_name(own), name) == 0;
    int32_t sequence = zkl_node_parse(name).sequence;
    uint64_t serial = serial_of(name, sequence);
    if (!entry->kind->predictable || serial == 0) {
        known->steady = false;
        return;
    }
    const char *stem = uuid_in(name);
    bool same = memcmp(stem, known->stem, ZKL_UUID_STEM_LENGTH) == 0;
    if (same && serial == known->serial) {
        return; /* the same node, listed again */
    }
    uint64_t stride = same ? serial - known->serial : 0;
    bool next = (int64_t)sequence + 1 == entry->sequence;
    known->steady = same && next && stride == known->stride;
    known->stride = stride;
    known->serial = serial;
    memcpy(known->stem, stem, ZKL_UUID_STEM_LENGTH);
}

bool zkl_entry_can_predict(const zkl_entry *entry)
{
    const zkl_queue *queue = entry->queue;
    int64_t now = entry->locks->wire->now;
    bool known = queue->predecessor.steady || (queue->predecessor.own && own_before(entry) != NULL);
    return known && now - queue->cleaned_at < SOON && !zkl_queue_may_have_strays(queue) && entry->kind->predictable &&
           !entry->acquisition->try_only;
}

bool zkl_entry_predict(zkl_entry *entry, char name[ZKL_NODE_NAME_SIZE])
{
    zkl_predecessor *known = &entry->queue->predecessor;
    if (zkl_entry_has_sent(entry, ZKL_REQUEST_LIST) || entry->sequence == 0 || !zkl_entry_can_predict(entry)) {
        return false;
    }
    const zkl_entry *own = known->own ? own_before(entry) : NULL;
    known->own = own != NULL && own->node != NULL &&
                 ((int64_t)own->sequence + 1 == entry->sequence || ZKL_BROKEN(ZKL_BREAK_BETWEEN));
    if (known->own) {
        snprintf(name, ZKL_NODE_NAME_SIZE, "%s", zkl_entry_name(own));
    } else if (known->steady) {
        known->serial += known->stride;
        predicted_name(name, known->stem, known->serial, entry->sequence - 1);
    } else {
        return false;
    }
    if (ZKL_BROKEN(ZKL_BREAK_PREDICTED)) {
        entry->tenure.ahead = 1;
    }
    zkl_entry_note_request(entry, ZKL_REQUEST_PREDICT, true);
    return true;
}

bool zkl_entry_predicted(zkl_entry *entry, int64_t czxid)
{
    if (!zkl_entry_has_sent(entry, ZKL_REQUEST_PREDICT)) {
        return false;
    }
    zkl_predecessor *known = &entry->queue->predecessor;
    zkl_entry_note_request(entry, ZKL_REQUEST_PREDICT, false);
    bool there = czxid > 0 && czxid < entry->tenure.czxid;
    if (!there) {
        known->steady = known->own = false;
        entry->tenure.ahead = INT32_MAX; /* the list, which follows, will show the number */
    }
    return there;
}

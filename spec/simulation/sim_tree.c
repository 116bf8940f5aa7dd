/*
 * sim_tree: znodes, and how a transaction changes them.
 *
 * A tree is an array in the order of creation. A simulated world has few nodes at a time, and an array cannot depend on
 * addresses.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

typedef struct preset {
    struct preset *next;
    int path;
    int32_t counter;
    int64_t zxid; /* zxid of the directory's first create, to which the counter applies; 0: not created yet */
} preset;
static preset *presets;

void sim_preset_counter(const char *directory, int32_t counter)
{
    preset *fresh = sim_alloc(sizeof(*fresh));
    *fresh = (preset){presets, sim_path(directory), counter, 0};
    presets = fresh;
}

/* The nodes that servers make themselves. They count as created nowhere (DataTree.java). */
static const char *const own_nodes[] = {"/zookeeper", "/zookeeper/quota", "/zookeeper/config"};
#define OWN_NODES ((int)(sizeof(own_nodes) / sizeof(own_nodes[0])))

bool sim_tree_is_own(int path)
{
    for (int i = 0; sim.options.own_nodes && i < OWN_NODES; i++) {
        if (strcmp(sim_path_text(path), own_nodes[i]) == 0)
            return true;
    }
    return false;
}

void sim_tree_plant(sim_tree *tree)
{
    memset(tree, 0, sizeof(*tree));
    tree->capacity = 64;
    tree->nodes = sim_alloc((size_t)tree->capacity * sizeof(*tree->nodes));
    tree->nodes[tree->count++] = (sim_node){.path = 0, .parent = -1, .data = ""};
    for (int i = 0; sim.options.own_nodes && i < OWN_NODES; i++) {
        int path = sim_path(own_nodes[i]);
        tree->nodes[tree->count++] = (sim_node){.path = path,
                                                .parent = sim_path_parent(path),
                                                .data = "",
                                                .acl = i == OWN_NODES - 1 ? sim_keep_acl(&ZOO_READ_ACL_UNSAFE) : NULL};
    }
}

void sim_tree_clear(sim_tree *tree)
{
    presets = NULL;
    sim_tree_plant(tree);
    tree->zxid = sim.options.last_zxid;
}

void sim_tree_copy(sim_tree *to, const sim_tree *from)
{
    if (to->capacity < from->count) {
        to->capacity = from->capacity;
        to->nodes = sim_alloc((size_t)to->capacity * sizeof(*to->nodes));
    }
    memcpy(to->nodes, from->nodes, (size_t)from->count * sizeof(*to->nodes));
    to->count = from->count;
    to->zxid = from->zxid;
}

sim_node *sim_tree_find(const sim_tree *tree, int path)
{
    for (int i = tree->count - 1; i >= 0; i--) {
        if (tree->nodes[i].path == path)
            return &tree->nodes[i];
    }
    return NULL;
}

int sim_tree_children(const sim_tree *tree, int parent)
{
    int count = 0;
    for (int i = 0; i < tree->count; i++)
        count += tree->nodes[i].parent == parent;
    return count;
}

void sim_tree_stat(const sim_tree *tree, const sim_node *node, struct Stat *stat)
{
    memset(stat, 0, sizeof(*stat));
    int children = sim_tree_children(tree, node->path);
    stat->czxid = node->czxid;
    stat->mzxid = node->mzxid;
    stat->pzxid = node->pzxid;
    stat->version = node->version;
    /* The server stores the number of creates, but shows the number of creates and deletes (DataNode.copyStat). */
    stat->cversion = (int32_t)((uint32_t)node->counter * 2U - (uint32_t)children);
    stat->ephemeralOwner = node->owner; /* 0 for a container (DataNode.getClientEphemeralOwner) */
    stat->dataLength = node->length > 0 ? node->length : 0;
    stat->numChildren = children;
    stat->ctime = node->ctime;
    stat->mtime = node->mtime;
}

static void add_node(sim_tree *tree, const sim_change *change, int64_t zxid)
{
    sim_node *parent = sim_tree_find(tree, sim_path_parent(change->path));
    if (parent == NULL || sim_tree_find(tree, change->path) != NULL)
        return;
    parent->used = true;
    /*
     * DataTree.createNode takes the new counter only if it is larger. At the end the counter stays the same, and pzxid
     * too (ZOOKEEPER-3249).
     */
    if (parent->counter < INT32_MAX) {
        parent->counter++;
        parent->pzxid = zxid;
    }
    if (tree->count == tree->capacity) {
        sim_node *larger = sim_alloc((size_t)tree->capacity * 2 * sizeof(*larger));
        memcpy(larger, tree->nodes, (size_t)tree->count * sizeof(*larger));
        tree->nodes = larger;
        tree->capacity *= 2;
    }
    sim_node *node = &tree->nodes[tree->count++];
    *node = (sim_node){.path = change->path,
                       .parent = sim_path_parent(change->path),
                       .czxid = zxid,
                       .mzxid = zxid,
                       .pzxid = zxid,
                       .ctime = change->time,
                       .mtime = change->time,
                       .owner = change->owner,
                       .container = change->container,
                       .acl = change->acl,
                       .data = change->data,
                       .length = change->length};
    for (preset *each = presets; each != NULL; each = each->next) {
        if (each->path != change->path)
            continue;
        if (each->zxid == 0)
            each->zxid = zxid;
        if (each->zxid == zxid)
            node->counter = each->counter;
    }
}

static void remove_node(sim_tree *tree, int path, int64_t zxid)
{
    sim_node *node = sim_tree_find(tree, path);
    if (node == NULL)
        return;
    sim_node *parent = sim_tree_find(tree, node->parent);
    if (parent != NULL)
        parent->pzxid = zxid;
    size_t after = (size_t)(tree->nodes + tree->count - (node + 1));
    memmove(node, node + 1, after * sizeof(*node));
    tree->count--;
}

void sim_tree_apply(sim_tree *tree, const sim_change *change, int64_t zxid)
{
    sim_node *node;
    switch (change->kind) {
    case SIM_CHANGE_NONE:
        break;
    case SIM_CHANGE_CREATE:
        add_node(tree, change, zxid);
        break;
    case SIM_CHANGE_DELETE:
        remove_node(tree, change->path, zxid);
        break;
    case SIM_CHANGE_SET:
        node = sim_tree_find(tree, change->path);
        if (node != NULL) {
            node->data = change->data;
            node->length = change->length;
            node->version++;
            node->mzxid = zxid;
            node->mtime = change->time;
        }
        break;
    }
}

/* Returns a hash that does not depend on the order of the nodes. */
uint64_t sim_tree_hash(const sim_tree *tree)
{
    uint64_t sum = 0;
    for (int i = 0; i < tree->count; i++) {
        const sim_node *node = &tree->nodes[i];
        uint64_t hash = sim_mix(sim_path_hash(node->path), (uint64_t)node->czxid);
        hash = sim_mix(hash, (uint64_t)node->mzxid ^ (uint64_t)node->pzxid << 32);
        hash = sim_mix(hash, (uint64_t)node->owner ^ (uint64_t)node->container << 62 ^ (uint64_t)node->used << 61);
        hash = sim_mix(hash, (uint64_t)(uint32_t)node->version << 32 ^ (uint64_t)(uint32_t)node->counter);
        for (int32_t j = 0; j < node->length; j++)
            hash = (hash ^ (unsigned char)node->data[j]) * UINT64_C(1099511628211);
        if (node->acl != NULL)
            hash = sim_mix(hash, sim_acl_hash(node->acl));
        sum += hash;
    }
    return sim_mix(sum, (uint64_t)tree->zxid);
}

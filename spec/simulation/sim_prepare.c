/*
 * sim_prepare: how the leader prepares a request (PrepRequestProcessor.java). The result is the change that goes into
 * the log, or an error. Errors are checked in the real server's order.
 */
#include <stdio.h>
#include <string.h>

#include "sim_internal.h"

typedef struct denial {
    struct denial *next;
    int path;
    int permissions;
} denial;

static denial *denials;
static bool hidden;

void sim_prepare_begin(void)
{
    denials = NULL;
    hidden = false;
}

void sim_hide_nodes(void)
{
    hidden = true;
}

bool sim_hidden(const sim_node *node)
{
    return hidden && node->owner != 0;
}

void sim_deny(const char *directory, int permissions)
{
    denial *fresh = sim_alloc(sizeof(*fresh));
    *fresh = (denial){denials, sim_path(directory), permissions};
    denials = fresh;
}

bool sim_permits(const sim_node *node, int permission, const sim_request *request)
{
    for (const denial *each = denials; each != NULL; each = each->next) {
        if (each->path == node->path && (each->permissions & permission) != 0)
            return false;
    }
    return request->unchecked || sim_acl_permits(node->acl, permission, request->identities);
}

/* Takes one character of UTF-8 from `text`. Returns UINT32_MAX if it is invalid. */
static uint32_t take_character(const unsigned char **text)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } lengths[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    int more = 0;
    while (more < 4 && (**text & lengths[more].mask) != lengths[more].lead)
        more++;
    if (more == 4)
        return UINT32_MAX;
    uint32_t character = *(*text)++ & (unsigned char)~lengths[more].mask;
    for (int i = 0; i < more; i++) {
        if ((**text & 0xc0) != 0x80)
            return UINT32_MAX;
        character = character << 6 | (*(*text)++ & 0x3f);
    }
    return character < lengths[more].least ? UINT32_MAX : character;
}

/*
 * Checks the parts of PathUtils.validatePath that the client does not check: characters, which are UTF-16 there, and
 * the names "." and "..".
 */
static bool is_valid(const char *path)
{
    for (const char *name = path; *name != '\0';) {
        size_t length = strcspn(++name, "/");
        if (length > 0 && length <= 2 && strncmp(name, "..", length) == 0)
            return false;
        name += length;
    }
    const unsigned char *rest = (const unsigned char *)path;
    while (*rest != '\0') {
        uint32_t character = take_character(&rest);
        if (character <= 0x1f || (character >= 0x7f && character <= 0x9f) ||
            (character >= 0xd800 && character <= 0xf8ff) || character >= 0xfff0)
            return false;
    }
    return true;
}

/* The servers' clock: milliseconds since 1970. The world begins in 2100, so no clock of a machine is ahead of it. */
static int64_t server_time(void)
{
    return INT64_C(4102444800000) + sim_now() / SIM_MILLISECOND;
}

static int prepare_create(const sim_tree *tree, const sim_operation *operation, const sim_request *request,
                          sim_change *change)
{
    int path = operation->path;
    if (operation->mode == ZOO_CONTAINER && request->lacks != 0)
        return request->lacks;
    const sim_acl *acl = NULL;
    if (operation->no_acl || sim_expand_acl(operation->acl, request->identities, &acl) != ZOK)
        return ZINVALIDACL;
    if (path == 0)
        return ZNODEEXISTS;
    const sim_node *parent = sim_tree_find(tree, sim_path_parent(path));
    if (parent == NULL)
        return ZNONODE;
    if (!sim_permits(parent, ZOO_PERM_CREATE, request))
        return ZNOAUTH;
    bool ephemeral = operation->mode == ZOO_EPHEMERAL || operation->mode == ZOO_EPHEMERAL_SEQUENTIAL;
    if (operation->mode == ZOO_EPHEMERAL_SEQUENTIAL || operation->mode == ZOO_PERSISTENT_SEQUENTIAL) {
        size_t size = strlen(sim_path_text(path)) + sizeof("-2147483648");
        char *name = sim_alloc(size);
        snprintf(name, size, "%s%010d", sim_path_text(path), parent->counter);
        path = sim_path(name);
    }
    if (!is_valid(sim_path_text(path)))
        return ZBADARGUMENTS;
    if (sim_tree_find(tree, path) != NULL)
        return ZNODEEXISTS;
    if (parent->owner != 0)
        return ZNOCHILDRENFOREPHEMERALS;
    *change = (sim_change){.kind = SIM_CHANGE_CREATE,
                           .path = path,
                           .time = server_time(),
                           .data = operation->data,
                           .length = operation->length,
                           .owner = ephemeral && request->session != NULL ? request->session->id : 0,
                           .container = operation->mode == ZOO_CONTAINER,
                           .acl = acl};
    return ZOK;
}

static int prepare_delete(const sim_tree *tree, const sim_operation *operation, const sim_request *request,
                          sim_change *change)
{
    const sim_node *node = sim_tree_find(tree, operation->path);
    if (operation->path == 0 || sim_tree_is_own(operation->path))
        return ZBADARGUMENTS;
    const sim_node *parent = sim_tree_find(tree, sim_path_parent(operation->path));
    if (parent == NULL)
        return ZNONODE;
    /* Holds also for a node that does not exist. */
    if (!sim_permits(parent, ZOO_PERM_DELETE, request))
        return ZNOAUTH;
    if (node == NULL)
        return ZNONODE;
    if (operation->version != -1 && operation->version != node->version)
        return ZBADVERSION;
    if (sim_tree_children(tree, operation->path) > 0)
        return ZNOTEMPTY;
    change->kind = SIM_CHANGE_DELETE;
    return ZOK;
}

/* Prepares a set or a check. */
static int prepare_versioned(const sim_tree *tree, const sim_operation *operation, const sim_request *request,
                             int permission)
{
    const sim_node *node = sim_tree_find(tree, operation->path);
    if (node == NULL)
        return ZNONODE;
    if (!sim_permits(node, permission, request))
        return ZNOAUTH;
    return operation->version != -1 && operation->version != node->version ? ZBADVERSION : ZOK;
}

int sim_prepare_operation(const sim_tree *tree, const sim_operation *operation, const sim_request *request,
                          sim_change *change)
{
    *change = (sim_change){.path = operation->path, .time = server_time()};
    int err;
    switch (operation->type) {
    case ZOO_CREATE_OP:
        err = prepare_create(tree, operation, request, change);
        break;
    case ZOO_DELETE_OP:
        err = prepare_delete(tree, operation, request, change);
        break;
    case ZOO_SETDATA_OP:
        err = prepare_versioned(tree, operation, request, ZOO_PERM_WRITE);
        if (err == ZOK) {
            change->kind = SIM_CHANGE_SET;
            change->data = operation->data;
            change->length = operation->length;
        }
        break;
    case ZOO_CHECK_OP:
        err = prepare_versioned(tree, operation, request, ZOO_PERM_READ);
        break;
    default:
        err = ZUNIMPLEMENTED;
        break;
    }
    change->err = err;
    return err;
}

static bool changes_something(const sim_request *request)
{
    for (int i = 0; i < request->operation_count; i++) {
        if (request->operations[i].type != ZOO_CHECK_OP)
            return true;
    }
    return false;
}

/* A server that does not know containers cannot parse the whole packet. */
static bool readable(const sim_request *request)
{
    for (int i = 0; i < request->operation_count && sim.options.no_containers != 0; i++) {
        if (request->operations[i].type == ZOO_CREATE_OP && request->operations[i].mode == ZOO_CONTAINER)
            return false;
    }
    return true;
}

/*
 * Either all operations succeed or none. The first error is reported, earlier operations have ok, later ones -2
 * (DataTree.processTxn). All operations have the same zxid, and each sees the changes of the earlier ones.
 */
void sim_prepare_multi(sim_tree *tree, sim_transaction *transaction, const sim_request *request, int session_error,
                       int64_t zxid)
{
    if (!readable(request)) {
        transaction->err = ZMARSHALLINGERROR;
        transaction->malformed = true;
        return;
    }
    sim_tree before = {0};
    bool undoable = changes_something(request);
    if (undoable)
        sim_tree_copy(&before, tree);
    transaction->change_count = request->operation_count;
    transaction->changes = sim_alloc((size_t)(request->operation_count + 1) * sizeof(*transaction->changes));
    for (int i = 0; i < request->operation_count; i++) {
        const sim_operation *operation = &request->operations[i];
        sim_change *change = &transaction->changes[i];
        int err = transaction->err != ZOK ? ZRUNTIMEINCONSISTENCY : session_error;
        if (err == ZOK) {
            err = sim_prepare_operation(tree, operation, request, change);
            transaction->err = err;
            if (err == ZOK)
                sim_tree_apply(tree, change, zxid);
        } else {
            *change = (sim_change){.path = operation->path, .err = err};
            if (transaction->err == ZOK)
                transaction->err = err;
        }
    }
    if (transaction->err != ZOK && undoable)
        sim_tree_copy(tree, &before);
}

/*
 * acl: copies of access control lists.
 */
#include <string.h>

#include "base.h"

bool zkl_acl_copy(struct ACL_vector *copy, const struct ACL_vector *acl)
{
    *copy = (struct ACL_vector){0, zkl_alloc((size_t)acl->count * sizeof *copy->data)};
    bool whole = copy->data != NULL;
    for (int32_t i = 0; whole && i < acl->count; i++) {
        struct ACL *entry = &copy->data[copy->count++];
        entry->perms = acl->data[i].perms;
        entry->id.scheme = zkl_copy(acl->data[i].id.scheme, strlen(acl->data[i].id.scheme));
        entry->id.id = zkl_copy(acl->data[i].id.id, strlen(acl->data[i].id.id));
        whole = entry->id.scheme != NULL && entry->id.id != NULL;
    }
    return whole;
}

void zkl_acl_free(struct ACL_vector *acl)
{
    for (int32_t i = 0; i < acl->count; i++) {
        zkl_free(acl->data[i].id.scheme);
        zkl_free(acl->data[i].id.id);
    }
    zkl_free(acl->data);
    *acl = (struct ACL_vector){0, NULL};
}

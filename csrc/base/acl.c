/*
 * acl: copies of access control lists, and their text.
 */
#include <stdio.h>
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

/* The letters of the permissions, from the lowest bit on. */
#define RIGHTS "rwcda"

char *zkl_acl_text(const struct ACL_vector *acl, int32_t *length)
{
    int32_t count = acl != NULL && acl->data != NULL ? acl->count : 0;
    size_t room = 1;
    for (int32_t i = 0; i < count; i++) {
        const struct Id *id = &acl->data[i].id;
        room +=
            sizeof ",::" RIGHTS + (id->scheme != NULL ? strlen(id->scheme) : 0) + (id->id != NULL ? strlen(id->id) : 0);
    }
    char *text = zkl_alloc(room);
    size_t used = 0;
    for (int32_t i = 0; text != NULL && i < count; i++) {
        const struct ACL *entry = &acl->data[i];
        used += (size_t)snprintf(text + used, room - used, "%s%s:%s:", i > 0 ? "," : "",
                                 entry->id.scheme != NULL ? entry->id.scheme : "",
                                 entry->id.id != NULL ? entry->id.id : "");
        for (int bit = 0; RIGHTS[bit] != '\0'; bit++) {
            if (((uint32_t)entry->perms >> bit & 1U) != 0) {
                text[used++] = RIGHTS[bit];
            }
        }
        text[used] = '\0';
    }
    *length = (int32_t)used;
    return text;
}

/* published: what callers may read of a client without engine_mutex. */
#ifndef ZKLOCK_CLIENT_PUBLISHED_H
#define ZKLOCK_CLIENT_PUBLISHED_H

#include "client_object.h"

/* The engine's callbacks `lease_changed` and `state_changed` (zkl_host); `context` is the client. */
void zkl_publish_lease(void *context, int64_t valid_until);
void zkl_publish_state(void *context, zkl_state state, zkl_code code, const char *problem);
/*
 * engine_mutex held, desk.mutex not. Publishes the figures, and writes the byte for notifications if one is due. `silently`: no
 * byte is written.
 */
void zkl_client_publish(zkl_client *client, bool silently);

#endif

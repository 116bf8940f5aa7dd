/* published: what callers may read of a client without engine_mutex. */
#ifndef ZKLOCK_CLIENT_PUBLISHED_H
#define ZKLOCK_CLIENT_PUBLISHED_H

#include <stdatomic.h>

#include "client.h"

/*
 * All fields are written under engine_mutex and client->mutex, and read under either; atomics are written under engine_mutex and read
 * by any thread.
 */
typedef struct {
    _Atomic int32_t in_flight;   /* requests in flight, at the end of the latest turn */
    int64_t waiting_since;       /* since then there were always requests in flight; ZKL_NEVER: there are none */
    int64_t read_at;             /* the latest packet was read at this instant */
    _Atomic int64_t lease_until; /* grants are valid until then, see zkl_host */
    zkl_state state;
    zkl_code problem_code;
    char problem[256]; /* the reason why the state is not better; "" if there is none */
    zkl_stats stats;
    int32_t timeout_ms; /* the negotiated session timeout; 0 before the first session */
} zkl_published;

/* Nothing is known yet. `lease`: grants need a lease. */
void zkl_published_init(zkl_published *published, bool lease);
/* The engine's callbacks `lease_changed` and `state_changed` (zkl_host); `context` is the client. */
void zkl_publish_lease(void *context, int64_t valid_until);
void zkl_publish_state(void *context, zkl_state state, zkl_code code, const char *problem);
/*
 * engine_mutex held, client->mutex not. Publishes the figures, and writes the byte for notifications if one is due. `silently`: no
 * byte is written.
 */
void zkl_client_publish(zkl_client *client, bool silently);

#endif

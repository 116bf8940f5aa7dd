/* poll owner: decides which thread polls the C client's socket, and lets callers run the engine. */
#ifndef ZKLOCK_CLIENT_POLL_OWNER_H
#define ZKLOCK_CLIENT_POLL_OWNER_H

#include "client_object.h"

/* I/O thread, engine_mutex held. Sleeps without the mutex until there is something to do, and does it. */
void zkl_io_thread_sleep(zkl_client *client, const zkl_poll *wanted);
/*
 * Any thread, no mutex held. Makes the engine take the requests on the list: in this call if the I/O thread sleeps and nothing can
 * block, otherwise by waking the I/O thread. The caller looks at the handle `subject` afterwards anyway, so a result that is there at
 * once makes no notification. NULL: no handle. The call may block for `block_for` nanoseconds until the result is there; it then works
 * like zkl_client_wait.
 */
void zkl_client_serve(zkl_client *client, const zkl_handle *subject, int64_t block_for);

#endif

/* handle request: the owner's side of handles. Any thread, no mutex held. */
#ifndef ZKLOCK_CLIENT_HANDLE_REQUEST_H
#define ZKLOCK_CLIENT_HANDLE_REQUEST_H

#include "handle.h"

/*
 * Passes a new handle to the engine's side, or answers it here if the client has ended. Returns the handle. `block_for` as in
 * zkl_client_acquire.
 */
zkl_handle *zkl_handle_submit(zkl_handle *handle, int64_t block_for);
/*
 * Asks the engine's side to do something for the handle, a set of TODO_*. `quietly`: the caller looks at the handle afterwards and
 * needs no notification. `block_for` as in zkl_client_acquire.
 */
void zkl_handle_ask(zkl_handle *handle, unsigned todo, bool quietly, int64_t block_for);

#endif

/* handle acquisition: handles of acquisitions. */
#ifndef ZKLOCK_CLIENT_HANDLE_ACQUISITION_H
#define ZKLOCK_CLIENT_HANDLE_ACQUISITION_H

#include "client.h"

/* The engine's callback `acquisition_changed` (zkl_host): publishes the acquisition's state. `context` is the client. */
void zkl_handle_acquisition_changed(void *context, zkl_acquisition *acquisition);

#endif

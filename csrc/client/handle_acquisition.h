/* handle acquisition: handles of acquisitions. */
#ifndef ZKLOCK_CLIENT_HANDLE_ACQUISITION_H
#define ZKLOCK_CLIENT_HANDLE_ACQUISITION_H

#include "client.h"

/* The engine's callback `acquisition_changed` (zkl_host): publishes the acquisition's state. `context` is the client. */
void zkl_handle_acquisition_changed(void *context, zkl_acquisition *acquisition);

/* The engine's callback `hold_over` (zkl_host): tells until when the owner has extended the hold. `context` is the client. */
int64_t zkl_handle_hold_over(void *context, const zkl_acquisition *acquisition, int64_t now);

#endif

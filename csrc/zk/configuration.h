/*
 * configuration: the ensemble's own configuration, which its servers keep in a node. It is read on each connection, and again when it
 * has changed.
 */
#ifndef ZKLOCK_CONFIGURATION_H
#define ZKLOCK_CONFIGURATION_H

#include "session.h"

typedef struct {
    zkl_wire *wire;
    bool wanted; /* it is to be read, and no request for it could be sent */
} zkl_configuration;

/* What the session calls, if the host wants the configuration (zkl_session_host.configured). The owner is the zkl_configuration. */
extern const zkl_session_listener zkl_configuration_listener;

/* Whether it is watched by the session, so that no other watch on this node may be removed: the removal would take this one too. */
bool zkl_configuration_watched(const zkl_wire *wire, const char *path, bool children);

#endif

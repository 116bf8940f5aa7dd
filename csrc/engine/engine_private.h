/*
 * What an engine is made of, for the files of this folder only.
 */
#ifndef ZKLOCK_ENGINE_PRIVATE_H
#define ZKLOCK_ENGINE_PRIVATE_H

#include "engine.h"

/* The layers, the lowest one first. */
struct zkl_engine {
    zkl_session session;
    zkl_locks locks;
    zkl_operations operations;
    zkl_configuration configuration;
};

#endif

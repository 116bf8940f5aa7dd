/*
 * process: signals, process groups, the terminal, and a guardian that ends a process group in time. For the command `zklock`.
 *
 * This layer knows no lock and no client. It is a Lua module of its own (zklock.process), so that programs which only use locks do
 * not load it. Linux only, as the timers of the client are.
 *
 * All functions are for the main thread of a process unless they say otherwise.
 */
#ifndef ZKLOCK_PROCESS_H
#define ZKLOCK_PROCESS_H

#include "background.h"
#include "group.h"
#include "guardian.h"
#include "signals.h"
#include "spawn.h"

#endif

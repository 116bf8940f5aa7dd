/* thread: starts the threads of clients. */
#ifndef ZKLOCK_OS_THREAD_H
#define ZKLOCK_OS_THREAD_H

#include <pthread.h>

/* Starts a thread that blocks all signals: they are for the program's threads. Returns 0 or an errno. Any thread. */
int zkl_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif

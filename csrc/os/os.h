/*
 * os: what the clients need of the system: the clock of leases, random bytes, pipes that wake a thread or make a descriptor readable, a
 * timer that wakes a thread out of its poll, and threads. Knows no ZooKeeper. All instants and durations are nanoseconds. Any thread may
 * call all functions but those of alarms.
 */
#ifndef ZKLOCK_OS_H
#define ZKLOCK_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The clock of leases. It counts while the machine is suspended if the system has such a clock. */
int64_t zkl_clock(void);
/* Fills all bytes: the names of nodes must be unique. */
void zkl_random(void *bytes, size_t size);
/*
 * Returns the timeout for poll, in milliseconds, from the instant `now` until the instant `until`: -1 for ZKL_NEVER, 0 if that
 * instant is over, 60000 at most.
 */
int zkl_poll_timeout(int64_t until, int64_t now);

/* Both ends of a pipe; reading is from the first. {-1, -1}: there is no pipe. It never holds more than a byte or two. */
typedef struct {
    int ends[2];
} zkl_pipe;

#define ZKL_NO_PIPE ((zkl_pipe){{-1, -1}})

/* Makes a pipe whose ends do not block. Returns false, sets errno and leaves `pipe` as ZKL_NO_PIPE if the system refuses it. */
bool zkl_pipe_open(zkl_pipe *pipe);
/* Closes a pipe, if there is one. */
void zkl_pipe_close(zkl_pipe *pipe);
/* Writes a byte. */
void zkl_pipe_write(const zkl_pipe *pipe);
/* Empties the pipe. Returns whether there was a byte. */
bool zkl_pipe_drain(const zkl_pipe *pipe);

typedef struct {
    int fd; /* readable when the alarm has gone off; -1: there is none. Constant from the opening until the client is JOINED. */
    bool set; /* engine_mutex: it will go off, or has gone off and was not read */
} zkl_alarm;

/* No other thread knows the client. If the system refuses a timer, there is none. */
void zkl_alarm_open(zkl_alarm *alarm);
/* The I/O thread has ended. Closes the timer, if it is open. */
void zkl_alarm_close(zkl_alarm *alarm);
/*
 * engine_mutex held. Makes the alarm go off in `nanoseconds`, less than a second; or earlier, if it is set already. Returns false if
 * there is no timer, or it cannot be set.
 */
bool zkl_alarm_set(zkl_alarm *alarm, int64_t nanoseconds);
/* I/O thread, engine_mutex held. The alarm went off. */
void zkl_alarm_read(zkl_alarm *alarm);

/* Starts a thread that blocks all signals: they are for the program's threads. Returns 0 or an errno. */
int zkl_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif

/* alarm: a timer that wakes the I/O thread out of its poll. */
#ifndef ZKLOCK_OS_ALARM_H
#define ZKLOCK_OS_ALARM_H

#include <stdbool.h>
#include <stdint.h>

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

#endif

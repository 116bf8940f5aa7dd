/* alarm: a timer that wakes the I/O thread out of its poll. */
#include "alarm.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

void zkl_alarm_open(zkl_alarm *alarm)
{
    alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
}

void zkl_alarm_close(zkl_alarm *alarm)
{
    if (alarm->fd >= 0) {
        close(alarm->fd);
        alarm->fd = -1;
    }
}

bool zkl_alarm_set(zkl_alarm *alarm, int64_t nanoseconds)
{
    struct itimerspec once = {.it_value = {.tv_nsec = nanoseconds}};
    alarm->set = alarm->set || (alarm->fd >= 0 && timerfd_settime(alarm->fd, 0, &once, NULL) == 0);
    return alarm->set;
}

void zkl_alarm_read(zkl_alarm *alarm)
{
    uint64_t times;
    if (read(alarm->fd, &times, sizeof times) >= 0) {
        alarm->set = false;
    }
}

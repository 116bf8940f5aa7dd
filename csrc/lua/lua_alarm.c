/*
 * A file descriptor that becomes readable at a given time, for event loops that can wait for nothing but descriptors.
 *
 * The child of a fork gets another descriptor, which is made when it is first used. Otherwise parent and child would
 * share the kernel's timer.
 */
#include "lua_alarm.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lua_compat.h"

typedef struct alarm_clock {
    int fd;
    pid_t pid;
} alarm_clock;

static const char ALARM_TYPE[] = "zklock.alarm";

/* Forty years, in seconds. A later time is never. */
static const lua_Number LATEST = 1.25e9;

static void open_alarm(lua_State *L, alarm_clock *alarm)
{
    alarm->pid = getpid();
    alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (alarm->fd < 0) {
        luaL_error(L, "no timer descriptor: %s", strerror(errno));
    }
}

static alarm_clock *check_alarm(lua_State *L)
{
    alarm_clock *alarm = luaL_checkudata(L, 1, ALARM_TYPE);
    if (alarm->pid != getpid()) {
        close(alarm->fd);
        alarm->fd = -1;
        open_alarm(L, alarm);
    }
    return alarm;
}

static int alarm_fd(lua_State *L)
{
    lua_pushinteger(L, check_alarm(L)->fd);
    return 1;
}

/* alarm:set(seconds): makes the descriptor readable after that time, until set is called again. math.huge: never. */
static int alarm_set(lua_State *L)
{
    const alarm_clock *alarm = check_alarm(L);
    lua_Number seconds = luaL_checknumber(L, 2);
    struct itimerspec spec = {0};
    if (seconds <= 0) {
        spec.it_value.tv_nsec = 1; /* all zeros would mean "never" */
    } else if (seconds < LATEST) {
        spec.it_value.tv_sec = (time_t)floor(seconds);
        spec.it_value.tv_nsec = (long)((seconds - floor(seconds)) * 1e9) + 1;
        if (spec.it_value.tv_nsec > 999999999) {
            spec.it_value.tv_nsec = 999999999;
        }
    }
    timerfd_settime(alarm->fd, 0, &spec, NULL);
    return 0;
}

static int alarm_gc(lua_State *L)
{
    alarm_clock *alarm = luaL_checkudata(L, 1, ALARM_TYPE);
    if (alarm->fd >= 0) {
        close(alarm->fd);
        alarm->fd = -1;
    }
    return 0;
}

int core_alarm(lua_State *L)
{
    static const luaL_Reg methods[] = {{"fd", alarm_fd}, {"set", alarm_set}, {NULL, NULL}};
    alarm_clock *alarm = lua_newuserdata(L, sizeof *alarm);
    *alarm = (alarm_clock){.fd = -1};
    if (luaL_newmetatable(L, ALARM_TYPE)) {
        lua_pushcfunction(L, alarm_gc);
        lua_setfield(L, -2, "__gc");
        lua_newtable(L);
        zkl_setfuncs(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
    open_alarm(L, alarm);
    return 1;
}

/* wire: what requests, watches and heartbeats share of a session. */
#include "wire.h"

#include <stdarg.h>
#include <stdio.h>

/* The delay before a request that the server refused is tried again. */
#define TRY_AGAIN_AFTER ZKL_SECOND

void zkl_wire_log(const zkl_wire *wire, int level, const char *format, ...)
{
    char message[ZKL_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    wire->host.log(wire->host.context, level, message);
}

void zkl_try_later(zkl_wire *wire)
{
    if (wire->backing_off_until == ZKL_NEVER) {
        wire->backing_off_until = wire->now + TRY_AGAIN_AFTER;
    }
}

void zkl_wire_unwatched(zkl_wire *wire)
{
    if (wire->disconnect == ZKL_DISCONNECT_NONE) {
        wire->disconnect = ZKL_DISCONNECT_UNWATCHED;
        zkl_wire_log(wire, ZOO_LOG_LEVEL_WARN, "a server of '%s' has forgotten watches: connecting anew", wire->hosts);
    }
}

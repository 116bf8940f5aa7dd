/*
 * session_log: lines for the host's log. Apart from session.c, so that the files below that one may log too.
 */
#include <stdarg.h>
#include <stdio.h>

#include "session.h"

void zkl_session_log(zkl_session *session, int level, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    session->host.log(session->host.context, level, message);
}

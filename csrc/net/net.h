/*
 * net: connects the unchanged C client to a server, with TLS or without. Knows no session and no lock.
 *
 *   connector.h     connects to the server that can be reached first. race.c: in which order; dial.c: the sockets;
 *                   server_list.c: the servers; resolver.c: their names
 *   tls_link.h      TLS between the C client and that server. tls_context.c: its options; tls_library.c: OpenSSL
 *   tls_options.h   these options, as the program gives them
 *   members.h       the servers that an ensemble's own configuration names
 *
 * The simulation replaces dial.c and resolver.c.
 */
#ifndef ZKLOCK_NET_H
#define ZKLOCK_NET_H

#include "connector.h"
#include "members.h"
#include "tls_link.h"
#include "tls_options.h"

#endif

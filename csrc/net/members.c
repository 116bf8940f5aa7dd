/*
 * members: the servers that an ensemble's own configuration names.
 *
 * Each has a line (QuorumPeer.QuorumServer.toString), in which an IPv6 address is in brackets:
 *
 *   server.N=HOST:PORT:PORT[:ROLE][|HOST:PORT:PORT[:ROLE]]…[;[HOST:]PORT]
 *
 * What is behind the first semicolon is for clients. A server without it has its port for clients in a file of its own, and listens
 * for clients at all its addresses, as one does whose address for clients is 0.0.0.0 or [::]. A loopback address there is for
 * clients without TLS on the server's machine, and says nothing of TLS.
 */
#include "members.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* The longest name of a host, as DNS has it. */
#define LONGEST_HOST 253

/* No ensemble has more: the numbers of servers end at 255. */
#define MOST_MEMBERS 255

typedef struct {
    const char *at;
    size_t length;
} slice;

/* Returns what is before the first `mark`, and leaves what is behind it. */
static slice cut(slice *rest, char mark)
{
    const char *found = rest->length > 0 ? memchr(rest->at, mark, rest->length) : NULL;
    size_t length = found != NULL ? (size_t)(found - rest->at) : rest->length;
    slice before = {rest->at, length};
    size_t taken = length + (found != NULL);
    *rest = (slice){rest->at + taken, rest->length - taken};
    return before;
}

/* Returns the host at the beginning of "HOST:…", and leaves the rest. */
static slice cut_host(slice *rest)
{
    bool bracket = rest->length > 0 && *rest->at == '[';
    const char *end = bracket ? memchr(rest->at, ']', rest->length) : NULL;
    if (end == NULL) {
        return cut(rest, ':');
    }
    slice host = {rest->at, (size_t)(end - rest->at) + 1};
    *rest = (slice){end + 1, rest->length - host.length};
    cut(rest, ':');
    return host;
}

static bool is_port(slice port)
{
    int32_t number = 0;
    for (size_t i = 0; i < port.length; i++) {
        if (!isdigit((unsigned char)port.at[i]) || i == 5) {
            return false;
        }
        number = number * 10 + (port.at[i] - '0');
    }
    return number >= 1 && number <= 65535;
}

/* Returns whether clients can connect to the host: it is a name or an address, and not 0.0.0.0 or [::], which stand for all. */
static bool is_host(slice host)
{
    char text[LONGEST_HOST + 1];
    struct in6_addr address;
    bool bracket = host.length > 2 && *host.at == '[';
    if (host.length == 0 || host.length > LONGEST_HOST) {
        return false;
    }
    size_t length = host.length - (bracket ? 2 : 0);
    memcpy(text, host.at + bracket, length);
    text[length] = '\0';
    if (bracket) {
        return inet_pton(AF_INET6, text, &address) == 1 && memcmp(&address, &in6addr_any, sizeof address) != 0;
    }
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == length &&
           strcmp(text, "0.0.0.0") != 0;
}

/* Returns whether the host is the machine that asks. */
static bool is_loopback(slice host)
{
    char text[LONGEST_HOST + 1];
    struct in6_addr address;
    snprintf(text, sizeof text, "%.*s", (int)host.length, host.at);
    if (*text == '[' && host.length < sizeof text) {
        text[host.length - 1] = '\0';
        return inet_pton(AF_INET6, text + 1, &address) == 1 && IN6_IS_ADDR_LOOPBACK(&address);
    }
    return strncmp(text, "127.", 4) == 0 || strcmp(text, "localhost") == 0;
}

bool zkl_has_member(const char *servers, const char *server, size_t length)
{
    while (*servers != '\0' && *servers != '/') {
        size_t here = strcspn(servers, ",/");
        if (here == length && memcmp(servers, server, length) == 0) {
            return true;
        }
        servers += here + (servers[here] == ',');
    }
    return false;
}

/* The connection string that is being made. Until it is complete, there is a comma before each server. */
typedef struct {
    char *text; /* There is room for MOST_MEMBERS. */
    size_t length;
    int32_t count;
    bool local; /* as in zkl_members */
} member_list;

/* Appends the server, unless it is in the list, or clients cannot connect to it. */
static void add(member_list *list, slice host, slice port)
{
    if (list->count == MOST_MEMBERS || !is_host(host) || !is_port(port) || (is_loopback(host) && !list->local)) {
        return;
    }
    char *server = list->text + list->length + 1;
    size_t length = host.length + 1 + port.length;
    memcpy(server, host.at, host.length);
    server[host.length] = ':';
    memcpy(server + host.length + 1, port.at, port.length);
    server[length] = '\0';
    if (!zkl_has_member(list->text, server, length)) {
        list->text[list->length] = ',';
        list->length += 1 + length;
        list->count++;
    }
}

/* Adds the server of a line. `port` as in zkl_members. */
static void add_line(member_list *list, slice line, const char *port)
{
    static const char key[] = "server.";
    while (line.length > 0 && isspace((unsigned char)line.at[line.length - 1])) {
        line.length--;
    }
    slice name = cut(&line, '=');
    if (name.length < sizeof key || memcmp(name.at, key, sizeof key - 1) != 0) {
        return;
    }
    slice quorum = cut(&line, ';');
    slice own_port = cut(&line, ';');
    slice host = {NULL, 0};
    if (own_port.length > 0 && memchr(own_port.at, ':', own_port.length) != NULL) {
        host = cut_host(&own_port);
    }
    slice wanted = port != NULL ? (slice){port, strlen(port)} : own_port;
    if (is_host(host) && (port == NULL || !is_loopback(host))) {
        add(list, host, wanted);
        return;
    }
    while (quorum.length > 0) {
        slice each = cut(&quorum, '|');
        add(list, cut_host(&each), wanted);
    }
}

bool zkl_has_loopback(const char *servers)
{
    slice rest = {servers, strcspn(servers, "/")};
    while (rest.length > 0) {
        slice server = cut(&rest, ',');
        if (is_loopback(cut_host(&server))) {
            return true;
        }
    }
    return false;
}

char *zkl_members(const char *configuration, int32_t length, const char *port, bool local)
{
    slice rest = {configuration, length > 0 ? (size_t)length : 0};
    member_list list = {.text = zkl_alloc(rest.length + MOST_MEMBERS * (sizeof ",:65535" - 1) + 2), .local = local};
    while (list.text != NULL && rest.length > 0) {
        add_line(&list, cut(&rest, '\n'), port);
    }
    if (list.length > 0) {
        memmove(list.text, list.text + 1, list.length);
    }
    return list.text;
}

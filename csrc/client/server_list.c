/* server list: the servers that a link connects to, in turns, and their addresses. */
#include "server_list.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"

bool zkl_is_address(const char *host)
{
    char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

/* `text` has `length` bytes: "host:port". An IPv6 address has colons too. */
static bool init_server(zkl_server *server, const char *text, size_t length)
{
    server->text = zkl_copy(text, length);
    server->host = zkl_copy(text, length);
    server->name = zkl_copy(text, length);
    if (server->text == NULL || server->host == NULL || server->name == NULL) {
        return false;
    }
    char *colon = strrchr(server->host, ':');
    if (colon != NULL) {
        *colon = '\0';
    }
    server->port = colon != NULL ? colon + 1 : server->host + length;
    server->numeric = zkl_is_address(server->host);
    size_t end = strlen(server->host);
    server->name[end > 1 && server->host[end - 1] == '.' ? end - 1 : end] = '\0';
    return true;
}

bool zkl_server_list_init(zkl_server_list *list, const char *servers)
{
    const char *end = servers + strcspn(servers, "/");
    size_t most = 1;
    for (const char *at = servers; at < end; at++) {
        most += *at == ',';
    }
    list->servers = zkl_alloc(most * sizeof *list->servers);
    if (list->servers == NULL) {
        return false;
    }
    const char *text = servers;
    while (text < end) {
        size_t length = strcspn(text, ",/");
        if (!init_server(&list->servers[list->count++], text, length)) {
            return false;
        }
        text += length + 1;
    }
    return list->count > 0;
}

static void forget_addresses(zkl_server_list *list)
{
    if (list->addresses != NULL) {
        freeaddrinfo(list->addresses);
    }
    list->addresses = NULL;
    list->next_address = NULL;
}

void zkl_server_list_free(zkl_server_list *list)
{
    forget_addresses(list);
    for (int32_t i = 0; i < list->count; i++) {
        zkl_free(list->servers[i].host);
        zkl_free(list->servers[i].text);
        zkl_free(list->servers[i].name);
        zkl_free(list->servers[i].logged);
    }
    zkl_free(list->servers);
    *list = (zkl_server_list){.servers = NULL};
}

int zkl_server_list_next(zkl_server_list *list, const struct addrinfo **address)
{
    if (list->next_address == NULL) {
        forget_addresses(list);
        list->current = &list->servers[list->next];
        list->next = (list->next + 1) % list->count;
        const struct addrinfo hints = {
            .ai_socktype = SOCK_STREAM,
            .ai_flags = AI_NUMERICSERV | (list->current->numeric ? AI_NUMERICHOST : AI_ADDRCONFIG),
        };
        int error = getaddrinfo(list->current->host, list->current->port, &hints, &list->addresses);
        if (error != 0) {
            list->addresses = NULL;
            return error;
        }
        list->next_address = list->addresses;
    }
    *address = list->next_address;
    list->next_address = list->next_address->ai_next;
    return 0;
}

void zkl_server_list_again(zkl_server_list *list, const struct addrinfo *address)
{
    list->next_address = address;
}

void zkl_server_list_connected(zkl_server_list *list)
{
    forget_addresses(list);
}

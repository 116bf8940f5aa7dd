/* server list: the servers that a client connects to, and their addresses. */
#include "server_list.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base.h"

/* An answer that came longer ago is asked for anew. Answers that came in a pause between two races are younger. */
#define FRESH_FOR (2 * ZKL_SECOND)

bool zkl_is_address(const char *host)
{
    char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

/* `text` has `length` bytes: "host:port". An IPv6 address is in brackets. */
static bool init_server(zkl_server *server, const char *text, size_t length)
{
    size_t bracket = length > 0 && *text == '[';
    server->text = zkl_copy(text, length);
    server->host = zkl_copy(text + bracket, length - bracket);
    server->name = zkl_copy(text + bracket, length - bracket);
    if (server->text == NULL || server->host == NULL || server->name == NULL) {
        return false;
    }
    char *colon = strrchr(server->host, ':');
    if (colon != NULL) {
        *colon = '\0';
    }
    server->port = colon != NULL ? colon + 1 : server->host + length - bracket;
    size_t end = strlen(server->host);
    if (bracket && end > 0) {
        server->host[--end] = '\0';
    }
    server->numeric = zkl_is_address(server->host);
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

void zkl_server_list_free(zkl_server_list *list)
{
    for (int32_t i = 0; i < list->count; i++) {
        zkl_free(list->servers[i].host);
        zkl_free(list->servers[i].text);
        zkl_free(list->servers[i].name);
        zkl_free(list->servers[i].logged);
        zkl_free(list->servers[i].addresses);
        zkl_resolution_end(list->servers[i].resolution);
    }
    zkl_free(list->servers);
    *list = (zkl_server_list){.servers = NULL};
}

/* Returns until when the address is late: as it was before, if it is one of the server's already. */
static int64_t late_until(const zkl_server *server, const struct addrinfo *address)
{
    for (int32_t i = 0; i < server->count; i++) {
        const zkl_address *before = &server->addresses[i];
        if (before->size == address->ai_addrlen && memcmp(&before->address, address->ai_addr, before->size) == 0) {
            return before->late_until;
        }
    }
    return 0;
}

/* Copies the addresses of `found`: first those that are not late. Returns how many there are; -1: there is no memory. */
static int32_t copy_addresses(const zkl_server *server, const struct addrinfo *found, int64_t now, zkl_address **copies)
{
    int32_t most = 0, count = 0;
    for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
        most++;
    }
    *copies = zkl_alloc((size_t)most * sizeof **copies);
    for (int late = 0; late < 2 && *copies != NULL; late++) {
        for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
            int64_t until = late_until(server, each);
            if (each->ai_addrlen <= sizeof(*copies)->address && (until > now) == (late == 1)) {
                zkl_address *copy = &(*copies)[count++];
                memcpy(&copy->address, each->ai_addr, each->ai_addrlen);
                copy->size = each->ai_addrlen;
                copy->late_until = until;
            }
        }
    }
    return *copies != NULL ? count : -1;
}

static void end_resolution(zkl_server *server)
{
    zkl_resolution_end(server->resolution);
    server->resolution = NULL;
}

bool zkl_server_resolve(zkl_server *server, int64_t now)
{
    const zkl_answer *answer = server->resolution != NULL ? zkl_resolution_answer(server->resolution) : NULL;
    if (answer != NULL && now - answer->at > FRESH_FOR) {
        end_resolution(server);
    }
    if (server->resolution == NULL) {
        server->resolution = zkl_resolution_begin(server->host, server->port, server->numeric);
        server->asked_at = now;
    }
    return server->resolution != NULL;
}

static const char *take_addresses(zkl_server *server, int64_t now)
{
    const zkl_answer *answer = zkl_resolution_answer(server->resolution);
    if (answer->error != 0) {
        return answer->error == EAI_SYSTEM ? strerror(answer->system) : gai_strerror(answer->error);
    }
    zkl_address *copies;
    int32_t count = copy_addresses(server, answer->found, now, &copies);
    if (count < 0) {
        return strerror(ENOMEM);
    }
    zkl_free(server->addresses);
    server->addresses = copies;
    server->count = count;
    return NULL;
}

const char *zkl_server_resolved(zkl_server *server, int64_t now)
{
    const char *problem = take_addresses(server, now);
    end_resolution(server);
    return problem;
}

bool zkl_server_has_news(zkl_server *server, const char *line)
{
    bool news = server->logged == NULL || strcmp(server->logged, line) != 0;
    if (news) {
        zkl_server_forget_news(server);
        server->logged = zkl_copy(line, strlen(line));
    }
    return news;
}

void zkl_server_forget_news(zkl_server *server)
{
    zkl_free(server->logged);
    server->logged = NULL;
}

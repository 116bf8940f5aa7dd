#include "fake_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <zookeeper/proto.h>
#include <zookeeper/zookeeper.h>

#define MOST_NODES 96
#define MOST_PATH 200
#define MOST_LISTS 96
#define MOST_GONE 96
#define MOST_ASKED 96
#define MOST_TOLD 96
#define MOST_WATCHES 64
#define BUFFER 65536

/* in the place of a request's number */
#define EVENT_NUMBER (-1)
#define CREDENTIALS_NUMBER (-4)

typedef struct {
    bool used;
    char path[MOST_PATH];
    char data[64];
    int32_t length;
    int64_t owner;
    int64_t czxid, mzxid;
    int32_t version, cversion;
    int32_t counter; /* of sequential children */
} node;

typedef struct {
    char directory[MOST_PATH];
    char *names[MOST_NODES];
    int count;
} told_list;

/* Bytes in flight to the client. */
typedef struct {
    uint8_t bytes[BUFFER];
    size_t length;
} packet;

static struct {
    input *in;
    bool honest;
    int fd;
    bool probed;
    bool mute; /* the client would take what follows for something else */
    int64_t session, zxid;
    node nodes[MOST_NODES];
    struct {
        char path[MOST_PATH];
        bool children;
    } watches[MOST_WATCHES];
    int watch_count;
    uint8_t got[BUFFER];
    size_t got_length;
    packet held; /* an answer that comes late, or never */
    /* At most the number of requests that the client waits for: more answers than that would end the process. */
    int unanswered;
    told_list lists[MOST_LISTS];
    int list_count;
    char gone[MOST_GONE][MOST_PATH];
    int gone_count;
    char asked[MOST_ASKED][MOST_PATH];
    int asked_count;
    told_node told[MOST_TOLD]; /* what it sent about nodes that it made, or that were requested */
    int told_count;
    int64_t writes;       /* creates and deletes that were requested */
    char read[MOST_PATH]; /* path that the present request reads; "" if it is not a get */
} server;

static int listener = -1;

uint8_t take(input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

/* Whether to send something wrong here: once in so many times as the input chooses. */
static bool lies(void)
{
    return !server.honest && take(server.in) >= 200;
}

static int64_t any_number(void)
{
    static const int64_t numbers[] = {0,         -1,        1,          2,       -2,    INT32_MAX, INT32_MIN,
                                      INT64_MAX, INT64_MIN, 0xffffffff, 1 << 30, -101,  -112,      1000000,
                                      -4,        -110,      7,          10,      65536, 0x7f7f7f7f};
    return numbers[take(server.in) % (sizeof numbers / sizeof *numbers)];
}

static int32_t any_error(void)
{
    static const int32_t errors[] = {ZNONODE,
                                     ZNODEEXISTS,
                                     ZNOAUTH,
                                     ZCONNECTIONLOSS,
                                     ZSESSIONEXPIRED,
                                     ZBADVERSION,
                                     ZNOTEMPTY,
                                     ZSESSIONMOVED,
                                     ZOPERATIONTIMEOUT,
                                     ZBADARGUMENTS,
                                     ZUNIMPLEMENTED,
                                     ZTHROTTLEDOP,
                                     ZMARSHALLINGERROR,
                                     ZRUNTIMEINCONSISTENCY,
                                     ZINVALIDSTATE,
                                     ZAUTHFAILED,
                                     ZCLOSING,
                                     ZNOWATCHER,
                                     1,
                                     -77,
                                     INT32_MIN,
                                     INT32_MAX,
                                     ZAPIERROR,
                                     ZSYSTEMERROR};
    return errors[take(server.in) % (sizeof errors / sizeof *errors)];
}

/* --- packets --------------------------------------------------------------------------------------------------------- */

static void put(packet *p, const void *bytes, size_t length)
{
    if (length <= sizeof p->bytes - p->length) {
        memcpy(p->bytes + p->length, bytes, length);
        p->length += length;
    }
}

static void put_int(packet *p, int64_t value)
{
    uint32_t bits = htonl((uint32_t)(uint64_t)value);
    put(p, &bits, 4);
}

static void put_long(packet *p, int64_t value)
{
    put_int(p, (int64_t)((uint64_t)value >> 32));
    put_int(p, (int64_t)((uint64_t)value & 0xffffffff));
}

static void put_text(packet *p, const char *text)
{
    put_int(p, (int64_t)strlen(text));
    put(p, text, strlen(text));
}

/* The rest of a request. */
typedef struct {
    const uint8_t *at;
    size_t left;
} reader;

static int32_t get_int(reader *r)
{
    uint32_t bits = 0;
    if (r->left >= 4) {
        memcpy(&bits, r->at, 4);
        r->at += 4;
        r->left -= 4;
    }
    bits = ntohl(bits);
    int32_t value;
    memcpy(&value, &bits, 4);
    return value;
}

static void get_text(reader *r, char *text, size_t size)
{
    int32_t length = get_int(r);
    size_t whole = length < 0 ? 0 : (size_t)length;
    whole = whole > r->left ? r->left : whole;
    size_t kept = whole < size ? whole : size - 1;
    memcpy(text, r->at, kept);
    text[kept] = '\0';
    r->at += whole;
    r->left -= whole;
}

/* --- the tree -------------------------------------------------------------------------------------------------------- */

static node *find(const char *path)
{
    for (int i = 0; i < MOST_NODES; i++) {
        if (server.nodes[i].used && strcmp(server.nodes[i].path, path) == 0) {
            return &server.nodes[i];
        }
    }
    return NULL;
}

static void parent_of(const char *path, char *parent)
{
    snprintf(parent, MOST_PATH, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash != NULL) {
        slash[slash == parent ? 1 : 0] = '\0';
    }
}

static bool is_child(const char *directory, const char *path, const char **name)
{
    size_t stem = strcmp(directory, "/") == 0 ? 0 : strlen(directory);
    *name = path + stem + 1;
    return strncmp(path, directory, stem) == 0 && path[stem] == '/' && **name != '\0' && strchr(*name, '/') == NULL;
}

static void flush(packet *p);

static void send_event(int32_t type, int32_t state, const char *path)
{
    static packet p;
    p.length = 0;
    put_int(&p, EVENT_NUMBER);
    put_long(&p, -1);
    put_int(&p, 0);
    put_int(&p, type);
    put_int(&p, state);
    put_text(&p, path);
    flush(&p);
}

static void note_gone(const char *path)
{
    snprintf(server.gone[server.gone_count++ % MOST_GONE], MOST_PATH, "%s", path);
}

static void fire(const char *path, int32_t type, bool children)
{
    for (int i = 0; i < server.watch_count; i++) {
        if (server.watches[i].children == children && strcmp(server.watches[i].path, path) == 0) {
            server.watches[i] = server.watches[--server.watch_count];
            if (type == ZOO_DELETED_EVENT) {
                note_gone(path);
            }
            if (!lies()) {
                send_event(type, ZOO_CONNECTED_STATE, path);
            }
            return;
        }
    }
}

static void watch(const char *path, bool children)
{
    if (server.watch_count < MOST_WATCHES) {
        snprintf(server.watches[server.watch_count].path, MOST_PATH, "%s", path);
        server.watches[server.watch_count++].children = children;
    }
}

static int32_t create(const char *asked, const char *data, int32_t mode, char *path)
{
    char parent[MOST_PATH];
    parent_of(asked, parent);
    node *above = find(parent);
    snprintf(path, MOST_PATH, "%s", asked);
    if (strcmp(parent, "/") != 0 && above == NULL) {
        return ZNONODE;
    }
    if (mode == ZOO_EPHEMERAL_SEQUENTIAL || mode == ZOO_PERSISTENT_SEQUENTIAL) {
        snprintf(path, MOST_PATH, "%.150s%010d", asked, above != NULL ? above->counter : 0);
    }
    if (find(path) != NULL) {
        return ZNODEEXISTS;
    }
    for (int i = 0; i < MOST_NODES; i++) {
        node *made = &server.nodes[i];
        if (!made->used) {
            *made = (node){.used = true, .czxid = ++server.zxid, .mzxid = server.zxid};
            snprintf(made->path, sizeof made->path, "%s", path);
            made->length = snprintf(made->data, sizeof made->data, "%.60s", data);
            made->owner = mode == ZOO_EPHEMERAL || mode == ZOO_EPHEMERAL_SEQUENTIAL ? server.session : 0;
            if (above != NULL) {
                above->counter++;
                above->cversion++;
            }
            fire(parent, ZOO_CHILD_EVENT, true);
            fire(path, ZOO_CREATED_EVENT, false);
            return ZOK;
        }
    }
    return ZSYSTEMERROR;
}

static int32_t delete (const char *path)
{
    node *old = find(path);
    if (old == NULL) {
        return ZNONODE;
    }
    old->used = false;
    server.zxid++;
    char parent[MOST_PATH];
    parent_of(path, parent);
    fire(path, ZOO_DELETED_EVENT, false);
    fire(parent, ZOO_CHILD_EVENT, true);
    return ZOK;
}

static int32_t set(const char *path, const char *data)
{
    node *old = find(path);
    if (old == NULL) {
        return ZNONODE;
    }
    old->length = snprintf(old->data, sizeof old->data, "%.60s", data);
    old->version++;
    old->mzxid = ++server.zxid;
    fire(path, ZOO_CHANGED_EVENT, false);
    return ZOK;
}

/* --- answers --------------------------------------------------------------------------------------------------------- */

static void put_stat(packet *p, const node *of)
{
    static const node none;
    bool lie = lies();
    of = of != NULL ? of : &none;
    put_long(p, lie ? any_number() : of->czxid);
    put_long(p, lie ? any_number() : of->mzxid);
    put_long(p, 0);
    put_long(p, 0);
    put_int(p, lie ? any_number() : of->version);
    put_int(p, lie ? any_number() : of->cversion);
    put_int(p, 0);
    put_long(p, lie ? any_number() : of->owner);
    put_int(p, lie ? any_number() : of->length);
    put_int(p, 0);
    put_long(p, 0);
}

static void any_name(char *name, size_t size)
{
    static const char *const names[] = {"",
                                        "a/b",
                                        "x/-lock-0000000000",
                                        "lock-2147483647",
                                        "lock--000000001",
                                        "_c_00000000-0000-4000-8000-000000000000-lock-0000000000",
                                        "_c_00000000-0000-4000-8000-000000000000-__READ__0000000000",
                                        "_c_00000000-0000-4000-8000-000000000000-__WRIT__0000000001",
                                        "_c_00000000-0000-4000-8000-000000000000-lease-0000000000",
                                        "\x01-lock-0000000000",
                                        "..",
                                        "lock-99999999999999999999",
                                        "-lock-0000000000",
                                        "\xff\xfe"};
    size_t choice = take(server.in);
    if (choice < 14) {
        snprintf(name, size, "%s", names[choice]);
        return;
    }
    const node *one = &server.nodes[choice % MOST_NODES];
    const char *slash = one->used ? strrchr(one->path, '/') : NULL;
    snprintf(name, size, "%s", slash != NULL ? slash + 1 : "0");
}

/* The path of the created node, or something else. Of negative length only where the C client checks whether it has read a path. */
static void put_created(packet *p, const char *path, bool may_be_missing)
{
    char other[MOST_PATH * 2] = "", name[MOST_PATH], parent[MOST_PATH];
    if (!lies()) {
        put_text(p, path);
        return;
    }
    any_name(name, sizeof name);
    parent_of(path, parent);
    switch (take(server.in) % 6) {
    case 0:
        if (may_be_missing && strcmp(name, "..") == 0) {
            put_int(p, -1);
            return;
        }
        break;
    case 1:
        snprintf(other, sizeof other, "%s", name);
        break;
    case 2:
        snprintf(other, sizeof other, "%s/%s", parent, name);
        break;
    case 3:
        snprintf(other, sizeof other, "/%s", name);
        break;
    case 4:
        snprintf(other, sizeof other, "%.*s%d", (int)(strlen(path) > 10 ? strlen(path) - 10 : 0), path,
                 (int)any_number());
        break;
    default:
        snprintf(other, sizeof other, "%s/%s", path, name);
        break;
    }
    put_text(p, other);
}

static void put_data(packet *p, const node *of)
{
    if (!lies()) {
        put_int(p, of->length);
        put(p, of->data, (size_t)of->length);
        return;
    }
    static const char *const texts[] = {"__REVOKE__", "", "0", "-1", "99999999999999999999", "1", "2", "3 "};
    uint8_t choice = take(server.in);
    if (choice < 8) {
        put_text(p, texts[choice]);
    } else if (choice < 100) {
        put_int(p, -1);
    } else if (choice < 200) {
        put_int(p, -2 - choice); /* the C client stops reading here */
    } else {
        put_int(p, 20000);
        for (int i = 0; i < 2500; i++) {
            put(p, "12345678", 8);
        }
    }
}

static void free_list(told_list *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->names[i]);
    }
    list->count = 0;
}

static void tell_name(told_list *list, packet *names, const char *name)
{
    put_text(names, name);
    if (list->count < MOST_NODES && (list->names[list->count] = strdup(name)) != NULL) {
        list->count++;
    }
}

static void put_children(packet *p, const char *directory)
{
    static packet names;
    names.length = 0;
    told_list *list = &server.lists[server.list_count++ % MOST_LISTS];
    free_list(list);
    snprintf(list->directory, sizeof list->directory, "%s", directory);
    int count = 0;
    for (int i = 0; i < MOST_NODES; i++) {
        const char *name;
        if (server.nodes[i].used && is_child(directory, server.nodes[i].path, &name) && !lies()) {
            tell_name(list, &names, name);
            count++;
        }
    }
    while (lies() && count < MOST_NODES) {
        char name[MOST_PATH];
        uint8_t choice = take(server.in);
        if (choice < 40) {
            put_int(&names, -1 - choice); /* a name of negative length: this name and those after it are NULL */
            free_list(list);
        } else if (choice < 44) {
            for (int i = 0; i < 400; i++) {
                put_text(&names, "a name that stands here many times-lock-0000000000");
            }
            count += 399;
        } else {
            any_name(name, sizeof name);
            tell_name(list, &names, name);
        }
        count++;
    }
    bool more = lies();
    int beyond = more ? 1 + take(server.in) : 0; /* more than follow: those are NULL */
    put_int(p, beyond == 256 ? -1 : count + beyond);
    put(p, names.bytes, names.length);
    if (more) {
        free_list(list);
    }
}

/* --- requests -------------------------------------------------------------------------------------------------------- */

static void read_create(reader *r, char *path, char *data, int32_t *mode)
{
    char text[64];
    get_text(r, path, MOST_PATH);
    get_text(r, data, 64);
    for (int32_t i = get_int(r); i > 0 && r->left > 0; i--) {
        get_int(r);
        get_text(r, text, sizeof text);
        get_text(r, text, sizeof text);
    }
    *mode = get_int(r);
}

/* Notes the czxid of the stat that begins at `from` in the body. */
static void note_told(const char *path, const packet *body, size_t from)
{
    told_node *told = &server.told[server.told_count++ % MOST_TOLD];
    uint64_t czxid = 0;
    for (size_t i = from; i < from + 8 && i < body->length; i++) {
        czxid = czxid << 8 | body->bytes[i];
    }
    snprintf(told->path, sizeof told->path, "%s", path);
    told->czxid = (int64_t)czxid;
    told->deleted = false;
}

static void note_deleted(const char *path)
{
    for (int i = 0; i < MOST_TOLD; i++) {
        server.told[i].deleted = server.told[i].deleted || strcmp(server.told[i].path, path) == 0;
    }
}

static void note_asked(const char *path)
{
    snprintf(server.asked[server.asked_count++ % MOST_ASKED], MOST_PATH, "%s", path);
}

static void put_multi_header(packet *p, int32_t type, bool done, int32_t error)
{
    put_int(p, type);
    put(p, done ? "\1" : "\0", 1);
    put_int(p, error);
}

#define MOST_PARTS 256

/* All or nothing, except that the tree is changed and changed back. Returns the error of the header. */
static int32_t multi(reader *r, packet *body)
{
    int32_t types[MOST_PARTS], errors[MOST_PARTS];
    static char created[MOST_PARTS][MOST_PATH];
    int count = 0, told = MOST_PARTS;
    int32_t failed = ZOK;
    for (int32_t type = get_int(r); r->left > 0 && count < MOST_PARTS; type = get_int(r)) {
        char path[MOST_PATH], data[64];
        int32_t mode, error = ZOK;
        bool done = r->at[0] != 0;
        r->at++;
        r->left--;
        get_int(r);
        if (done) {
            break;
        }
        created[count][0] = '\0';
        if (type == ZOO_CREATE_OP || type == ZOO_CREATE_CONTAINER_OP) {
            read_create(r, path, data, &mode);
            note_asked(path);
            error = failed != ZOK ? ZRUNTIMEINCONSISTENCY : create(path, data, mode, created[count]);
        } else {
            get_text(r, path, sizeof path);
            if (type == ZOO_SETDATA_OP) {
                get_text(r, data, sizeof data);
            }
            get_int(r);
            error = failed != ZOK            ? ZRUNTIMEINCONSISTENCY
                    : type == ZOO_DELETE_OP  ? delete (path)
                    : type == ZOO_SETDATA_OP ? set(path, data)
                    : find(path) != NULL     ? ZOK
                                             : ZNONODE;
        }
        if (lies()) {
            uint8_t choice = take(server.in);
            error = choice % 2 == 0 ? ZOK : any_error();
            told = choice == 254 ? count : told; /* the answer ends before this part */
        }
        failed = failed == ZOK ? error : failed;
        types[count] = type;
        errors[count++] = error;
    }
    bool as_failed = failed != ZOK && !lies();
    for (int i = 0; i < count && i < told; i++) {
        if (as_failed || errors[i] != ZOK) {
            put_multi_header(body, -1, false, errors[i]);
            put_int(body, errors[i]);
            continue;
        }
        put_multi_header(body, types[i], false, lies() ? any_error() : ZOK);
        if (types[i] == ZOO_CREATE_OP || types[i] == ZOO_CREATE_CONTAINER_OP) {
            put_created(body, created[i], true);
        } else if (types[i] == ZOO_SETDATA_OP) {
            put_stat(body, NULL);
        }
    }
    put_multi_header(body, -1, true, -1);
    return ZOK; /* the parts of a failed multi say that it failed */
}

/* Executes the request and makes the body of its answer. Returns the error for the header. */
static int32_t execute(int32_t type, reader *r, packet *body)
{
    char path[MOST_PATH] = "", data[64] = "", made[MOST_PATH];
    int32_t mode, error;
    const node *of;
    if (type == ZOO_MULTI_OP) {
        return multi(r, body);
    }
    if (type == ZOO_CREATE_OP || type == ZOO_CREATE2_OP || type == ZOO_CREATE_CONTAINER_OP) {
        read_create(r, path, data, &mode);
        note_asked(path);
        server.writes++;
        error = create(path, data, mode, made);
        put_created(body, made, type != ZOO_CREATE2_OP && type != ZOO_CREATE_CONTAINER_OP);
        size_t stat = body->length;
        put_stat(body, find(made));
        note_told(made, body, stat);
        return error;
    }
    get_text(r, path, sizeof path);
    of = find(path);
    error = of != NULL || strcmp(path, "/") == 0 ? ZOK : ZNONODE;
    bool watches = (type == ZOO_EXISTS_OP || type == ZOO_GETDATA_OP || type == ZOO_GETCHILDREN_OP ||
                    type == ZOO_GETCHILDREN2_OP) &&
                   r->left > 0 && r->at[0] != 0;
    switch (type) {
    case ZOO_DELETE_OP:
        server.writes++;
        error = delete (path);
        if (error == ZOK) {
            note_deleted(path);
        }
        return error;
    case ZOO_EXISTS_OP:
        put_stat(body, of);
        note_told(path, body, 0);
        break;
    case ZOO_GETDATA_OP:
        put_data(body, of != NULL ? of : &(node){0});
        put_stat(body, of);
        snprintf(server.read, sizeof server.read, "%s", path);
        break;
    case ZOO_SETDATA_OP:
        get_text(r, data, sizeof data);
        error = set(path, data);
        put_stat(body, find(path));
        break;
    case ZOO_GETCHILDREN_OP:
    case ZOO_GETCHILDREN2_OP:
        put_children(body, path);
        put_stat(body, of);
        break;
    case ZOO_SYNC_OP:
        put_text(body, path);
        return ZOK;
    case ZOO_REMOVE_WATCHES:
        return ZOK;
    default:
        return ZOK;
    }
    if (watches && (error == ZOK || type == ZOO_EXISTS_OP)) {
        watch(path, type == ZOO_GETCHILDREN_OP || type == ZOO_GETCHILDREN2_OP);
    }
    return error;
}

/* --- the wire -------------------------------------------------------------------------------------------------------- */

static void hang_up(void)
{
    if (server.fd >= 0) {
        close(server.fd);
    }
    server.fd = -1;
    server.probed = server.mute = false;
    server.got_length = server.held.length = 0;
    server.unanswered = 0;
    server.watch_count = 0;
}

static void write_all(const void *bytes, size_t length)
{
    if (server.fd >= 0 && !server.mute &&
        send(server.fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length) {
        hang_up();
    }
}

/* Sends the packet with its length before it. */
static void flush(packet *p)
{
    uint32_t length = htonl((uint32_t)p->length);
    if (lies()) {
        uint8_t how = take(server.in) % 8;
        if (how == 0) { /* a wrong length, and then nothing */
            uint32_t number = (uint32_t)(uint64_t)any_number();
            length = htonl(number == 0 ? 1 : number); /* an empty packet would be complete at once, and has no header */
            write_all(&length, 4);
            server.mute = true;
            return;
        }
        if (how == 1) { /* the connection ends in the middle of a packet */
            write_all(&length, 4);
            write_all(p->bytes, p->length / 2);
            hang_up();
            return;
        }
        if (how == 2) { /* longer than its content */
            static const uint8_t more[300];
            put(p, more, sizeof more);
            length = htonl((uint32_t)p->length);
        }
    }
    write_all(&length, 4);
    write_all(p->bytes, p->length);
}

static void send_held(void)
{
    if (server.held.length > 0) {
        static packet late;
        late = server.held;
        server.held.length = 0;
        server.unanswered--;
        flush(&late);
    }
}

/* The number of requests that have arrived after the one that is being answered. */
static int requests_behind(void)
{
    int count = 0;
    reader rest = {server.got, server.got_length};
    for (bool present = true; rest.left >= 4; present = false) {
        size_t length = (size_t)(uint32_t)get_int(&rest);
        if (length > rest.left) {
            break;
        }
        reader request = {rest.at, length};
        count += !present && get_int(&request) >= 0 && get_int(&request) != ZOO_CLOSE_OP;
        rest.at += length;
        rest.left -= length;
    }
    return count;
}

/* See fake_server.h: the body is not an event's, and no credentials were sent that could be refused. */
static bool is_deadly(int32_t number, int32_t error)
{
    return number == EVENT_NUMBER || (number == CREDENTIALS_NUMBER && error != ZOK);
}

static void answer(int32_t xid, int64_t zxid, int32_t error, const packet *body)
{
    static packet p;
    p.length = 0;
    uint8_t how = lies() ? take(server.in) % 8 : 255;
    int32_t number = how == 0 ? (int32_t)any_number() : xid;
    put_int(&p, is_deadly(number, error) ? xid + 1 : number);
    put_long(&p, how == 1 ? any_number() : zxid);
    if (how == 2) {
        /* An error in place of a result. The other way round there would be no body. */
        error = any_error();
    }
    put_int(&p, error);
    if (error == ZNONODE && server.read[0] != '\0') {
        note_gone(server.read);
    }
    if (error == ZOK) {
        put(&p, body->bytes, body->length);
    }
    if (how == 3) {
        return; /* never; the next answer will not match */
    }
    if (how == 4 && server.held.length == 0) {
        server.held = p; /* after the next one */
        return;
    }
    server.unanswered--;
    flush(&p);
    if (how == 5 && server.unanswered + requests_behind() > 0) {
        flush(&p); /* twice */
    }
    send_held();
}

static void handle(reader *r)
{
    static packet body;
    body.length = 0;
    server.read[0] = '\0';
    int32_t xid = get_int(r);
    int32_t type = get_int(r);
    if (type == ZOO_CLOSE_OP) {
        hang_up();
        return;
    }
    server.unanswered += xid >= 0;
    int32_t error = xid < 0 ? ZOK : execute(type, r, &body);
    if (server.fd < 0) {
        return;
    }
    if (xid >= 0) {
        answer(xid, server.zxid, error, &body);
    } else {
        static packet p;
        p.length = 0;
        put_int(&p, xid);
        put_long(&p, server.zxid);
        put_int(&p, lies() && xid == CREDENTIALS_NUMBER ? any_error() : ZOK);
        if (!lies()) {
            flush(&p);
        }
    }
}

/* Answers the handshake in place of a ZooKeeper. */
static void probe(reader *r)
{
    static packet p;
    p.length = 0;
    get_int(r); /* version */
    get_int(r); /* last zxid */
    get_int(r);
    int32_t timeout = get_int(r);
    bool knows = get_int(r) == (int32_t)(server.session >> 32);
    if (!knows || lies()) {
        for (int i = 0; i < MOST_NODES; i++) {
            if (server.nodes[i].used && server.nodes[i].owner == server.session) {
                server.nodes[i].used = false;
            }
        }
        server.session += INT64_C(1) << 32;
    }
    server.probed = true;
    if (lies() && take(server.in) % 2 == 0) {
        static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
        write_all(text, sizeof text - 1);
        server.mute = true;
        return;
    }
    put_int(&p, 0);
    put_int(&p, lies() ? any_number() : timeout);
    put_long(&p, lies() ? any_number() : server.session);
    put_int(&p, lies() ? any_number() : 16);
    put(&p, "0123456789abcdef", 16);
    put(&p, lies() ? "\1" : "\0", 1);
    uint32_t length = htonl((uint32_t)p.length);
    write_all(&length, 4);
    write_all(p.bytes, p.length);
}

int server_start(void)
{
    static int port;
    if (listener < 0) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 64) != 0 ||
            getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
            perror("fake_server");
            abort();
        }
        port = ntohs(address.sin_port);
    }
    return port;
}

void server_begin(input *in)
{
    memset(&server, 0, sizeof server);
    server.in = in;
    server.fd = -1;
    server.session = INT64_C(1) << 32 | 7;
    server.zxid = 100;
}

void server_end(void)
{
    hang_up();
    for (int i = 0; i < MOST_LISTS; i++) {
        free_list(&server.lists[i]);
    }
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        close(fd);
    }
}

void server_reform(void)
{
    if (!server.honest) {
        server.honest = true;
        hang_up(); /* answers that were not sent are lost */
    }
}

static void accept_client(void)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    hang_up();
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    /* No TIME_WAIT: there are thousands of connections a second. */
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    server.fd = fd;
}

void server_turn(void)
{
    accept_client();
    if (server.fd < 0) {
        return;
    }
    ssize_t n = recv(server.fd, server.got + server.got_length, sizeof server.got - server.got_length, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        hang_up();
        return;
    }
    server.got_length += n > 0 ? (size_t)n : 0;
    while (server.fd >= 0 && server.got_length >= 4) {
        reader head = {server.got, 4};
        size_t length = (size_t)(uint32_t)get_int(&head);
        if (length > sizeof server.got - 4 || server.got_length < 4 + length) {
            return;
        }
        reader request = {server.got + 4, length};
        if (server.probed) {
            handle(&request);
        } else {
            probe(&request);
        }
        if (server.got_length >= 4 + length) { /* unless it has hung up */
            server.got_length -= 4 + length;
            memmove(server.got, server.got + 4 + length, server.got_length);
        }
    }
}

void server_wait(int ms)
{
    struct pollfd fds[2] = {{.fd = listener, .events = POLLIN}, {.fd = server.fd, .events = POLLIN}};
    poll(fds, 2, ms);
}

void server_act(void)
{
    char path[MOST_PATH] = "/", name[MOST_PATH];
    const node *one = &server.nodes[take(server.in) % MOST_NODES];
    if (one->used) {
        snprintf(path, sizeof path, "%s", one->path);
    }
    switch (take(server.in) % 8) {
    case 0:
        hang_up();
        break;
    case 1:
        server.session += INT64_C(1) << 32;
        hang_up();
        break;
    case 2: /* an event that was not requested, or that did not happen */
        if (server.probed) {
            int32_t type = (int32_t)take(server.in) % 6;
            if (type == ZOO_DELETED_EVENT) {
                note_gone(path);
            }
            send_event(type, ZOO_CONNECTED_STATE, path);
        }
        break;
    case 3: /* an event that only the C client itself makes */
        if (server.probed) {
            send_event(ZOO_SESSION_EVENT, (int32_t)any_number(), "");
        }
        break;
    case 4:
        send_held();
        break;
    case 5:
        delete (path);
        break;
    case 6: {
        char parent[MOST_PATH], made[MOST_PATH], fresh[MOST_PATH * 2];
        any_name(name, sizeof name);
        parent_of(path, parent);
        snprintf(fresh, sizeof fresh, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name);
        if (strlen(fresh) < MOST_PATH && name[0] != '\0') {
            create(fresh, "somebody", ZOO_PERSISTENT, made);
        }
        break;
    }
    default:
        set(path, "__REVOKE__");
        break;
    }
}

/* --- what it has answered -------------------------------------------------------------------------------------------- */

bool server_was_asked_for(const char *path)
{
    for (int i = 0; i < MOST_ASKED; i++) {
        size_t length = strlen(server.asked[i]);
        if (length > 0 && strncmp(server.asked[i], path, length) == 0) {
            return true;
        }
    }
    return server.asked_count > MOST_ASKED;
}

static bool is_gone(const char *directory, const char *name)
{
    char path[MOST_PATH * 2];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    for (int i = 0; i < MOST_GONE; i++) {
        if (strcmp(server.gone[i], path) == 0) {
            return true;
        }
    }
    return server.gone_count > MOST_GONE;
}

static const told_list *list_with(const char *path, int *from)
{
    char parent[MOST_PATH];
    parent_of(path, parent);
    const char *name = strrchr(path, '/') + 1;
    for (; *from < MOST_LISTS; (*from)++) {
        const told_list *list = &server.lists[*from];
        for (int i = 0; strcmp(list->directory, parent) == 0 && i < list->count; i++) {
            if (strcmp(list->names[i], name) == 0) {
                (*from)++;
                return list;
            }
        }
    }
    return NULL;
}

bool server_told_first(const char *path, bool (*conflicts)(const char *own, const char *other))
{
    const char *name = strrchr(path, '/') + 1;
    const told_list *list;
    int from = 0;
    while ((list = list_with(path, &from)) != NULL) {
        bool first = true;
        for (int i = 0; i < list->count; i++) {
            const char *other = list->names[i];
            first = first && (!conflicts(name, other) || is_gone(list->directory, other));
        }
        if (first) {
            return true;
        }
    }
    return server.list_count > MOST_LISTS;
}

const told_node *server_told_nodes(int *count)
{
    *count = MOST_TOLD;
    return server.told_count <= MOST_TOLD ? server.told : NULL;
}

int64_t server_writes(void)
{
    return server.writes;
}

bool server_told_room(const char *path, int limit, bool (*counts)(const char *name))
{
    const told_list *list;
    int from = 0;
    while ((list = list_with(path, &from)) != NULL) {
        int count = 0;
        for (int i = 0; i < list->count; i++) {
            count += counts(list->names[i]);
        }
        if (count <= limit) {
            return true;
        }
    }
    return server.list_count > MOST_LISTS;
}

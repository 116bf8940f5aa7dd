/* base: what all layers stand on. */
#include "base.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- codes ------------------------------------------------------------------------------------------------------------ */

#ifdef ZKL_BREAKABLE
uint64_t zkl_broken_rules;
#endif

const char *zkl_code_name(zkl_code code)
{
    static const char *const names[] = {
        [ZKL_OK] = "ok",
        [ZKL_TIMEOUT] = "timeout",
        [ZKL_DISCONNECTED] = "disconnected",
        [ZKL_LOST] = "lost",
        [ZKL_NOT_HELD] = "not_held",
        [ZKL_DEADLOCK] = "deadlock",
        [ZKL_CANCELLED] = "cancelled",
        [ZKL_CLOSED] = "closed",
        [ZKL_NO_AUTH] = "no_auth",
        [ZKL_AUTH_FAILED] = "auth_failed",
        [ZKL_EXHAUSTED] = "exhausted",
        [ZKL_FORKED] = "forked",
        [ZKL_PHASE] = "phase",
        [ZKL_UNSUPPORTED] = "unsupported",
        [ZKL_NO_NODE] = "no_node",
        [ZKL_FAILED] = "failed",
        [ZKL_MISMATCH] = "mismatch",
        [ZKL_MAX_HOLD] = "max_hold",
        [ZKL_NODE_EXISTS] = "node_exists",
        [ZKL_BAD_VERSION] = "bad_version",
        [ZKL_NOT_EMPTY] = "not_empty",
        [ZKL_TLS_FAILED] = "tls_failed",
    };
    return names[code];
}

bool zkl_outcome_unknown(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZRUNTIMEINCONSISTENCY || rc == ZCLOSING ||
           rc == ZSESSIONMOVED;
}

bool zkl_not_answered(int rc)
{
    return zkl_outcome_unknown(rc) || rc == ZSESSIONEXPIRED || rc == ZINVALIDSTATE;
}

zkl_code zkl_code_of(int rc)
{
    switch (rc) {
    case ZOK:
        return ZKL_OK;
    case ZNOAUTH:
        return ZKL_NO_AUTH;
    case ZAUTHFAILED:
        return ZKL_AUTH_FAILED;
    case ZNONODE:
        return ZKL_NO_NODE;
    case ZNODEEXISTS:
        return ZKL_NODE_EXISTS;
    case ZBADVERSION:
        return ZKL_BAD_VERSION;
    case ZNOTEMPTY:
        return ZKL_NOT_EMPTY;
    default:
        return zkl_not_answered(rc) ? ZKL_DISCONNECTED : ZKL_FAILED;
    }
}

/* "Quota exceeded", an error of servers since 3.7. */
#define QUOTA_EXCEEDED (-125)

const char *zkl_words_of(int rc)
{
    return rc == QUOTA_EXCEEDED ? "a quota of ZooKeeper's is exceeded" : zerror(rc);
}

/* --- memory ----------------------------------------------------------------------------------------------------------- */

/* The size stands before each block. The union keeps the memory behind it aligned for any type. */
typedef union {
    size_t size;
    max_align_t align;
} header;

/* The largest block for the cache of glibc's malloc. */
#define SMALL 1024

static _Atomic int64_t in_use;

/* Set by tests. Attempts are counted from 0 since then. An attempt fails if fail_from <= its number < fail_to. */
static _Atomic bool failing;
static _Atomic int64_t attempts, fail_from, fail_to;

static bool may_succeed(void)
{
    if (!atomic_load_explicit(&failing, memory_order_acquire)) {
        return true;
    }
    int64_t attempt = atomic_fetch_add(&attempts, 1);
    return attempt < atomic_load(&fail_from) || attempt >= atomic_load(&fail_to);
}

/*
 * Returns a block with `size` zeros behind its header, or NULL. glibc's calloc bypasses the thread's own cache, from
 * which malloc takes recently freed memory without a lock. The header is not cleared: compilers turn a malloc and a
 * memset of the whole block into one calloc.
 */
static header *zeroed(size_t size)
{
    if (size > SMALL) {
        return calloc(1, sizeof(header) + size);
    }
    header *block = malloc(sizeof(header) + size);
    if (block != NULL) {
        memset(block + 1, 0, size);
    }
    return block;
}

void *zkl_alloc(size_t size)
{
    bool possible = size <= SIZE_MAX - sizeof(header) && may_succeed();
    header *block = possible ? zeroed(size) : NULL;
    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    atomic_fetch_add_explicit(&in_use, (int64_t)size, memory_order_relaxed);
    return block + 1;
}

char *zkl_copy(const char *text, size_t length)
{
    char *copy = zkl_alloc(length + 1);
    if (copy != NULL && length > 0) {
        memcpy(copy, text, length);
    }
    return copy;
}

void zkl_free(void *memory)
{
    if (memory == NULL) {
        return;
    }
    header *block = (header *)memory - 1;
    atomic_fetch_sub_explicit(&in_use, (int64_t)block->size, memory_order_relaxed);
    free(block);
}

void zkl_free_secret(void *memory)
{
    if (memory != NULL) {
        explicit_bzero(memory, ((header *)memory - 1)->size);
        zkl_free(memory);
    }
}

int64_t zkl_memory_in_use(void)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}

void zkl_memory_fail_some(int64_t successes, int64_t failures)
{
    atomic_store(&failing, false);
    atomic_store(&attempts, 0);
    atomic_store(&fail_from, successes);
    atomic_store(&fail_to, successes >= 0 && failures < INT64_MAX - successes ? successes + failures : INT64_MAX);
    atomic_store(&failing, successes >= 0);
}

void zkl_memory_fail_after(int64_t successes)
{
    zkl_memory_fail_some(successes, INT64_MAX);
}

void zkl_memory_recover(void)
{
    atomic_store(&fail_to, 0);
}

int64_t zkl_memory_attempts(void)
{
    return atomic_load(&attempts);
}

/* --- paths: which ones ZooKeeper, and a lock, may have ---------------------------------------------------------------- */

/* Turns a number that is a macro into text. */
#define TEXT_OF(number) AS_TEXT(number)
#define AS_TEXT(text) #text

static bool is_dots(const char *name, size_t length)
{
    return (length == 1 && name[0] == '.') || (length == 2 && name[0] == '.' && name[1] == '.');
}

/*
 * Returns the length of the UTF-8 character at `text`, of which `left` bytes are there, and stores its number in `*c`.
 * Returns 0 if there is no valid character.
 */
static size_t utf8_character(const char *text, size_t left, uint32_t *c)
{
    const unsigned char *bytes = (const unsigned char *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = bytes[0] < 0x80       ? 1
                    : bytes[0] >> 5 == 6  ? 2
                    : bytes[0] >> 4 == 14 ? 3
                    : bytes[0] >> 3 == 30 ? 4
                                          : 0;
    if (length == 0 || length > left) {
        return 0;
    }
    *c = length == 1 ? bytes[0] : bytes[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
        *c = *c << 6 | (bytes[i] & 0x3f);
    }
    return *c >= least[length] ? length : 0;
}

/*
 * Returns whether ZooKeeper's PathUtils refuses a character. It works on UTF-16, so that everything beyond U+FFFF
 * counts as surrogates.
 */
static bool is_forbidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0xd800 && c <= 0xf8ff) || c >= 0xfff0;
}

/* Returns the problem with the names in an absolute path that is not "/", or NULL. */
static const char *names_problem(const char *path, size_t length)
{
    size_t start = 1;
    for (size_t i = 1, step = 1; i <= length; i += step) {
        step = 1;
        if (i < length && path[i] != '/') {
            uint32_t c;
            step = utf8_character(path + i, length - i, &c);
            if (step == 0) {
                return "it must be UTF-8";
            }
            if (is_forbidden(c)) {
                return "it must not contain control characters or others that ZooKeeper forbids (U+D800 to U+F8FF, "
                       "U+FFF0 and beyond)";
            }
            continue;
        }
        if (i == start) {
            return "it must not contain an empty name ('//')";
        }
        if (is_dots(path + start, i - start)) {
            return "it must not contain the names '.' or '..'";
        }
        start = i + 1;
    }
    return NULL;
}

const char *zkl_node_path_problem(const char *path, size_t length)
{
    if (length == 0 || path[0] != '/') {
        return "it must start with '/'";
    }
    if (length > ZKL_LONGEST_PATH) {
        return "it must not be longer than " TEXT_OF(ZKL_LONGEST_PATH) " bytes: a server takes no request with more";
    }
    if (memchr(path, '\0', length) != NULL) {
        return "it must not contain a NUL byte";
    }
    if (length > 1 && path[length - 1] == '/') {
        return "it must not end with '/'";
    }
    return length > 1 ? names_problem(path, length) : NULL;
}

const char *zkl_path_problem(const char *path, size_t length)
{
    if (length == 1 && path[0] == '/') {
        return "a lock needs a directory of its own below '/'";
    }
    if (length >= 10 && strncmp(path, "/zookeeper", 10) == 0 && (length == 10 || path[10] == '/')) {
        return "'/zookeeper' is ZooKeeper's own";
    }
    if (length > ZKL_LONGEST_LOCK_PATH) {
        return "it must not be longer than " TEXT_OF(
            ZKL_LONGEST_LOCK_PATH) " bytes: it is in each of a lock's requests, in some "
                                   "more than once";
    }
    return zkl_node_path_problem(path, length);
}

char *zkl_child_path(const char *directory, const char *name)
{
    size_t stem = strlen(directory);
    size_t length = strlen(name);
    char *path = zkl_alloc(stem + 1 + length + 1);
    if (path != NULL) {
        memcpy(path, directory, stem);
        path[stem] = '/';
        memcpy(path + stem + 1, name, length);
    }
    return path;
}

/* --- access control lists: copies, and their text --------------------------------------------------------------------- */

bool zkl_acl_copy(struct ACL_vector *copy, const struct ACL_vector *acl)
{
    *copy = (struct ACL_vector){0, zkl_alloc((size_t)acl->count * sizeof *copy->data)};
    bool whole = copy->data != NULL;
    for (int32_t i = 0; whole && i < acl->count; i++) {
        struct ACL *entry = &copy->data[copy->count++];
        entry->perms = acl->data[i].perms;
        entry->id.scheme = zkl_copy(acl->data[i].id.scheme, strlen(acl->data[i].id.scheme));
        entry->id.id = zkl_copy(acl->data[i].id.id, strlen(acl->data[i].id.id));
        whole = entry->id.scheme != NULL && entry->id.id != NULL;
    }
    return whole;
}

void zkl_acl_free(struct ACL_vector *acl)
{
    for (int32_t i = 0; i < acl->count; i++) {
        zkl_free(acl->data[i].id.scheme);
        zkl_free(acl->data[i].id.id);
    }
    zkl_free(acl->data);
    *acl = (struct ACL_vector){0, NULL};
}

/* The letters of the permissions, from the lowest bit on. */
#define RIGHTS "rwcda"

char *zkl_acl_text(const struct ACL_vector *acl, int32_t *length)
{
    int32_t count = acl != NULL && acl->data != NULL ? acl->count : 0;
    size_t room = 1;
    for (int32_t i = 0; i < count; i++) {
        const struct Id *id = &acl->data[i].id;
        room +=
            sizeof ",::" RIGHTS + (id->scheme != NULL ? strlen(id->scheme) : 0) + (id->id != NULL ? strlen(id->id) : 0);
    }
    char *text = zkl_alloc(room);
    size_t used = 0;
    for (int32_t i = 0; text != NULL && i < count; i++) {
        const struct ACL *entry = &acl->data[i];
        used += (size_t)snprintf(text + used, room - used, "%s%s:%s:", i > 0 ? "," : "",
                                 entry->id.scheme != NULL ? entry->id.scheme : "",
                                 entry->id.id != NULL ? entry->id.id : "");
        for (int bit = 0; RIGHTS[bit] != '\0'; bit++) {
            if (((uint32_t)entry->perms >> bit & 1U) != 0) {
                text[used++] = RIGHTS[bit];
            }
        }
        text[used] = '\0';
    }
    *length = (int32_t)used;
    return text;
}

/* --- hash tables: with chains; a table doubles when it has as many elements as chains --------------------------------- */

uint32_t zkl_hash_text(const char *text, size_t length)
{
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (uint8_t)text[i]) * 16777619U;
    }
    return hash;
}

uint32_t zkl_hash_number(uint64_t number)
{
    return (uint32_t)(number * 0x9e3779b97f4a7c15U >> 32);
}

static struct zkl_chain_list *chain_of(const zkl_table *table, uint32_t hash)
{
    return &table->chains[hash & (table->size - 1)];
}

static zkl_link *link_of(const zkl_table *table, const void *element)
{
    return (zkl_link *)((uintptr_t)element + table->offset);
}

static void *element_of(const zkl_table *table, const zkl_link *link)
{
    return link != NULL ? (void *)((uintptr_t)link - table->offset) : NULL;
}

bool zkl_table_init(zkl_table *table, size_t offset)
{
    const uint32_t first = 64;
    table->offset = offset;
    table->chains = zkl_alloc(first * sizeof *table->chains);
    table->size = table->chains != NULL ? first : 0;
    return table->chains != NULL;
}

void zkl_table_free(zkl_table *table)
{
    zkl_free(table->chains);
}

static void grow(zkl_table *table)
{
    zkl_table larger = *table;
    larger.size *= 2;
    larger.chains = zkl_alloc(larger.size * sizeof *larger.chains);
    if (larger.chains == NULL) {
        return; /* longer chains work too */
    }
    for (uint32_t i = 0; i < table->size; i++) {
        zkl_link *link;
        while ((link = LIST_FIRST(&table->chains[i])) != NULL) {
            LIST_REMOVE(link, in_chain);
            LIST_INSERT_HEAD(chain_of(&larger, link->hash), link, in_chain);
        }
    }
    zkl_free(table->chains);
    *table = larger;
}

void zkl_table_add(zkl_table *table, void *element, uint32_t hash)
{
    if (table->count >= table->size) {
        grow(table);
    }
    table->count++;
    zkl_link *link = link_of(table, element);
    link->hash = hash;
    LIST_INSERT_HEAD(chain_of(table, hash), link, in_chain);
}

void zkl_table_remove(zkl_table *table, void *element)
{
    table->count--;
    LIST_REMOVE(link_of(table, element), in_chain);
}

static const zkl_link *of_hash(const zkl_link *link, uint32_t hash)
{
    while (link != NULL && link->hash != hash) {
        link = LIST_NEXT(link, in_chain);
    }
    return link;
}

void *zkl_table_find(const zkl_table *table, uint32_t hash)
{
    return element_of(table, of_hash(LIST_FIRST(chain_of(table, hash)), hash));
}

void *zkl_table_find_next(const zkl_table *table, const void *element)
{
    const zkl_link *link = link_of(table, element);
    return element_of(table, of_hash(LIST_NEXT(link, in_chain), link->hash));
}

void *zkl_table_after(const zkl_table *table, const void *element)
{
    const zkl_link *link = element != NULL ? link_of(table, element) : NULL;
    const zkl_link *next = link != NULL ? LIST_NEXT(link, in_chain) : NULL;
    uint32_t chain = link != NULL ? (link->hash & (table->size - 1)) + 1 : 0;
    for (; next == NULL && chain < table->size; chain++) {
        next = LIST_FIRST(&table->chains[chain]);
    }
    return element_of(table, next);
}

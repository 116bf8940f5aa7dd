/*
 * sim_acl: access control lists and identities, as the servers of ZooKeeper 3.8 treat them (AuthUtil.java,
 * PrepRequestProcessor.fixupACL, ZooKeeperServer.checkACL, DigestAuthenticationProvider.java).
 *
 * An identity belongs to a connection between a client and a server: the client sends its credentials again on each
 * connection. The schemes are world (only "anyone"), auth (in lists that a client sends, never in stored lists), digest
 * and ip. All clients have the same address. A server without an authentication provider for a scheme refuses
 * credentials and lists of that scheme. These servers do so with all other schemes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

#define CLIENT_ADDRESS UINT32_C(0x7f000001)

/* ---- SHA-1 (FIPS 180-4) and base64, for digests ---- */

#define SHA1_BLOCK 64
#define SHA1_SIZE ((size_t)20)

static uint32_t rotate_left(uint32_t value, int by)
{
    return value << by | value >> (32 - by);
}

static void hash_block(uint32_t state[5], const unsigned char *block)
{
    uint32_t words[80];
    for (int i = 0; i < 16; i++, block += 4)
        words[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | (uint32_t)block[3];
    for (int i = 16; i < 80; i++)
        words[i] = rotate_left(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 80; i++) {
        uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + UINT32_C(0x5a827999)
                         : i < 40 ? (b ^ c ^ d) + UINT32_C(0x6ed9eba1)
                         : i < 60 ? ((b & c) | (b & d) | (c & d)) + UINT32_C(0x8f1bbcdc)
                                  : (b ^ c ^ d) + UINT32_C(0xca62c1d6);
        uint32_t next = rotate_left(a, 5) + mixed + e + words[i];
        e = d;
        d = c;
        c = rotate_left(b, 30);
        b = a;
        a = next;
    }
    const uint32_t last[5] = {a, b, c, d, e};
    for (int i = 0; i < 5; i++)
        state[i] += last[i];
}

static void sha1(const char *text, size_t length, unsigned char out[SHA1_SIZE])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    size_t whole = length - length % SHA1_BLOCK;
    for (size_t i = 0; i < whole; i += SHA1_BLOCK)
        hash_block(state, (const unsigned char *)text + i);
    unsigned char rest[2 * SHA1_BLOCK] = {0};
    memcpy(rest, text + whole, length - whole);
    rest[length - whole] = 0x80;
    size_t size = length - whole + 9 > SHA1_BLOCK ? 2 * SHA1_BLOCK : SHA1_BLOCK;
    for (int i = 0; i < 8; i++)
        rest[size - 1 - (size_t)i] = (unsigned char)((uint64_t)length * 8 >> (8 * i));
    for (size_t i = 0; i < size; i += SHA1_BLOCK)
        hash_block(state, rest + i);
    for (size_t i = 0; i < SHA1_SIZE; i++)
        out[i] = (unsigned char)(state[i / 4] >> (24 - i % 4 * 8));
}

/* Writes base64 of `bytes` and a NUL to `out`. */
static void base64(const unsigned char *bytes, size_t length, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= i + 1 < length ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= i + 2 < length ? bytes[i + 2] : 0;
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = digits[group >> 6 & 63];
        *out++ = digits[group & 63];
    }
    if (length % 3 != 0)
        out[-1] = '=';
    if (length % 3 == 1)
        out[-2] = '=';
    *out = '\0';
}

/* user:password -> user:base64(sha1(user:password)) */
static char *make_digest(const char *credential, size_t length)
{
    const char *colon = memchr(credential, ':', length);
    size_t user = colon != NULL ? (size_t)(colon - credential) : length;
    unsigned char hash[SHA1_SIZE];
    sha1(credential, length, hash);
    char *id = sim_alloc(user + 1 + (SHA1_SIZE + 2) / 3 * 4 + 1);
    memcpy(id, credential, user);
    id[user] = ':';
    base64(hash, sizeof(hash), id + user + 1);
    return id;
}

/* ---- identities ---- */

bool sim_add_identity(const sim_identity **identities, const char *scheme, const char *credential, size_t length)
{
    if (strcmp(scheme, "ip") == 0)
        return true; /* each connection has its address as an identity */
    if (strcmp(scheme, "digest") != 0)
        return false;
    char *id = make_digest(credential, length);
    for (const sim_identity *each = *identities; each != NULL; each = each->next) {
        if (strcmp(each->id, id) == 0)
            return true;
    }
    sim_identity *fresh = sim_alloc(sizeof(*fresh));
    *fresh = (sim_identity){*identities, scheme, id};
    *identities = fresh;
    return true;
}

uint64_t sim_identities_hash(const sim_identity *identities)
{
    uint64_t hash = 0;
    for (const sim_identity *each = identities; each != NULL; each = each->next)
        hash = sim_mix(hash ^ sim_hash_text(each->scheme), sim_hash_text(each->id));
    return hash;
}

/* ---- lists ---- */

static sim_acl *new_acl(int capacity)
{
    return sim_alloc(sizeof(sim_acl) + (size_t)capacity * sizeof(sim_acl_entry));
}

static bool is_anyone(const sim_acl_entry *entry)
{
    return strcmp(entry->scheme, "world") == 0 && strcmp(entry->id, "anyone") == 0;
}

/* Returns NULL if anyone may do everything, as with most nodes. */
static const sim_acl *simplify(const sim_acl *acl)
{
    for (int i = 0; i < acl->count; i++) {
        if (is_anyone(&acl->entries[i]) && (acl->entries[i].permissions & ZOO_PERM_ALL) == ZOO_PERM_ALL)
            return NULL;
    }
    return acl;
}

const sim_acl *sim_keep_acl(const struct ACL_vector *from)
{
    if (from == NULL || from->count == 0 || from == &ZOO_OPEN_ACL_UNSAFE || from->data == ZOO_OPEN_ACL_UNSAFE.data)
        return NULL;
    sim_acl *acl = new_acl(from->count);
    for (int i = 0; i < from->count; i++) {
        const struct ACL *entry = &from->data[i];
        acl->entries[acl->count++] = (sim_acl_entry){.permissions = entry->perms,
                                                     .scheme = sim_copy(entry->id.scheme, strlen(entry->id.scheme)),
                                                     .id = sim_copy(entry->id.id, strlen(entry->id.id))};
    }
    return acl;
}

/* DigestAuthenticationProvider.isValid: user:digest. */
static bool is_digest(const char *id)
{
    const char *colon = strchr(id, ':');
    return colon != NULL && colon[1] != '\0' && strchr(colon + 1, ':') == NULL;
}

/* Parses an IPv4 address with an optional number of significant bits (IPAuthenticationProvider.isValid). */
static bool read_addresses(const char *id, uint32_t *address, int *bits)
{
    *address = 0;
    *bits = 32;
    for (int i = 0; i < 4; i++) {
        char *end;
        long part = strtol(id, &end, 10);
        if (end == id || part < 0 || part > 255 || (i < 3 && *end != '.'))
            return false;
        *address = *address << 8 | (uint32_t)part;
        id = i < 3 ? end + 1 : end;
    }
    if (*id == '/') {
        char *end;
        long count = strtol(id + 1, &end, 10);
        if (end == id + 1 || count < 0 || count > 32)
            return false;
        *bits = (int)count;
        id = end;
    }
    return *id == '\0';
}

/* Returns whether the clients' address is among these addresses. */
static bool is_client_address(const char *id)
{
    uint32_t address;
    int bits;
    return read_addresses(id, &address, &bits) && (bits == 0 || (address ^ CLIENT_ADDRESS) >> (32 - bits) == 0);
}

static bool is_valid(const sim_acl_entry *entry)
{
    uint32_t address;
    int bits;
    if (strcmp(entry->scheme, "digest") == 0)
        return is_digest(entry->id);
    if (strcmp(entry->scheme, "ip") == 0)
        return read_addresses(entry->id, &address, &bits);
    return is_anyone(entry);
}

int sim_expand_acl(const sim_acl *sent, const sim_identity *identities, const sim_acl **out)
{
    *out = NULL;
    if (sent == NULL)
        return ZOK;
    int known = 0;
    for (const sim_identity *each = identities; each != NULL; each = each->next)
        known++;
    sim_acl *acl = new_acl(sent->count * (known + 1));
    for (int i = 0; i < sent->count; i++) {
        const sim_acl_entry *entry = &sent->entries[i];
        bool auth = strcmp(entry->scheme, "auth") == 0;
        if (auth && known == 0)
            return ZINVALIDACL;
        if (!auth && !is_valid(entry))
            return ZINVALIDACL;
        if (!auth)
            acl->entries[acl->count++] = *entry;
        for (const sim_identity *each = identities; auth && each != NULL; each = each->next)
            acl->entries[acl->count++] = (sim_acl_entry){entry->permissions, each->scheme, each->id};
    }
    *out = simplify(acl);
    return ZOK;
}

bool sim_acl_permits(const sim_acl *acl, int permission, const sim_identity *identities)
{
    for (int i = 0; acl != NULL && i < acl->count; i++) {
        const sim_acl_entry *entry = &acl->entries[i];
        if ((entry->permissions & permission) == 0)
            continue;
        if (is_anyone(entry) || (strcmp(entry->scheme, "ip") == 0 && is_client_address(entry->id)))
            return true;
        for (const sim_identity *each = identities; each != NULL; each = each->next) {
            if (strcmp(each->scheme, entry->scheme) == 0 && strcmp(each->id, entry->id) == 0)
                return true;
        }
    }
    return acl == NULL;
}

uint64_t sim_acl_hash(const sim_acl *acl)
{
    uint64_t hash = 0;
    for (int i = 0; acl != NULL && i < acl->count; i++) {
        const sim_acl_entry *entry = &acl->entries[i];
        hash = sim_mix(hash ^ (uint64_t)entry->permissions, sim_hash_text(entry->scheme));
        hash = sim_mix(hash, sim_hash_text(entry->id));
    }
    return hash;
}

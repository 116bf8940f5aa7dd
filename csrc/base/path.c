/*
 * path: which paths ZooKeeper, and a lock, may have.
 */
#include <string.h>

#include "base.h"

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

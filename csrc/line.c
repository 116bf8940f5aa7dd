/*
 * queue: a lock's directory with the entries of this client in it, and its parent directories.
 *
 * Queues are found by path. A queue is freed when its last user drops it; some are kept for what is known of them. A
 * queue makes its own parents: all directories on the way are created in one go, as container nodes where the server
 * has those. So a deep path costs one round trip. Only the answer for the queue's own directory counts. For each of the
 * directories, NODEEXISTS is as good as OK.
 */
#include <stdlib.h>
#include <string.h>

#include "engine_private.h"

#define FIRST_SLOTS 64

/* The number of queues that are kept for what is known of them, beside those in use. */
#define MOST_KEPT 1024

/* FNV-1a. */
static uint32_t hash(const char *path, size_t length)
{
    uint32_t h = 2166136261U;
    for (size_t i = 0; i < length; i++) {
        h = (h ^ (uint8_t)path[i]) * 16777619U;
    }
    return h;
}

static struct zkl_line_list *slot_of(const zkl_engine *engine, const char *path, size_t length)
{
    return &engine->lines[hash(path, length) & (engine->line_slots - 1)];
}

bool zkl_lines_init(zkl_engine *engine)
{
    engine->lines = zkl_alloc(FIRST_SLOTS * sizeof *engine->lines);
    engine->line_slots = engine->lines != NULL ? FIRST_SLOTS : 0;
    return engine->lines != NULL;
}

static void grow(zkl_engine *engine)
{
    uint32_t slots = engine->line_slots * 2;
    struct zkl_line_list *old = engine->lines;
    struct zkl_line_list *lines = zkl_alloc(slots * sizeof *lines);
    if (lines == NULL) {
        return; /* longer chains work too */
    }
    uint32_t old_slots = engine->line_slots;
    engine->lines = lines;
    engine->line_slots = slots;
    for (uint32_t i = 0; i < old_slots; i++) {
        zkl_line *line;
        while ((line = LIST_FIRST(&old[i])) != NULL) {
            LIST_REMOVE(line, hash);
            LIST_INSERT_HEAD(slot_of(engine, line->path, strlen(line->path)), line, hash);
        }
    }
    zkl_free(old);
}

static zkl_line *new_line(zkl_engine *engine, const char *path)
{
    size_t length = strlen(path);
    zkl_line *line = zkl_alloc(sizeof *line);
    char *copy = zkl_copy(path, length);
    if (line == NULL || copy == NULL) {
        zkl_free(line);
        zkl_free(copy);
        return NULL;
    }
    line->engine = engine;
    line->path = copy;
    TAILQ_INIT(&line->seats);
    LIST_INIT(&line->watches);
    if (engine->line_count >= engine->line_slots) {
        grow(engine);
    }
    LIST_INSERT_HEAD(slot_of(engine, path, length), line, hash);
    engine->line_count++;
    return line;
}

zkl_line *zkl_line_find(const zkl_engine *engine, const char *path, size_t length)
{
    zkl_line *line;
    LIST_FOREACH(line, slot_of(engine, path, length), hash)
    {
        if (strncmp(line->path, path, length) == 0 && line->path[length] == '\0') {
            return line;
        }
    }
    return NULL;
}

zkl_line *zkl_line_take(zkl_engine *engine, const char *path)
{
    zkl_line *line = zkl_line_find(engine, path, strlen(path));
    if (line == NULL) {
        line = new_line(engine, path);
    }
    if (line != NULL) {
        line->uses++;
    }
    return line;
}

void zkl_line_drop(zkl_line *line)
{
    if (--line->uses > 0) {
        return;
    }
    LIST_REMOVE(line, hash);
    line->engine->line_count--;
    zkl_free(line->path);
    zkl_free(line);
}

static void let_go(zkl_line *line)
{
    TAILQ_REMOVE(&line->engine->kept, line, in_kept);
    line->engine->kept_count--;
    line->kept = false;
    zkl_line_drop(line);
}

void zkl_line_keep(zkl_line *line)
{
    zkl_engine *engine = line->engine;
    if (line->kept) {
        return;
    }
    line->kept = true;
    line->uses++;
    TAILQ_INSERT_TAIL(&engine->kept, line, in_kept);
    if (++engine->kept_count > MOST_KEPT) {
        let_go(TAILQ_FIRST(&engine->kept));
    }
}

void zkl_lines_forget(zkl_engine *engine)
{
    if (ZKL_BROKEN(ZKL_BREAK_OUTLIVED)) {
        return;
    }
    for (uint32_t slot = 0; slot < engine->line_slots; slot++) {
        zkl_line *line;
        LIST_FOREACH(line, &engine->lines[slot], hash)
        {
            zkl_line_unclear(line);
            zkl_line_lose_neighbour(line);
            zkl_line_unlimit(line);
            line->lost_in = 0;
            line->warned = line->busy = false;
        }
    }
}

void zkl_lines_free(zkl_engine *engine)
{
    zkl_line *line;
    while ((line = TAILQ_FIRST(&engine->kept)) != NULL) {
        let_go(line);
    }
    zkl_free(engine->lines);
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

/* --- strays -------------------------------------------------------------------------------------------------------- */

static bool ours(const zkl_engine *engine, const char *name)
{
    return strncmp(name, "_c_", 3) == 0 && strncmp(name + 3, engine->uuid_stem, ZKL_UUID_STEM_LENGTH) == 0;
}

/*
 * Deletes a node of this client that no entry knows, a stray. Its create was executed after it had been given up, or
 * the servers have forgotten its deletion. A stray exists as long as our session, and no other client may remove it. So
 * it gets an entry, which repeats the delete until the node is gone: a waiter behind the stray does not list again, and
 * that waiter may be ours. Returns false when memory is short.
 */
static bool remove_stray(zkl_line *line, const char *name)
{
    uint64_t serial = strtoull(name + 3 + ZKL_UUID_STEM_LENGTH, NULL, 16);
    const zkl_seat *other;
    TAILQ_FOREACH(other, &line->seats, in_line)
    {
        if (other->serial == serial) {
            return true;
        }
    }
    zkl_log(line->engine, ZOO_LOG_LEVEL_WARN,
            "deleting '%s/%s', left by a create or a delete whose outcome the servers lost", line->path, name);
    return zkl_seat_adopt(line, name, serial);
}

/*
 * Removes strays anywhere in the queue. The contender right behind a stray is usually another client, which cannot
 * remove it, and our entry is further back.
 */
bool zkl_line_remove_strays(zkl_line *line, const struct String_vector *names)
{
    int32_t more = 0;
    line->cleaned_at = line->engine->now;
    for (int32_t i = 0; i < names->count; i++) {
        more += ours(line->engine, names->data[i]);
    }
    const zkl_seat *other;
    TAILQ_FOREACH(other, &line->seats, in_line)
    {
        more -= other->state != ZKL_SEAT_PARKED && other->state != ZKL_SEAT_LOOKING && other->state != ZKL_SEAT_LEAVING;
    }
    /*
     * Usually the list shows no more nodes of ours than our entries account for, so thousands of names need not be
     * compared. An entry whose node was deleted externally counts until a heartbeat reports that; it then lists the
     * queue again. An entry that is leaving does not count: its node may be gone already, and it would not list the
     * queue again.
     */
    bool all = true;
    for (int32_t i = 0; more > 0 && i < names->count && !ZKL_BROKEN(ZKL_BREAK_STRAYS); i++) {
        if (ours(line->engine, names->data[i])) {
            all = remove_stray(line, names->data[i]) && all;
        }
    }
    return all;
}

void zkl_line_remove_if_stray(zkl_line *line, const char *name)
{
    if (ours(line->engine, name) && !ZKL_BROKEN(ZKL_BREAK_STRAYS)) {
        (void)remove_stray(line, name);
    }
}

bool zkl_line_may_have_strays(const zkl_line *line)
{
    return line->lost_in != 0 && line->lost_in == line->engine->session_id;
}

/* --- parents ------------------------------------------------------------------------------------------------------- */

void zkl_line_make_parents(zkl_line *line, const char *data, const struct ACL_vector *acl)
{
    if (line->parents_flying > 0) {
        return;
    }
    line->parents_error = line->parents_last = ZOK;
    size_t length = strlen(line->path);
    char *path = zkl_copy(line->path, length);
    if (path == NULL) {
        return;
    }
    line->uses++;
    int32_t index = 0;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            path[i] = '\0';
            bool last = i == length;
            if (!zkl_send_parent(line, last ? -1 : index++, path, last ? data : "", acl)) {
                break;
            }
            line->parents_flying++;
            path[i] = line->path[i];
        }
    }
    zkl_free(path);
    zkl_line_drop(line);
}

/* All replies are in. Entries that wait for the directory go on, or are refused with the reason. */
static void parents_decided(zkl_line *line)
{
    zkl_engine *engine = line->engine;
    int rc = line->parents_last;
    if (rc == ZUNIMPLEMENTED || line->parents_error == ZUNIMPLEMENTED) {
        engine->no_containers = true; /* a server before 3.5.3: persistent nodes are used */
        rc = ZOK;
    } else if (rc == ZNONODE && line->parents_error != ZOK) {
        rc = line->parents_error; /* a directory above could not be made: report that reason */
    } else if (rc == ZNONODE && strchr(line->path + 1, '/') != NULL) {
        rc = ZOK; /* a directory above existed and was reaped a moment later: start again */
    }
    bool later = rc == ZTHROTTLEDOP;
    bool failed = rc != ZOK && rc != ZNODEEXISTS && !later && !zkl_outcome_unknown(rc) && rc != ZSESSIONEXPIRED &&
                  rc != ZINVALIDSTATE;
    line->uses++;
    zkl_seat *seat = TAILQ_FIRST(&line->seats);
    while (seat != NULL) {
        zkl_seat *next = TAILQ_NEXT(seat, in_line);
        if (seat->state == ZKL_SEAT_PARKED && failed) {
            zkl_seat_refuse(seat, rc, "creating the directory of");
            next = TAILQ_FIRST(&line->seats); /* other entries of the same acquisition may be gone too */
        } else if (seat->state == ZKL_SEAT_PARKED && later) {
            zkl_seat_wait_long(seat);
        } else if (seat->state == ZKL_SEAT_PARKED) {
            zkl_seat_step(seat);
        }
        seat = next;
    }
    zkl_line_drop(line);
}

void zkl_line_parent_made(zkl_request *request, int rc)
{
    zkl_line *line = request->about.line;
    line->parents_flying--;
    if (request->index < 0) {
        line->parents_last = rc;
    } else if (rc != ZOK && rc != ZNODEEXISTS && line->parents_error == ZOK && !(rc == ZNONODE && request->index > 0)) {
        line->parents_error = rc; /* ZNONODE says only that the directory above was not made, or was reaped */
    }
    if (line->parents_flying == 0) {
        parents_decided(line);
    }
}

/*
 * engine: the engine object, the public functions, and acquisitions.
 *
 * An acquisition is a request for a lock. Its entry does the work (entry.c). An acquisition that has ended may still
 * have an entry whose node is being deleted. It is settled when that entry is gone. The owner calls zkl_acquisition_forget
 * when it will not use the acquisition any more. The acquisition is freed when it is both forgotten and settled.
 */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine_private.h"

#ifdef ZKL_BREAKABLE
uint64_t zkl_broken_rules;
int32_t zkl_most_in_flight = 1000;
int32_t zkl_most_grants = INT32_C(1) << 30;
int64_t zkl_most_watched_bytes = ZKL_USUAL_WATCHED_BYTES;
#endif

/* --- names of enums ------------------------------------------------------------------------------------------------ */

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
    };
    return names[code];
}

const char *zkl_state_name(zkl_state state)
{
    static const char *const names[] = {
        [ZKL_STATE_CONNECTING] = "connecting",   [ZKL_STATE_CONNECTED] = "connected",
        [ZKL_STATE_SUSPENDED] = "suspended",     [ZKL_STATE_CLOSED] = "closed",
        [ZKL_STATE_AUTH_FAILED] = "auth_failed",
    };
    return names[state];
}

const char *zkl_acquisition_phase_name(zkl_acquisition_phase phase)
{
    static const char *const names[] = {
        [ZKL_ACQUISITION_WAITING] = "waiting", [ZKL_ACQUISITION_GRANTED] = "granted",   [ZKL_ACQUISITION_LOST] = "lost",
        [ZKL_ACQUISITION_REFUSED] = "refused", [ZKL_ACQUISITION_RELEASED] = "released",
    };
    return names[phase];
}

/* --- paths --------------------------------------------------------------------------------------------------------- */

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

/* --- the object ---------------------------------------------------------------------------------------------------- */

static bool copy_auths(zkl_engine *engine, const zkl_engine_config *config)
{
    if (config->auth_count == 0) {
        return true;
    }
    engine->auths = zkl_alloc((size_t)config->auth_count * sizeof *engine->auths);
    if (engine->auths == NULL) {
        return false;
    }
    for (int32_t i = 0; i < config->auth_count; i++) {
        const zkl_auth *auth = &config->auths[i];
        engine->auths[i].scheme = zkl_copy(auth->scheme, strlen(auth->scheme));
        engine->auths[i].credential = zkl_copy(auth->credential, (size_t)auth->credential_length);
        engine->auths[i].credential_length = auth->credential_length;
        engine->auth_count++;
        if (engine->auths[i].scheme == NULL || engine->auths[i].credential == NULL) {
            return false;
        }
    }
    return true;
}

/*
 * Makes the first 24 of a uuid's 36 characters from random bits, in the form of a version 4 uuid. The last twelve
 * digits are a counter.
 */
static void make_uuid_stem(zkl_engine *engine, const uint64_t random[2])
{
    snprintf(engine->uuid_stem, sizeof engine->uuid_stem, "%08x-%04x-4%03x-%04x-", (unsigned)(random[0] & 0xffffffff),
             (unsigned)(random[0] >> 32 & 0xffff), (unsigned)(random[0] >> 48 & 0xfff),
             (unsigned)((random[1] & 0x3fff) | 0x8000));
}

zkl_engine *zkl_engine_new(const zkl_engine_config *config, const zkl_host *host)
{
    zkl_engine *engine = zkl_alloc(sizeof *engine);
    if (engine == NULL) {
        return NULL;
    }
    engine->host = *host;
    engine->servers = zkl_copy(config->servers, strlen(config->servers));
    engine->hosts = zkl_copy(config->servers, strcspn(config->servers, "/"));
    engine->chroot_length = (int32_t)(strlen(config->servers) - strcspn(config->servers, "/"));
    engine->asked_timeout_ms = config->session_timeout_ms;
    engine->lease = config->lease;
    engine->zookeeper_log = config->zookeeper_log;
    engine->check_at = engine->backing_off_until = ZKL_NEVER;
    engine->lease_until = config->lease ? 0 : ZKL_NEVER;
    engine->state = ZKL_STATE_CONNECTING;
    TAILQ_INIT(&engine->checks);
    TAILQ_INIT(&engine->flying);
    TAILQ_INIT(&engine->orphans);
    TAILQ_INIT(&engine->spare);
    TAILQ_INIT(&engine->entries);
    TAILQ_INIT(&engine->runnable);
    TAILQ_INIT(&engine->over_watch_budget);
    TAILQ_INIT(&engine->backing_off);
    TAILQ_INIT(&engine->kept);
    TAILQ_INIT(&engine->acquisitions);
    TAILQ_INIT(&engine->holds);
    TAILQ_INIT(&engine->lingering);
    LIST_INIT(&engine->queries);
    TAILQ_INIT(&engine->operations_waiting);
    TAILQ_INIT(&engine->operations);
    LIST_INIT(&engine->user_watches);
    make_uuid_stem(engine, config->random);
    if (engine->servers == NULL || engine->hosts == NULL || !zkl_queues_init(engine) || !copy_auths(engine, config)) {
        zkl_engine_free(engine);
        return NULL;
    }
    return engine;
}

static void free_acquisition(zkl_acquisition *acquisition);

void zkl_engine_free(zkl_engine *engine)
{
    if (engine->handle != NULL) {
        zkl_engine_shut_down(engine, engine->now);
    }
    zkl_entry *entry;
    while ((entry = TAILQ_FIRST(&engine->entries)) != NULL) {
        zkl_entry_destroy(entry);
    }
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&engine->acquisitions)) != NULL) {
        free_acquisition(acquisition);
    }
    zkl_operations_free(engine);
    zkl_requests_free(engine);
    for (int32_t i = 0; i < engine->auth_count; i++) {
        zkl_free((void *)(uintptr_t)engine->auths[i].scheme);
        zkl_free_secret((void *)(uintptr_t)engine->auths[i].credential);
    }
    zkl_free(engine->auths);
    zkl_queues_free(engine);
    zkl_free(engine->hosts);
    zkl_free(engine->servers);
    zkl_free(engine);
}

void zkl_engine_close(zkl_engine *engine, int64_t now)
{
    engine->now = now;
    engine->closing = true;
    zkl_acquisition *acquisition, *next;
    for (acquisition = TAILQ_FIRST(&engine->acquisitions); acquisition != NULL; acquisition = next) {
        next = TAILQ_NEXT(acquisition, all);
        zkl_acquisition_end(acquisition, ZKL_CLOSED, now);
    }
    zkl_share_expire(engine, true);
    zkl_queries_fail(engine, ZKL_CLOSED, "the client is closed");
    zkl_operations_fail(engine, ZKL_CLOSED, "the client is closed");
    zkl_user_watches_end(engine, ZKL_CLOSED);
}

bool zkl_engine_drained(const zkl_engine *engine)
{
    return engine->closing ? engine->in_flight == 0 : engine->cleaning == 0;
}

const zkl_stats *zkl_engine_stats(const zkl_engine *engine)
{
    return &engine->stats;
}

int32_t zkl_engine_session_timeout(const zkl_engine *engine)
{
    return engine->timeout_ms;
}

/* --- acquisitions -------------------------------------------------------------------------------------------------- */

/* Stops max_hold: the grant is over, or there was none. */
static void end_hold(zkl_acquisition *acquisition)
{
    if (acquisition->hold_until != ZKL_NEVER) {
        TAILQ_REMOVE(&acquisition->engine->holds, acquisition, in_holds);
        acquisition->hold_until = ZKL_NEVER;
    }
}

/* A grant begins. If it has a max_hold, inserts the acquisition into engine->holds, sorted by the end of the grant. */
static void begin_hold(zkl_acquisition *acquisition)
{
    int64_t max_hold = acquisition->spec->lock.max_hold;
    if (max_hold == 0) {
        return;
    }
    struct zkl_acquisition_list *holds = &acquisition->engine->holds;
    acquisition->hold_until = acquisition->engine->now + max_hold;
    zkl_acquisition *before = TAILQ_LAST(holds, zkl_acquisition_list);
    while (before != NULL && before->hold_until > acquisition->hold_until) {
        before = TAILQ_PREV(before, zkl_acquisition_list, in_holds);
    }
    if (before != NULL) {
        TAILQ_INSERT_AFTER(holds, before, acquisition, in_holds);
    } else {
        TAILQ_INSERT_HEAD(holds, acquisition, in_holds);
    }
}

static void free_acquisition(zkl_acquisition *acquisition)
{
    end_hold(acquisition);
    zkl_permits_free(acquisition);
    TAILQ_REMOVE(&acquisition->engine->acquisitions, acquisition, all);
    if (acquisition->queue != NULL) {
        zkl_queue_drop(acquisition->queue);
    }
    zkl_lock_spec_drop(acquisition->spec);
    zkl_free(acquisition->message);
    zkl_free(acquisition);
}

static void tell_host(zkl_acquisition *acquisition)
{
    if (!acquisition->forgotten) {
        acquisition->engine->host.acquisition_changed(acquisition->engine->host.context, acquisition);
    }
}

static void finish(zkl_acquisition *acquisition, zkl_acquisition_phase phase, zkl_code code, const char *format,
                   va_list args) __attribute__((format(printf, 4, 0)));

static void finish(zkl_acquisition *acquisition, zkl_acquisition_phase phase, zkl_code code, const char *format,
                   va_list args)
{
    char message[512];
    int length = vsnprintf(message, sizeof message, format, args);
    end_hold(acquisition);
    zkl_free(acquisition->message);
    acquisition->message = zkl_copy(message, length < (int)sizeof message ? (size_t)length : sizeof message - 1);
    acquisition->code = code;
    acquisition->phase = phase;
    acquisition->engine->stats.refusals += phase == ZKL_ACQUISITION_REFUSED;
    acquisition->engine->stats.losses += phase == ZKL_ACQUISITION_LOST;
    tell_host(acquisition);
}

void zkl_acquisition_finish(zkl_acquisition *acquisition, zkl_acquisition_phase phase, zkl_code code,
                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    finish(acquisition, phase, code, format, args);
    va_end(args);
}

void zkl_acquisition_lose(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
{
    if (acquisition->phase != ZKL_ACQUISITION_GRANTED) {
        return;
    }
    va_list args;
    va_start(args, format);
    finish(acquisition, ZKL_ACQUISITION_LOST, code, format, args);
    va_end(args);
    zkl_acquisition_leave(acquisition);
}

const int64_t zkl_wait_bounds[ZKL_WAIT_BUCKETS] = {
    1 * ZKL_SECOND / 1000,   5 * ZKL_SECOND / 2000,  5 * ZKL_SECOND / 1000,   10 * ZKL_SECOND / 1000,
    25 * ZKL_SECOND / 1000,  50 * ZKL_SECOND / 1000, 100 * ZKL_SECOND / 1000, 250 * ZKL_SECOND / 1000,
    500 * ZKL_SECOND / 1000, 1 * ZKL_SECOND,         5 * ZKL_SECOND / 2,      5 * ZKL_SECOND,
    10 * ZKL_SECOND,         30 * ZKL_SECOND,        60 * ZKL_SECOND,         ZKL_NEVER,
};

static void note_wait(const zkl_acquisition *acquisition)
{
    zkl_stats *stats = &acquisition->engine->stats;
    int64_t waited = acquisition->engine->now - acquisition->asked_at;
    int32_t bucket = 0;
    while (waited > zkl_wait_bounds[bucket]) {
        bucket++;
    }
    stats->waits[bucket]++;
    stats->waited += waited;
    stats->grants++;
}

void zkl_acquisition_grant(zkl_acquisition *acquisition, const zkl_entry *entry)
{
    int64_t number = ZKL_BROKEN(ZKL_BREAK_TOKEN) ? entry->sequence : entry->czxid;
    acquisition->token = (zkl_token){number, entry->grants};
    acquisition->phase = ZKL_ACQUISITION_GRANTED;
    note_wait(acquisition);
    begin_hold(acquisition);
    tell_host(acquisition);
}

void zkl_acquisitions_expire(zkl_engine *engine)
{
    zkl_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&engine->holds)) != NULL && acquisition->hold_until <= engine->now &&
           !ZKL_BROKEN(ZKL_BREAK_HOLD)) {
        zkl_acquisition_lose(acquisition, ZKL_MAX_HOLD, "'%s' was given back: it had been held for max_hold (%g s)",
                             zkl_acquisition_path(acquisition),
                             (double)acquisition->spec->lock.max_hold / (double)ZKL_SECOND);
    }
}

void zkl_acquisition_revoked(zkl_acquisition *acquisition)
{
    if (acquisition->phase == ZKL_ACQUISITION_GRANTED && acquisition->spec->lock.revocable) {
        acquisition->revocations++;
        tell_host(acquisition);
    }
}

void zkl_acquisition_leave(zkl_acquisition *acquisition)
{
    if (acquisition->sharing) {
        zkl_share_part(acquisition);
        return;
    }
    if (acquisition->entry != NULL && zkl_share_pass(acquisition)) {
        return;
    }
    if (acquisition->permits != NULL && acquisition->phase == ZKL_ACQUISITION_RELEASED &&
        zkl_permits_pass(acquisition)) {
        zkl_acquisition_settle(acquisition);
        return;
    }
    zkl_entry *entry, *next;
    for (entry = LIST_FIRST(&acquisition->entries); entry != NULL; entry = next) {
        next = LIST_NEXT(entry, in_acquisition);
        zkl_entry_leave(entry); /* the last one may free the acquisition */
    }
}

void zkl_acquisition_connection_lost(zkl_acquisition *acquisition)
{
    if (acquisition->try_only && acquisition->phase == ZKL_ACQUISITION_WAITING) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_DISCONNECTED,
                               "'%s' could not be tried: the connection to '%s' is lost",
                               zkl_acquisition_path(acquisition), acquisition->engine->hosts);
        zkl_acquisition_leave(acquisition);
    }
}

/* Sets the code and the message of a release. Only the first call has an effect. */
static void note_release(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note_release(zkl_acquisition *acquisition, zkl_code code, const char *format, ...)
{
    if (acquisition->code != ZKL_OK) {
        return;
    }
    char message[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    acquisition->message = zkl_copy(message, length < (int)sizeof message ? (size_t)length : sizeof message - 1);
    acquisition->code = code;
}

void zkl_acquisition_deleted_externally(zkl_acquisition *acquisition, const char *node)
{
    if (acquisition->phase == ZKL_ACQUISITION_RELEASED && acquisition->code != ZKL_LOST) {
        acquisition->engine->stats.losses++;
        note_release(acquisition, ZKL_LOST, "'%.160s' is lost: somebody deleted its node '%.300s'",
                     zkl_acquisition_path(acquisition), node);
    }
}

void zkl_acquisition_delete_refused(zkl_acquisition *acquisition, int rc, const char *node)
{
    if (acquisition->phase == ZKL_ACQUISITION_RELEASED && rc != ZTHROTTLEDOP) {
        note_release(acquisition, zkl_code_of(rc), "the server refuses to delete '%s': %s", node, zerror(rc));
        tell_host(acquisition);
    }
}

void zkl_acquisition_blocker_changed(zkl_acquisition *acquisition)
{
    tell_host(acquisition);
}

void zkl_acquisition_entry_gone(zkl_acquisition *acquisition, zkl_entry *entry)
{
    LIST_REMOVE(entry, in_acquisition);
    if (acquisition->entry == entry) {
        acquisition->entry = NULL;
    }
    zkl_acquisition_settle(acquisition);
}

void zkl_acquisition_settle(zkl_acquisition *acquisition)
{
    if (!zkl_acquisition_settled(acquisition)) {
        return;
    }
    if (acquisition->forgotten) {
        free_acquisition(acquisition);
    } else {
        tell_host(acquisition);
    }
}

static zkl_role role_of(zkl_mode mode)
{
    static const zkl_role roles[] = {
        [ZKL_MODE_MUTEX] = ZKL_ROLE_MUTEX,
        [ZKL_MODE_READ] = ZKL_ROLE_READER,
        [ZKL_MODE_WRITE] = ZKL_ROLE_WRITER,
        [ZKL_MODE_PERMITS] = ZKL_ROLE_QUEUE_ENTRY,
    };
    return roles[mode];
}

/* Returns whether another entry of this client is in the way. Then a try need not ask the server. */
static bool stands_in_the_way(const zkl_acquisition *acquisition)
{
    zkl_node_kind mine = zkl_acquisition_mode(acquisition) == ZKL_MODE_READ ? ZKL_NODE_SHARED : ZKL_NODE_EXCLUSIVE;
    const zkl_entry *entry;
    TAILQ_FOREACH(entry, &acquisition->queue->entries, in_queue)
    {
        if (entry->wanted && zkl_kind_conflicts(mine, zkl_entry_kind(entry))) {
            return true;
        }
    }
    return false;
}

/* Returns the entry of the granted writer whose place a new reader may take; NULL if there is none. */
static zkl_entry *writer_of(const zkl_acquisition *acquisition, const zkl_acquisition_request *request)
{
    const zkl_acquisition *writer = zkl_acquisition_mode(acquisition) == ZKL_MODE_READ ? request->writer : NULL;
    bool usable = writer != NULL && writer->queue == acquisition->queue &&
                  zkl_acquisition_mode(writer) == ZKL_MODE_WRITE && writer->phase == ZKL_ACQUISITION_GRANTED &&
                  !ZKL_BROKEN(ZKL_BREAK_DOWNGRADE);
    return usable ? writer->entry : NULL;
}

/*
 * Refuses the acquisition if no answer of the server is needed for that; else returns false. `has_place`: it can share
 * an entry, or take its writer's place.
 */
static bool refuse_locally(zkl_acquisition *acquisition, bool has_place)
{
    zkl_engine *engine = acquisition->engine;
    if (engine->closing) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_CLOSED, "the client is closed");
    } else if (engine->state == ZKL_STATE_AUTH_FAILED) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_AUTH_FAILED, "%s", engine->problem);
    } else if (acquisition->try_only && !has_place && stands_in_the_way(acquisition) && !ZKL_BROKEN(ZKL_BREAK_TRY)) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_TIMEOUT,
                               "'%s' is taken: another lock object of this client is ahead",
                               zkl_acquisition_path(acquisition));
    } else if (acquisition->try_only && !zkl_session_usable(engine)) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, ZKL_DISCONNECTED, "'%s' could not be tried: %s",
                               zkl_acquisition_path(acquisition),
                               engine->problem[0] != '\0' ? engine->problem : "there is no connection yet");
    } else {
        return false;
    }
    return true;
}

zkl_acquisition *zkl_engine_acquire(zkl_engine *engine, const zkl_acquisition_request *request, void *user, int64_t now)
{
    engine->now = now;
    zkl_acquisition *acquisition = zkl_alloc(sizeof *acquisition);
    if (acquisition == NULL) {
        return NULL;
    }
    acquisition->engine = engine;
    acquisition->user = user;
    acquisition->spec = zkl_lock_spec_take(request->spec);
    acquisition->try_only = request->try_only;
    acquisition->optimistic = request->optimistic;
    acquisition->asked_at = now;
    acquisition->hold_until = ZKL_NEVER;
    LIST_INIT(&acquisition->entries);
    TAILQ_INSERT_TAIL(&engine->acquisitions, acquisition, all);
    bool semaphore = zkl_acquisition_mode(acquisition) == ZKL_MODE_PERMITS;
    acquisition->queue = zkl_queue_take(engine, semaphore ? acquisition->spec->locks : acquisition->spec->lock.path);
    if (acquisition->queue == NULL || (semaphore && !zkl_permits_init(acquisition, request->count))) {
        free_acquisition(acquisition);
        return NULL;
    }
    engine->stats.claims++;
    zkl_entry *writer = writer_of(acquisition, request);
    zkl_entry *shared = writer == NULL ? zkl_share_find(acquisition) : NULL;
    if (shared == NULL) {
        zkl_share_make_way(acquisition);
    }
    if (refuse_locally(acquisition, writer != NULL || shared != NULL)) {
        return acquisition;
    }
    if (shared != NULL) {
        zkl_share_join(shared, acquisition);
        return acquisition;
    }
    acquisition->entry = zkl_entry_new(acquisition, acquisition->queue, role_of(zkl_acquisition_mode(acquisition)));
    if (acquisition->entry == NULL) {
        free_acquisition(acquisition);
        return NULL;
    }
    acquisition->entry->writer = writer;
    zkl_entry_step(acquisition->entry);
    return acquisition;
}

void zkl_acquisition_end(zkl_acquisition *acquisition, zkl_code code, int64_t now)
{
    zkl_engine *engine = acquisition->engine;
    engine->now = now;
    if (acquisition->phase == ZKL_ACQUISITION_WAITING) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_REFUSED, code, "the wait for '%s' was ended: %s",
                               zkl_acquisition_path(acquisition), zkl_code_name(code));
    } else if (acquisition->phase == ZKL_ACQUISITION_GRANTED && code == ZKL_CLOSED) {
        zkl_acquisition_finish(acquisition, ZKL_ACQUISITION_LOST, code, "'%s' was given back: the client is closed",
                               zkl_acquisition_path(acquisition));
    } else if (acquisition->phase == ZKL_ACQUISITION_GRANTED) {
        acquisition->phase = ZKL_ACQUISITION_RELEASED;
        end_hold(acquisition);
        tell_host(acquisition);
    }
    zkl_acquisition_leave(acquisition);
}

void zkl_acquisition_lapsed(zkl_acquisition *acquisition, int64_t now)
{
    acquisition->engine->now = now;
    zkl_acquisitions_expire(acquisition->engine); /* max_hold may be the reason */
    zkl_acquisition_lose(acquisition, ZKL_LOST, "'%s' is lost: its lease ran out before it was extended",
                         zkl_acquisition_path(acquisition));
}

void zkl_acquisition_forget(zkl_acquisition *acquisition, int64_t now)
{
    acquisition->forgotten = true;
    if (zkl_acquisition_settled(acquisition)) {
        free_acquisition(acquisition);
    } else {
        zkl_acquisition_end(acquisition, ZKL_CANCELLED, now);
    }
}

zkl_acquisition_phase zkl_acquisition_get_phase(const zkl_acquisition *acquisition)
{
    return acquisition->phase;
}

bool zkl_acquisition_settled(const zkl_acquisition *acquisition)
{
    return LIST_EMPTY(&acquisition->entries) && !acquisition->sharing;
}

zkl_code zkl_acquisition_code(const zkl_acquisition *acquisition)
{
    return acquisition->code;
}

const char *zkl_acquisition_message(const zkl_acquisition *acquisition)
{
    return acquisition->message != NULL ? acquisition->message : acquisition->code != ZKL_OK ? ZKL_UNSAID : "";
}

zkl_token zkl_acquisition_token(const zkl_acquisition *acquisition)
{
    return acquisition->token;
}

/* Writes a number that is not negative, with leading zeros. Returns the end of the digits. */
static char *put_digits(char *to, int64_t number, int digits)
{
    for (int at = digits - 1; at >= 0; at--) {
        to[at] = (char)('0' + number % 10);
        number /= 10;
    }
    return to + digits;
}

void zkl_token_format(zkl_token token, char text[ZKL_TOKEN_SIZE])
{
    if (token.number != 0) {
        text = put_digits(text, token.number, ZKL_TOKEN_NUMBER_DIGITS);
        *text++ = '-';
        text = put_digits(text, token.grants, ZKL_TOKEN_GRANTS_DIGITS);
    }
    *text = '\0';
}

const char *zkl_acquisition_node(const zkl_acquisition *acquisition)
{
    /* The first entry of a semaphore's acquisition is its latest lease entry, or its queue entry before there is one. */
    const zkl_entry *entry = acquisition->sharing ? acquisition->entry : LIST_FIRST(&acquisition->entries);
    bool has_one = entry != NULL && (!acquisition->sharing || acquisition->phase == ZKL_ACQUISITION_GRANTED);
    return has_one ? entry->node : NULL;
}

/* Returns the znode by which an acquisition holds one of its permits; NULL if the entry holds none. */
static const char *node_of_lease_entry(const zkl_entry *entry)
{
    return entry->role == ZKL_ROLE_LEASE_ENTRY && entry->state == ZKL_ENTRY_GRANTED && entry->wanted ? entry->node
                                                                                                     : NULL;
}

char *zkl_acquisition_nodes(const zkl_acquisition *acquisition)
{
    if (acquisition->permits == NULL || acquisition->permits->count == 1 ||
        acquisition->phase != ZKL_ACQUISITION_GRANTED) {
        return NULL;
    }
    size_t stem = strlen(zkl_acquisition_path(acquisition)) + 1;
    size_t size = 1;
    const zkl_entry *entry;
    LIST_FOREACH(entry, &acquisition->entries, in_acquisition)
    {
        const char *node = node_of_lease_entry(entry);
        size += node != NULL ? strlen(node + stem) + 1 : 0;
    }
    char *nodes = zkl_alloc(size); /* zeroed */
    char *end = nodes;
    LIST_FOREACH(entry, &acquisition->entries, in_acquisition)
    {
        const char *node = node_of_lease_entry(entry);
        if (end != NULL && node != NULL) {
            size_t length = strlen(node + stem) + 1;
            memcpy(end, node + stem, length);
            end += length;
        }
    }
    return nodes;
}

const char *zkl_acquisition_path(const zkl_acquisition *acquisition)
{
    return acquisition->spec->lock.path;
}

const char *zkl_acquisition_blocker(const zkl_acquisition *acquisition)
{
    const zkl_watch *watch = acquisition->entry != NULL && !acquisition->sharing ? acquisition->entry->watch : NULL;
    return watch != NULL && !watch->children ? watch->node : NULL;
}

bool zkl_acquisition_is_sharing(const zkl_acquisition *acquisition)
{
    return acquisition->sharing;
}

void *zkl_acquisition_user(const zkl_acquisition *acquisition)
{
    return acquisition->user;
}

int64_t zkl_acquisition_hold_until(const zkl_acquisition *acquisition)
{
    return acquisition->hold_until;
}

int32_t zkl_acquisition_revocations(const zkl_acquisition *acquisition)
{
    return acquisition->revocations;
}

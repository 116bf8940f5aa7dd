/*
 * cases: checks, handles, requests and stories for the cases of the conformance suite.
 *
 * A case is a function, and its name in the table is its claim. It starts with an empty server and without handles. The first check that
 * fails ends the case. Watchers and completions write words into the story of their client, with a space between:
 *
 *   connected  connecting  expired  refused     a session event, in the handle's own watcher
 *   create=0  list=-4                           a completion: the request and its result
 *   w:deleted  w:connecting                     an event in the watcher `w`; session events only if `hears_session` is set
 */
#ifndef ZKLOCK_CONFORMANCE_CASES_H
#define ZKLOCK_CONFORMANCE_CASES_H

#include "world.h"

/* The session timeout that handles ask for. Long, as a busy machine may stop for seconds. */
#define CASE_TIMEOUT 20000

typedef struct {
    const char *claim;
    void (*run)(void);
} conformance_case;

/* Each ends with an entry without a claim. */
extern const conformance_case connection_cases[];
extern const conformance_case watch_cases[];
extern const conformance_case request_cases[];
extern const conformance_case multi_cases[];
extern const conformance_case acl_cases[];

/* Runs a random program, and prints its requests, answers and events (programs.c). */
void run_program(uint64_t seed);

/* --- checks; they end the case if they fail --- */

void check_at(bool holds, const char *file, int line, const char *what);
void check_number_at(int64_t actual, int64_t expected, const char *file, int line, const char *what);
void check_text_at(const char *actual, const char *expected, const char *file, int line, const char *what);
#define CHECK(condition) check_at(condition, __FILE__, __LINE__, #condition)
#define CHECK_NUMBER(actual, expected) check_number_at(actual, expected, __FILE__, __LINE__, #actual)
#define CHECK_TEXT(actual, expected) check_text_at(actual, expected, __FILE__, __LINE__, #actual)
/* Checks the client's story since the last such check. */
#define CHECK_STORY(client, expected)                                                                                  \
    check_text_at(told(client), expected, __FILE__, __LINE__, "story of client " #client)
/*
 * A known difference: the simulation's value and the real one. Each has a row in docs/reliability.md, "Real servers against
 * the simulated ones".
 */
#define DIFFERS(simulated, real) (world_is_real ? (real) : (simulated))

/* --- handles --- */

/* The handle of each client, NULL: none. Closed by the end of the case. */
extern zhandle_t *handles[WORLD_CLIENTS];
/* Opens a handle and waits until it is connected. The word "connected" is taken out of the story. */
void open_client(int client);
/* Opens a handle without waiting. `chroot` is "" or "/a". If `session` is NULL the handle gets a new session. */
void open_handle(int client, const char *chroot, int timeout_ms, const clientid_t *session);
void close_client(int client);

/* Whether this world's server, or its C client, has a feature of spec/support/versions.c. */
bool server_has(const char *feature);
bool client_has(const char *feature);

/* Turns the loops until the condition holds. The case fails if that takes too long. */
typedef bool (*condition)(const void *context);
void run_until_at(condition holds, const void *context, const char *file, int line, const char *what);
#define RUN_UNTIL(holds, context) run_until_at(holds, context, __FILE__, __LINE__, #holds)
void run_until_state_at(int client, int state, const char *file, int line);
#define RUN_UNTIL_STATE(client, state) run_until_state_at(client, state, __FILE__, __LINE__)
/* Runs until the story of the client contains the word. */
void run_until_told_at(int client, const char *word, const char *file, int line);
#define RUN_UNTIL_TOLD(client, word) run_until_told_at(client, word, __FILE__, __LINE__)
/*
 * Runs until no session of an earlier case is left, if the case has opened one client. Only then each zxid is that of a request of
 * this case.
 */
void run_until_alone(void);
/* Runs until each connected client has the reply to a new request. Events that the server sent before have arrived then. */
void settle(void);
/* The same, without one client. */
void settle_but(int client);

/* Runs until the client's server reports that there is no such node. */
void run_until_gone(int client, const char *path);

/* Returns the story, which then begins anew. */
const char *told(int client);
void tell(int client, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *state_name(int state);

/* --- watchers --- */

typedef struct {
    int client;
    const char *name;
    bool hears_session;
} watch;
void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context);
/* A second function with the same effect. */
void on_watch_too(zhandle_t *zh, int type, int state, const char *path, void *context);

/* --- requests: each is submitted; the answer is filled in when it arrives --- */

typedef struct answer {
    int client;
    const char *name; /* in the story; NULL: not there */
    bool done;
    int rc;
    int state; /* zoo_state inside the completion */
    bool null; /* the data were NULL */
    int length;
    int count;
    char text[512]; /* the path, the data, or the sorted names with a space between */
    struct Stat stat;
    void (*then)(const struct answer *answer); /* called by the completion, last */
} answer;

answer *new_answer(int client, const char *name);
answer *ask_create(int client, const char *path, const char *data, int mode);
answer *ask_delete(int client, const char *path, int version);
answer *ask_set(int client, const char *path, const char *data, int version);
answer *ask_get(int client, const char *path, watch *with);
answer *ask_exists(int client, const char *path, watch *with);
answer *ask_list(int client, const char *path, watch *with);
answer *ask_sync(int client, const char *path);
answer *ask_multi(int client, int count, const zoo_op_t *ops, zoo_op_result_t *results);
answer *ask_remove(int client, const char *path, ZooWatcherType type);
/* Runs until the answer is there; returns its rc. */
int result_at(const answer *wanted, const char *file, int line);
#define RESULT(wanted) result_at(wanted, __FILE__, __LINE__)

/* Completions whose data is an `answer`, for requests that a case submits itself. */
void on_void(int rc, const void *data);
void on_stat(int rc, const struct Stat *stat, const void *data);
void on_string(int rc, const char *value, const void *data);
void on_string_stat(int rc, const char *value, const struct Stat *stat, const void *data);
void on_data(int rc, const char *value, int length, const struct Stat *stat, const void *data);
void on_strings(int rc, const struct String_vector *strings, const void *data);
void on_strings_stat(int rc, const struct String_vector *strings, const struct Stat *stat, const void *data);

#endif

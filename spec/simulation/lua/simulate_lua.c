/*
 * simulate_lua: random Lua programs against the simulated ZooKeeper. It runs all of zklock as it ships (Lua, binding, client and
 * engine), except the C client, the clock and the threads (machine.h).
 *
 *   simulate_lua --seed N [--trace]      one program, with its trace on stdout if asked for; with this rule broken, if a rule
 *                          [RULE]        is named
 *   simulate_lua --seeds FROM COUNT      COUNT programs
 *   simulate_lua --fresh SECONDS         programs for SECONDS, from a seed that was never used before, which is printed
 *   simulate_lua --breaks [RULE…]        breaks each of these rules (rules.c, and "abandon", in program.lua). Without names: the
 *                                        rules that such programs are sure to notice. Some check must notice within LIMIT programs
 *   simulate_lua --replay-check          REPLAYS programs, twice each: the traces must be the same
 *
 * program.lua is the program and contains the checks. Run this from the project's directory. The last line counts the programs
 * that passed and failed. The exit status is 1 if any failed.
 */
#include <inttypes.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "machine.h"
#include "schedule.h"

#define LIMIT 2000

/* The most seconds of real time for one program. Usually it takes a tenth of a second. */
#define MOST_SECONDS 120
#define REPLAYS 20

/* The faults that can happen here. The others of faults.c concern the clients, nodes and directories of other runs. */
#define FAULT(kind) (UINT32_C(1) << (kind))
#define FAULTS                                                                                                         \
    (FAULT(FAULT_RESET) | FAULT(FAULT_RESET_ALL) | FAULT(FAULT_CLIENT_SILENCE) | FAULT(FAULT_SERVER_SILENCE) |         \
     FAULT(FAULT_STALL) | FAULT(FAULT_CRASH) | FAULT(FAULT_DROP_LEADER) | FAULT(FAULT_CUT_FOLLOWER) |                  \
     FAULT(FAULT_CUT_LEADER) | FAULT(FAULT_HANG) | FAULT(FAULT_LAG) | FAULT(FAULT_NO_QUORUM) | FAULT(FAULT_PAUSE) |    \
     FAULT(FAULT_NAMES) | FAULT(FAULT_SEND) | FAULT(FAULT_THROTTLE))

int luaopen_zklock_core(lua_State *L);
/* Present where line coverage is measured. The latter two are in tools/linehook.c. */
void __gcov_dump(void) __attribute__((weak));
int luaopen_linehook(lua_State *L) __attribute__((weak));
void linehook_write(void) __attribute__((weak));
int __real_clock_gettime(clockid_t clock, struct timespec *now);

/* Each program runs in its own process, in which all addresses are the same when it is replayed. */
typedef struct {
    int64_t programs, operations, grants, losses, deletions, shortages, unfinalized;
    uint64_t hash; /* hash of the latest program's trace */
    char problem[600];
} result;
static result *results; /* shared between the processes */

/* --- world.*: functions for the program --------------------------------------------------------------------------- */

/* world.below(n) -> an integer from 0 to n - 1 */
static int world_below(lua_State *L)
{
    lua_pushinteger(L, sim_below(luaL_checkinteger(L, 1)));
    return 1;
}

/* world.freeze(seconds): pauses the whole process */
static int world_freeze(lua_State *L)
{
    machine_freeze(sim_now() + (int64_t)(luaL_checknumber(L, 1) * 1e9));
    return 0;
}

/* world.poll({fd, …}, seconds): sleeps until a descriptor is readable or the time is over */
static int world_poll(lua_State *L)
{
    struct pollfd fds[MOST_FIBERS];
    int count = (int)lua_rawlen(L, 1);
    lua_Number ms = luaL_checknumber(L, 2) * 1000;
    for (int i = 0; i < count && i < MOST_FIBERS; i++) {
        lua_rawgeti(L, 1, i + 1);
        fds[i] = (struct pollfd){.fd = (int)lua_tointeger(L, -1), .events = POLLIN};
        lua_pop(L, 1);
    }
    machine_poll(fds, (nfds_t)count, ms > 3600000 ? 3600000 : (int)ms + 1);
    return 0;
}

/* world.reap(): deletes empty containers */
static int world_reap(lua_State *L)
{
    (void)L;
    sim_reap_containers();
    return 0;
}

/* --- administrators ------------------------------------------------------------------------------------------------ */

/* The deletions that an administrator has requested. */
#define MOST_DELETIONS 1000
static struct {
    char path[160];
    int64_t at; /* when it was executed; 0: not yet */
} deletions[MOST_DELETIONS];
static int deletion_count;

static void node_deleted(void *context, const char *path, int64_t session, int64_t by, int64_t zxid)
{
    (void)context, (void)session, (void)zxid;
    for (int i = 0; i < deletion_count && by == 0; i++) {
        if (deletions[i].at == 0 && strcmp(deletions[i].path, path) == 0) {
            deletions[i].at = sim_now();
        }
    }
}

static void delete_node(const char *path)
{
    if (deletion_count < MOST_DELETIONS && sim_foreign_delete(0, path)) {
        snprintf(deletions[deletion_count++].path, sizeof deletions[0].path, "%s", path);
        sim_trace("an administrator deletes %s", path);
    }
}

static void delete_all(const char *path)
{
    char child[160];
    for (int i = 0; i < sim_child_count(path); i++) {
        snprintf(child, sizeof child, "%s/%s", path, sim_child(path, i));
        delete_all(child);
    }
    delete_node(path);
}

/* world.delete(path): an administrator deletes a node, and before it all nodes in it */
static int world_delete(lua_State *L)
{
    delete_all(luaL_checkstring(L, 1));
    return 0;
}

/*
 * world.child(path, n) -> the path of a node's child number n modulo the number of children, from 0; nil if it has none
 */
static int world_child(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    int count = sim_child_count(path);
    if (count == 0) {
        return 0;
    }
    lua_pushfstring(L, "%s/%s", path, sim_child(path, (int)(luaL_checkinteger(L, 2) % count)));
    return 1;
}

/*
 * world.deleted(path) -> how many seconds ago an administrator deleted that node, or the latest node in it; nil: never
 */
static int world_deleted(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    size_t length = strlen(path);
    int64_t latest = 0;
    for (int i = 0; i < deletion_count; i++) {
        bool meant = strncmp(deletions[i].path, path, length) == 0 &&
                     (deletions[i].path[length] == '\0' || deletions[i].path[length] == '/');
        latest = meant && deletions[i].at > latest ? deletions[i].at : latest;
    }
    if (latest == 0) {
        return 0;
    }
    lua_pushnumber(L, (lua_Number)(sim_now() - latest) / 1e9);
    return 1;
}

/* --- memory -------------------------------------------------------------------------------------------------------- */

/* From now on so many allocations by Lua succeed, and then so many fail. -1: none fail. */
static int64_t lua_successes = -1, lua_failures;
static bool ran_short; /* an allocation failed in the latest world.call */

static void *lua_memory(void *context, void *block, size_t before, size_t size)
{
    (void)context;
    if (size == 0) {
        free(block);
        return NULL;
    }
    bool more = block == NULL || size > before; /* a request for less memory must not fail */
    if (more && lua_successes >= 0 && --lua_successes < 0) {
        lua_successes = --lua_failures > 0 ? 0 : -1;
        ran_short = true;
        return NULL;
    }
    return realloc(block, size);
}

/*
 * Lua warns of each finalizer that has failed. Where there was no memory to call it, it is never called again, so what it would have
 * given up stays.
 */
static bool finalizer_failed;

static void note_warning(void *context, const char *message, int continues)
{
    (void)context;
    (void)continues;
    finalizer_failed = finalizer_failed || strcmp(message, "__gc") == 0;
}

/* world.lua_memory(successes, failures) -> the previous values of both. Without arguments no allocations fail. */
static int world_lua_memory(lua_State *L)
{
    int64_t successes = lua_successes, failures = lua_failures;
    lua_successes = luaL_optinteger(L, 1, -1);
    lua_failures = luaL_optinteger(L, 2, 0);
    lua_pushinteger(L, successes);
    lua_pushinteger(L, failures);
    return 2;
}

static int call_done(lua_State *L, int status, lua_KContext context)
{
    (void)context;
    lua_successes = -1;
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_pushboolean(L, false);
        lua_replace(L, 1);
    }
    return lua_gettop(L);
}

/* world.call(successes, failures, fn, …): pcall(fn, …) with failing allocations, as with world.lua_memory */
static int world_call(lua_State *L)
{
    int64_t successes = luaL_checkinteger(L, 1);
    int64_t failures = luaL_checkinteger(L, 2);
    lua_remove(L, 1);
    lua_pushboolean(L, true);
    lua_replace(L, 1);
    luaL_checkstack(L, 20, NULL);
    lua_successes = successes;
    lua_failures = failures;
    ran_short = false;
    return call_done(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, call_done), 0);
}

/* world.ran_short() -> whether an allocation failed in the latest of these calls */
static int world_ran_short(lua_State *L)
{
    lua_pushboolean(L, ran_short);
    return 1;
}

/* world.memory(successes, failures): the same for allocations by everything below Lua. Without arguments none fail. */
static int world_memory(lua_State *L)
{
    zkl_memory_fail_some(luaL_optinteger(L, 1, -1), luaL_optinteger(L, 2, 0));
    return 0;
}

/* world.heal(): ends all faults for good */
static int world_heal(lua_State *L)
{
    (void)L;
    run.draining = true;
    zkl_memory_fail_after(-1);
    lua_successes = -1;
    end_faults();
    for (int i = 0; i < MOST_FIBERS; i++) {
        machine_pause(i, 0);
    }
    return 0;
}

/*
 * world.left() -> a description of the nodes and watches that clients have left on the servers, nil if there are none
 */
static int world_left(lua_State *L)
{
    const char *example = "";
    int nodes = sim_client_nodes(&example);
    int watches = nodes == 0 ? sim_server_watches(&example) : 0;
    if (nodes + watches == 0) {
        return 0;
    }
    lua_pushfstring(L, "%d %s left, one is %s", nodes + watches, nodes > 0 ? "nodes" : "watches", example);
    return 1;
}

/* world.room() -> how many more clients may be opened */
static int world_room(lua_State *L)
{
    lua_pushinteger(L, machine_room());
    return 1;
}

static int world_trace(lua_State *L)
{
    sim_trace("program: %s", luaL_checkstring(L, 1));
    return 0;
}

/* world.count(operations, grants, losses, deletions, shortages): adds to the statistics */
static int world_count(lua_State *L)
{
    results->operations += luaL_checkinteger(L, 1);
    results->grants += luaL_checkinteger(L, 2);
    results->losses += luaL_checkinteger(L, 3);
    results->deletions += luaL_checkinteger(L, 4);
    results->shortages += luaL_checkinteger(L, 5);
    return 0;
}

static const luaL_Reg world[] = {
    {"below", world_below},
    {"freeze", world_freeze},
    {"poll", world_poll},
    {"reap", world_reap},
    {"heal", world_heal},
    {"left", world_left},
    {"room", world_room},
    {"trace", world_trace},
    {"count", world_count},
    {"delete", world_delete},
    {"child", world_child},
    {"deleted", world_deleted},
    {"memory", world_memory},
    {"lua_memory", world_lua_memory},
    {"call", world_call},
    {"ran_short", world_ran_short},
    {NULL, NULL},
};

/* The rule that program.lua breaks; "": none. */
static const char *broken_in_lua = "";

/* --- one program --------------------------------------------------------------------------------------------------- */

static void set_up_world(uint64_t seed, bool trace)
{
    static const int32_t timeouts[] = {1000, 2000, 4000, 10000};
    static const int no_containers[] = {ZUNIMPLEMENTED, ZBADARGUMENTS, ZCONNECTIONLOSS};
    uint64_t bits = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bits ^= bits >> 31;
    int32_t timeout = timeouts[(bits >> 40) % 4];
    memset(&run, 0, sizeof run);
    run.options = (sim_options){.seed = seed,
                                .servers = bits % 5 == 0 ? 1 : 3,
                                .min_session_timeout_ms = timeout / 2,
                                .max_session_timeout_ms = timeout,
                                .tick_ms = timeout / 4,
                                .delay = (int64_t)(50 + (bits >> 8) % 4000) * SIM_MICROSECOND,
                                .no_containers = (bits >> 24) % 8 != 0 ? 0 : no_containers[(bits >> 27) % 3],
                                .server_version = (bits >> 56) % 2 == 0 ? "3.9.6" : NULL,
                                .client_version = (bits >> 58) % 4 == 0 ? "3.7.2" : NULL,
                                .trace = trace};
    run.seed = seed;
    run.timeout = timeout * SIM_MILLISECOND;
    run.client_count = MAX_CLIENTS;
    for (int i = 0; i < MAX_CLIENTS; i++) {
        run.clients[i].index = i;
    }
    sim_hooks hooks = {.deleted = node_deleted};
    sim_begin(&run.options, &hooks);
    while (sim_leader() < 0) {
        sim_step();
    }
    start_faults();
    run.fault_mask &= FAULTS;
}

/* Pauses threads for as long as faults.c pauses its clients. */
static void pause_threads(void *context, int64_t argument)
{
    for (int i = 0; i < MAX_CLIENTS; i++) {
        if (run.clients[i].paused_until > sim_now()) {
            machine_pause(i, run.clients[i].paused_until);
        }
    }
    if (!run.draining) {
        sim_schedule(sim_now() + run.timeout / 20, pause_threads, context, argument);
    }
}

static lua_State *open_state(void)
{
    lua_State *L = lua_newstate(lua_memory, NULL);
    lua_setwarnf(L, note_warning, NULL);
    luaL_openlibs(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, luaopen_zklock_core);
    lua_setfield(L, -2, "zklock.core");
    luaL_newlib(L, world);
    lua_pushnumber(L, (lua_Number)run.timeout / 1e9);
    lua_setfield(L, -2, "session_timeout");
    lua_pushstring(L, run.options.servers == 1 ? "h1:2181" : "h1:2181,h2:2181,h3:2181");
    lua_setfield(L, -2, "servers");
    lua_pushstring(L, broken_in_lua);
    lua_setfield(L, -2, "broken");
    lua_setglobal(L, "world");
    if (luaopen_linehook != NULL) {
        lua_pushcfunction(L, luaopen_linehook);
        lua_call(L, 0, 0);
    }
    return L;
}

/* Runs one program. Stores in results->problem what was wrong. */
static void run_program(uint64_t seed, bool trace)
{
    char *problem = results->problem;
    set_up_world(seed, trace);
    machine_begin();
    pause_threads(NULL, 0);
    int64_t memory_before = zkl_memory_in_use();
    lua_State *L = open_state();
    if (luaL_dostring(L, "package.path = 'lua/?.lua;lua/?/init.lua;' .. package.path") != LUA_OK ||
        luaL_dofile(L, "spec/simulation/lua/program.lua") != LUA_OK) {
        snprintf(problem, sizeof results->problem, "%s", lua_tostring(L, -1));
    }
    world_heal(L);
    lua_close(L);
    for (int64_t until = sim_now() + 60 * SIM_SECOND; !machine_is_idle() && sim_now() < until;) {
        machine_poll(NULL, 0, 100);
    }
    if (!machine_is_idle()) {
        machine_fail("a client's thread does not end");
    }
    if (problem[0] == '\0' && zkl_memory_in_use() != memory_before) {
        snprintf(problem, sizeof results->problem, "%lld bytes are left",
                 (long long)(zkl_memory_in_use() - memory_before));
    }
    if (finalizer_failed) {
        problem[0] = '\0';
        results->unfinalized++;
    }
    results->hash = sim_trace_hash();
}

/* Runs one program in a process of its own. Returns true if nothing was wrong. */
static bool run_apart(uint64_t seed, bool trace)
{
    results->problem[0] = '\0';
    results->programs++;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(MOST_SECONDS);
        run_program(seed, trace);
        fflush(stdout);
        if (__gcov_dump != NULL) {
            __gcov_dump();
        }
        if (linehook_write != NULL) {
            linehook_write();
        }
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        machine_fail("cannot fork");
    }
    if (status != 0 && results->problem[0] == '\0') {
        snprintf(results->problem, sizeof results->problem, "the process ended with status %d", status);
    }
    return results->problem[0] == '\0';
}

static bool run_seed(uint64_t seed, bool trace)
{
    if (run_apart(seed, trace)) {
        return true;
    }
    printf("seed %" PRIu64 " FAILED: %s\n  replay: build/c/simulate_lua --seed %" PRIu64 " --trace\n", seed,
           results->problem, seed);
    return false;
}

/* --- many programs ------------------------------------------------------------------------------------------------ */

static int finish(int64_t passed, int64_t failed)
{
    printf("programs %" PRId64 ", operations %" PRId64 ", grants %" PRId64 ", losses %" PRId64
           ", deleted by administrators %" PRId64 ", errors for want of memory %" PRId64
           ", not judged for want of memory for a finalizer %" PRId64 "\n",
           results->programs, results->operations, results->grants, results->losses, results->deletions,
           results->shortages, results->unfinalized);
    printf("%" PRId64 " passed, %" PRId64 " failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

static void break_named(const char *name)
{
    const broken_rule *rule = broken_rules;
    while (rule->name != NULL && strcmp(rule->name, name) != 0) {
        rule++;
    }
    break_rule(rule->name != NULL ? rule : NULL);
    broken_in_lua = rule->name != NULL ? "" : name;
}

/* The rules that random programs notice, and the seed from which the search begins. */
static const struct {
    const char *name;
    uint64_t first;
} noticeable[] = {
    {"lease", 111}, {"ahead", 1},   {"recovery", 61}, {"cleanup", 61}, {"token", 1},     {"readers", 21},
    {"share", 1},   {"permits", 1}, {"pairing", 41},  {"rearm", 1},    {"evicted", 501}, {"abandon", 21},
};

static bool is_noticed(const char *name, uint64_t first)
{
    break_named(name);
    bool noticed = false;
    for (uint64_t seed = first; seed < first + LIMIT && !noticed; seed++) {
        noticed = !run_apart(seed, false);
        if (noticed) {
            printf("rule %-9s noticed by seed %" PRIu64 ": %.*s\n", name, seed, (int)strcspn(results->problem, "\n"),
                   results->problem);
        }
    }
    if (!noticed) {
        printf("rule %-9s NOT noticed within %d programs\n", name, LIMIT);
    }
    break_named("");
    return noticed;
}

static int run_breaks(char **names, int count)
{
    int64_t noticed = 0;
    for (int i = 0; i < count; i++) {
        noticed += is_noticed(names[i], 1);
    }
    if (count == 0) {
        count = sizeof noticeable / sizeof noticeable[0];
        for (int i = 0; i < count; i++) {
            noticed += is_noticed(noticeable[i].name, noticeable[i].first);
        }
    }
    return finish(noticed, count - noticed);
}

static int run_replays(void)
{
    int64_t same = 0;
    for (uint64_t seed = 1; seed <= REPLAYS; seed++) {
        bool ok = run_seed(seed, false);
        uint64_t first = results->hash;
        ok = run_seed(seed, false) && ok;
        if (ok && results->hash != first)
            printf("seed %" PRIu64 " FAILED: two runs have different traces\n", seed);
        same += ok && results->hash == first;
    }
    return finish(same, REPLAYS - same);
}

static int run_fresh(double seconds)
{
    uint64_t seed;
    if (syscall(SYS_getrandom, &seed, sizeof seed, 0) != (long)sizeof seed) { /* the C function is the simulated one */
        machine_fail("no random numbers");
    }
    seed >>= 16;
    printf("seeds from %" PRIu64 "\n", seed);
    int64_t passed = 0, failed = 0;
    struct timespec now, until;
    __real_clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    do {
        bool ok = run_seed(seed++, false);
        passed += ok;
        failed += !ok;
        __real_clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < until.tv_sec);
    return finish(passed, failed);
}

/* Addresses decide the order in which Lua traverses tables: a seed replays only if they are always the same. */
static void fix_addresses(char **argv)
{
    int persona = personality(0xffffffff);
    if (persona >= 0 && (persona & ADDR_NO_RANDOMIZE) == 0 && getenv("ZKLOCK_SAME_ADDRESSES") == NULL &&
        personality((unsigned long)persona | ADDR_NO_RANDOMIZE) >= 0) {
        char self[4096];
        ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
        setenv("ZKLOCK_SAME_ADDRESSES", "tried", 1);
        self[length > 0 ? length : 0] = '\0';
        execv(self, argv);
    }
}

int main(int argc, char **argv)
{
    fix_addresses(argv);
    results = mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (results == MAP_FAILED) {
        machine_fail("no memory");
    }
    const char *mode = argc > 1 ? argv[1] : "";
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int64_t passed = 0, failed = 0;
    if (strcmp(mode, "--seed") == 0 && argc > 2) {
        break_named(argc > 4 ? argv[4] : "");
        bool ok = run_seed(seed, argc > 3 && strcmp(argv[3], "--trace") == 0);
        return finish(ok, !ok);
    }
    if (strcmp(mode, "--seeds") == 0 && argc > 3) {
        for (int64_t count = strtoll(argv[3], NULL, 10); count > 0; count--) {
            bool ok = run_seed(seed++, false);
            passed += ok;
            failed += !ok;
        }
        return finish(passed, failed);
    }
    if (strcmp(mode, "--fresh") == 0 && argc > 2) {
        return run_fresh(strtod(argv[2], NULL));
    }
    if (strcmp(mode, "--breaks") == 0) {
        return run_breaks(argv + 2, argc - 2);
    }
    if (strcmp(mode, "--replay-check") == 0) {
        return run_replays();
    }
    fputs("usage: simulate_lua --seed N [--trace] | --seeds FROM COUNT | --fresh SECONDS | --breaks [RULE…] | "
          "--replay-check\n",
          stderr);
    return 2;
}

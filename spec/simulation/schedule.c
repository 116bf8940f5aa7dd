/*
 * schedule: the clients' machines, and one run from beginning to end.
 *
 * A client is an engine and the loop that drives it: prepare, sleep until the socket has something or the time has
 * come, process. Each client has its own clock with an offset and a drift. Its thread may be late, may be paused for
 * long, and may act on a reading of the clock that is no longer recent.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "os/os.h"
#include "schedule.h"

run_state run;
totals_state totals;
bool reads_on;

/* How often opening a client is repeated while memory is short. */
#define MOST_TRIES 10000

/*
 * More failures in a row than this may last longer than two session timeouts: heartbeats, for example, are tried five
 * times in a session timeout.
 */
#define MANY_FAILURES 10

/* About how many bytes of a client's watch budget one watch takes. */
#define BYTES_OF_A_WATCH 90

/* If a client takes more turns than this in one simulated second, the engine spins. */
#define MAX_TURNS 20000

int64_t client_clock(const client *of, int64_t at)
{
    if (run.options.by_hand)
        at -= at % SIM_MILLISECOND;
    return of->offset + at + at * of->drift / 1000000;
}

/* Returns the simulated instant at which the client's clock shows at least `reading`. */
static int64_t when_clock_shows(const client *of, int64_t reading)
{
    if (reading >= INT64_MAX / 4)
        return INT64_MAX;
    int64_t past = reading - of->offset;
    if (past > 4000 * SIM_SECOND)
        return INT64_MAX;
    return past * 1000000 / (1000000 + of->drift) + SIM_MICROSECOND;
}

int64_t read_clock(client *of)
{
    int64_t reading = client_clock(of, sim_now());
    if (sim_chance(1, 30))
        reading -= sim_below(10 * SIM_MILLISECOND);
    else if (sim_chance(1, 400))
        reading -= sim_below(run.timeout);
    if (reading < of->last_read)
        reading = of->last_read;
    of->last_read = reading;
    sim_note(of->index, (uint64_t)reading);
    return reading;
}

/* ---- the engine's callbacks ---- */

static void acquisition_changed(void *context, zkl_acquisition *acquisition)
{
    (void)context;
    acquisition_record *record = zkl_acquisition_user(acquisition);
    if (run.clients[record->client].killed)
        return;
    if (record->acquisition == NULL)
        record->acquisition = acquisition;
    zkl_acquisition_phase before = record->phase;
    check_acquisition_changed(record, acquisition);
    if (before != ZKL_ACQUISITION_GRANTED && record->phase == ZKL_ACQUISITION_GRANTED)
        acquisition_granted(record);
    else if (before != record->phase)
        acquisition_over(record);
}

static void lease_changed(void *context, int64_t valid_until)
{
    check_lease_changed(context, valid_until);
}

static void state_changed(void *context, zkl_state state, zkl_code code, const char *problem)
{
    client *of = context;
    sim_trace("client %d: %s %s %s", of->index, zkl_state_name(state), zkl_code_name(code), problem);
    of->state = state;
    of->disturbed_at = of->unheard_until = sim_now();
    if (state == ZKL_STATE_CONNECTED)
        of->expired = false;
}

static void log_line(void *context, int level, const char *message)
{
    const client *of = context;
    sim_trace("client %d: log %d: %s", of->index, level, message);
}

static void library_line(const char *message)
{
    (void)message;
}

/* ---- connecting: as csrc/client/client.c does it ---- */

static client *calling;

int64_t __wrap_zkl_clock(void);

/* The clock of the client whose connector asks: as it was read for the call that the connector is in. */
int64_t __wrap_zkl_clock(void)
{
    return calling->last_read;
}

static bool reach(void *context, int64_t *wake_at)
{
    client *of = context;
    of->connecting = !zkl_connector_reach(of->connector, wake_at);
    return !of->connecting;
}

static void reached(void *context, int fd)
{
    const client *of = context;
    zkl_server *server;
    zkl_connector_replace(of->connector, fd, zkl_connector_take(of->connector, &server));
}

static void answered(void *context, int32_t timeout_ms)
{
    const client *of = context;
    zkl_connector_answered(of->connector, timeout_ms);
}

static const char *problem_of(void *context, zkl_code *code)
{
    const client *of = context;
    *code = ZKL_DISCONNECTED;
    return zkl_connector_problem(of->connector);
}

/* ---- turns ---- */

static void turn(void *context, int64_t stamp);

void wake_client(client *of, int64_t at)
{
    if (at < sim_now())
        at = sim_now();
    if (at >= of->turn_at)
        return;
    of->turn_at = at;
    sim_schedule(at, turn, of, ++of->turn_stamp);
}

void begin_call(client *of)
{
    calling = of;
    sim_set_caller(of->index);
}

/* Follows each call into the engine: the events that it waits for may have changed. */
void end_call(client *of)
{
    begin_call(of);
    of->connecting = false;
    zkl_engine_prepare(of->engine, read_clock(of), &of->poll);
    if (of->connector != NULL && of->poll.fd >= 0 && zkl_connector_overdue(of->connector, &of->poll.wake_at)) {
        zkl_connector_give_up(of->connector);
        of->poll.must_disconnect = true;
    }
    if (of->poll.must_disconnect)
        sim_shut_down(of->poll.fd);
    check_after_call(of);
    int64_t wake_at = when_clock_shows(of, of->poll.wake_at);
    if (wake_at < sim_now())
        wake_at = sim_now();
    if (wake_at < INT64_MAX)
        wake_client(of, wake_at + sim_below(200 * SIM_MICROSECOND));
    int link = of->connecting ? zkl_connector_poll(of->connector).fd : -1;
    if ((of->poll.fd >= 0 && sim_poll(of->poll.fd, of->poll.events) != 0) || (link >= 0 && sim_poll(link, POLLIN) != 0))
        wake_client(of, run.options.by_hand ? sim_now()
                                            : sim_now() + 5 * SIM_MICROSECOND + sim_below(40 * SIM_MICROSECOND));
}

static void count_turn(client *of)
{
    totals.turns++;
    if (sim_now() - of->spin_at > SIM_SECOND) {
        of->spin_at = sim_now();
        of->spins = 0;
    }
    if (++of->spins > MAX_TURNS)
        fail("spin", "client %d took %d turns within a second", of->index, MAX_TURNS);
}

static void finish_closing(client *of)
{
    if (!zkl_engine_drained(of->engine) && sim_now() < of->close_patience)
        return;
    drop_client(of, false);
    if (!run.draining)
        open_client(of);
}

static void turn(void *context, int64_t stamp)
{
    client *of = context;
    if (of->turn_stamp != stamp || of->engine == NULL || run.failed)
        return;
    of->turn_at = INT64_MAX;
    if (of->paused_until > sim_now()) {
        wake_client(of, of->paused_until);
        return;
    }
    count_turn(of);
    begin_call(of);
    int64_t now = read_clock(of);
    short revents = of->poll.fd >= 0 ? sim_poll(of->poll.fd, of->poll.events) : 0;
    sim_note(of->index, (uint64_t)(unsigned short)revents);
    zkl_engine_process(of->engine, now, revents);
    for (int packets = 1; reads_on && packets < 32 && zkl_engine_may_read_on(of->engine); packets++) {
        end_call(of);
        begin_call(of);
        if (zkl_engine_may_read_on(of->engine)) {
            zkl_engine_process(of->engine, read_clock(of), POLLIN);
            totals.read_on++;
        }
    }
    end_call(of);
    if (of->closing)
        finish_closing(of);
}

bool event_counts(sim_event_fn fn, const void *context, int64_t argument)
{
    const client *of = context;
    return fn != turn || (of->turn_stamp == argument && of->engine != NULL && of->paused_until <= sim_now());
}

/* ---- opening and ending clients ---- */

void open_client(client *of)
{
    static const zkl_auth auth = {"digest", "user:password", 13};
    char servers[64];
    /* As the client shuffles it. The C client shuffles it itself. */
    static const char *const lists[] = {"h1:2181,h2:2181,h3:2181", "h1:2181,h3:2181,h2:2181",
                                        "h2:2181,h1:2181,h3:2181", "h2:2181,h3:2181,h1:2181",
                                        "h3:2181,h1:2181,h2:2181", "h3:2181,h2:2181,h1:2181"};
    const char *list = run.options.servers == 1 ? "h1:2181" : lists[run.connectors ? sim_below(6) : 0];
    snprintf(servers, sizeof(servers), "%s%s", list, run.prefix);
    zkl_host host = {.session.context = of,
                     .acquisition_changed = acquisition_changed,
                     .session.lease_changed = lease_changed,
                     .session.state_changed = state_changed,
                     .session.log = log_line};
    zkl_engine_config config = {.session.servers = servers,
                                .session.session_timeout_ms =
                                    (int32_t)(run.timeout / SIM_MILLISECOND * (1 + (int64_t)run.seed % 2)),
                                .session.lease = run.leases,
                                .session.auths = &auth,
                                .session.auth_count = run.options.auth_fails || run.seed % 8 == 0 ? 1 : 0,
                                .session.zookeeper_log = library_line,
                                .random = {sim_random(), sim_random()}};
    char message[ZKL_MESSAGE_SIZE];
    begin_call(of);
    for (int tries = 0; run.connectors && of->connector == NULL; tries++) {
        of->connector = zkl_connector_new(servers, config.session.session_timeout_ms, (uint64_t)sim_random(), log_line,
                                          of, message);
        if (of->connector == NULL && (!run.short_of_memory || tries == MOST_TRIES))
            abort();
    }
    if (of->connector != NULL) {
        config.session.addresses = zkl_connector_addresses(of->connector);
        host.session.reach = reach;
        host.session.reached = reached;
        host.session.answered = answered;
        host.session.problem = problem_of;
    }
    of->valid_until = run.leases ? 0 : ZKL_NEVER;
    of->unheard_until = sim_now();
    of->closing = of->killed = of->expired = false;
    of->turn_at = INT64_MAX;
    of->poll.fd = -1;
    for (int tries = 0; of->engine == NULL; tries++) {
        of->engine = zkl_engine_new(&config, &host);
        if (of->engine == NULL && (!run.short_of_memory || tries == MOST_TRIES))
            abort();
    }
    begin_call(of);
    end_call(of);
}

static void add_stats(const zkl_stats *stats)
{
    int64_t *sum = (int64_t *)&totals.engines;
    const int64_t *each = (const int64_t *)stats;
    /* The other fields are instants, and a timeout. */
    for (size_t i = 0; i < offsetof(zkl_stats, in_flight_since) / sizeof(int64_t); i++)
        sum[i] += each[i];
}

void drop_client(client *of, bool kill)
{
    sim_trace("client %d: %s", of->index, kill ? "killed" : "closed");
    zkl_stats stats = *zkl_engine_stats(of->engine);
    add_stats(&stats);
    begin_call(of);
    of->closing = true;
    of->killed = kill;
    if (kill)
        sim_reset_connections(of->index);
    zkl_engine_shut_down(of->engine, read_clock(of));
    zkl_engine_free(of->engine);
    zkl_connector_free(of->connector);
    of->connector = NULL;
    forget_listings(of, true);
    of->engine = NULL;
    of->valid_until = 0;
    of->turn_stamp++;
    for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->client == of->index)
            each->acquisition = NULL;
    }
}

/* ---- a run ---- */

static bool step_until(int64_t limit)
{
    while (!run.failed && sim_now() < limit) {
        if (!sim_step())
            return false;
        note_servers();
        totals.steps++;
    }
    return !run.failed;
}

static void choose(uint64_t seed)
{
    run.seed = seed;
    run.timeout = run.options.max_session_timeout_ms * SIM_MILLISECOND;
    run.leases = sim_chance(19, 20);
    run.client_count = 2 + (int)sim_below(MAX_CLIENTS - 1);
    run.foreigner_count = sim_chance(1, 2) ? 0 : 1 + (int)sim_below(MAX_FOREIGNERS);
    zkl_most_in_flight = sim_chance(1, 8) ? 1 + (int32_t)sim_below(8) : 1000;
    run.few_watches = sim_chance(1, 10);
    zkl_most_watched_bytes = run.few_watches ? (1 + sim_below(4)) * BYTES_OF_A_WATCH : ZKL_USUAL_WATCHED_BYTES;
    /* Not by chance of the run, which would change all that follows: by the seed. */
    uint64_t bits = (seed + 1) * UINT64_C(0xd6e8feb86659fd93) >> 32;
    zkl_most_checks = bits % 4 == 0 || few_checks ? 1 + (int32_t)(bits >> 8 & 1) : ZKL_USUAL_CHECKS;
    choose_paths();
    if (one_lock) {
        run.path_count = 1;
        run.limits[0] = 0;
        run.foreigner_count = 0;
        run.keen = run.in_turns = run.calm = false;
    }
    run.resizes = bits >> 16 & 1;
    choose_latches();
    zkl_most_grants = run.handoff % 2 == 1 ? 10 : INT32_C(1) << 30;
}

/* Chooses the parts of the world that the seed decides before the world begins. */
static sim_options choose_world(uint64_t seed, bool trace)
{
    static const int32_t timeouts[] = {1000, 2000, 4000, 10000};
    static const int32_t ticks[] = {2, 3, 5, 20};
    static const int no_containers[] = {ZUNIMPLEMENTED, ZBADARGUMENTS, ZCONNECTIONLOSS};
    uint64_t bits = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bits ^= bits >> 29;
    int32_t timeout = timeouts[(bits >> 40) % 4];
    /* A round trip through all servers takes six delays and more. If that is more than T/13 no lease can be kept. */
    bool slow = (bits >> 52) % 16 == 0 && timeout > 1000;
    sim_options options = {.seed = seed,
                           .servers = bits % 5 == 0 && !one_lock ? 1 : 3,
                           .min_session_timeout_ms = timeout / 2,
                           .max_session_timeout_ms = timeout,
                           .tick_ms = timeout / ticks[one_lock ? 3 : (bits >> 44) % 4],
                           .delay = (int64_t)(50 + (bits >> 8) % 4000) * SIM_MICROSECOND * (slow ? 3 : 1),
                           .no_containers = (bits >> 24) % 8 != 0 ? 0 : no_containers[(bits >> 27) % 3],
                           .auth_fails = (bits >> 32) % 150 == 0,
                           .server_version = (bits >> 56) % 2 == 0 ? "3.9.6" : NULL,
                           .client_version = (bits >> 58) % 4 == 0 ? "3.7.2" : NULL,
                           .trace = trace,
                           .untraced = untraced};
    return options;
}

/*
 * One server grants half of the timeout that the others grant, and another grants no less than they do. So a session's
 * timeout depends on the server where it was created.
 */
static void choose_limits(void)
{
    int32_t least = run.options.min_session_timeout_ms, most = run.options.max_session_timeout_ms;
    if (run.options.servers < 3 || run.options.tick_ms > least / 2 || !sim_chance(1, 4))
        return;
    int first = (int)sim_below(run.options.servers);
    sim_set_limits(first, least, least);
    sim_set_limits((first + 1) % run.options.servers, most, most);
}

static void prepare_directories(void)
{
    if (run.prefix[0] != '\0') {
        while (!sim_exists(run.prefix) && sim_step())
            sim_foreign_create(0, run.prefix, "", ZOO_PERSISTENT);
    }
    char directory[MAX_DIRECTORY];
    if (sim_chance(1, 2))
        queue_directory(0, directory);
    else
        some_directory(directory);
    if (sim_chance(1, 40)) {
        run.unreadable = sim_chance(1, 2);
        sim_deny(directory, run.unreadable ? ZOO_PERM_READ | ZOO_PERM_CREATE : ZOO_PERM_CREATE);
        run.denied = true;
    }
    if (!run.leases && run.seed % 4 == 0)
        sim_hide_nodes();
    if (sim_chance(1, 25)) {
        sim_preset_counter(directory, sim_chance(1, 2) ? ZKL_SEQUENCE_LIMIT - (int32_t)sim_below(20)
                                                       : INT32_MAX - (int32_t)sim_below(20));
        run.exhausting = true;
    }
}

bool nothing_left(void)
{
    const char *example;
    bool still = sim_client_nodes(&example) == 0 && sim_server_watches(&example) == 0;
    for (int i = 0; i < run.client_count && still; i++) {
        if (run.clients[i].engine == NULL)
            continue;
        zkl_stats stats = *zkl_engine_stats(run.clients[i].engine);
        still = (stats.entries == 0 || run.unreadable) && stats.watches == 0 && sim_client_watches(i) == 0;
    }
    return still;
}

static void drain(void)
{
    run.draining = true;
    end_faults();
    if (run.short_for_long)
        zkl_memory_recover();
    for (int i = 0; i < run.client_count; i++) {
        client *of = &run.clients[i];
        of->paused_until = 0;
        if (of->engine != NULL)
            wake_client(of, sim_now());
    }
    const char *what = "", *stray = "";
    const acquisition_record *who = NULL;
    int64_t limit = sim_now() + 60 * run.timeout + 20 * SIM_SECOND;
    while (!run.failed && (workload_busy(&what, &who) || strays_left(&stray)) && sim_now() < limit) {
        visit_strays();
        finish_latches();
        step_until(sim_now() + run.timeout / 8);
    }
    if (!run.failed && workload_busy(&what, &who))
        fail("forgotten", "%s (acquisition %d of client %d, %s%s) %d s after the last fault", what,
             who != NULL ? who->number : -1, who != NULL ? who->client : -1,
             who != NULL ? zkl_acquisition_phase_name(who->phase) : "", who != NULL && who->ended ? ", ended" : "",
             (int)((60 * run.timeout + 20 * SIM_SECOND) / SIM_SECOND));
    /* Sessions of killed clients expire, watches are removed, and nodes linger until their time is over. */
    limit = sim_now() + 10 * run.timeout + 2 * run.longest_linger;
    while (!run.failed && !nothing_left() && sim_now() < limit)
        step_until(sim_now() + run.timeout / 8);
    if (!run.failed)
        check_quiet();
}

static void add_world(void)
{
    sim_statistics now = sim_stats();
    int64_t *sum = (int64_t *)&totals.world;
    const int64_t *each = (const int64_t *)&now;
    for (size_t i = 0; i < sizeof(now) / sizeof(int64_t); i++)
        sum[i] += each[i];
}

static void free_records(void)
{
    while (run.acquisitions != NULL) {
        acquisition_record *record = run.acquisitions;
        run.acquisitions = record->next;
        free(record);
    }
    while (run.nodes != NULL) {
        node_record *node = run.nodes;
        run.nodes = node->next;
        free(node);
    }
}

void begin_run(const sim_options *options)
{
    memset(&run, 0, sizeof(run));
    run.memory_before = zkl_memory_in_use();
    run.trace = options->trace;
    reset_checks();
    sim_hooks hooks;
    install_hooks(&hooks);
    run.options = *options;
    sim_begin(&run.options, &hooks);
}

bool end_run(void)
{
    for (int i = 0; i < run.client_count; i++) {
        if (run.clients[i].engine != NULL)
            drop_client(&run.clients[i], false);
    }
    add_world();
    sim_end();
    free_records();
    free_sets();
    if (!run.failed && zkl_memory_in_use() != run.memory_before)
        fail("orphans", "%lld bytes of memory are left", (long long)(zkl_memory_in_use() - run.memory_before));
    totals.schedules++;
    return !run.failed;
}

static bool run_any(uint64_t seed, bool trace, int64_t failures)
{
    sim_options options = choose_world(seed, trace);
    begin_run(&options);
    run.short_of_memory = failures > 0;
    run.short_for_long = failures > MANY_FAILURES;
    run.connectors = true;
    choose(seed);
    sim_trace("seed %llu: %d servers, %d clients, %d paths, T %d ms%s%s%s", (unsigned long long)seed,
              run.options.servers, run.client_count, run.path_count, (int)(run.timeout / SIM_MILLISECOND),
              run.leases ? "" : ", no leases", run.options.no_containers == 0 ? "" : ", no containers",
              run.mismatch ? ", limits that do not match" : "");
    choose_limits();
    while (sim_leader() < 0)
        sim_step();
    prepare_directories();
    run.started = sim_now();
    run.quiet_at = run.started + (6 + sim_below(14)) * run.timeout;
    for (int i = 0; i < run.client_count; i++) {
        client *of = &run.clients[i];
        of->index = i;
        of->offset = sim_below(1000) * SIM_SECOND;
        of->drift = sim_chance(1, 2) ? 0 : sim_below(20001) - 10000;
        of->last_read = 0;
        open_client(of);
    }
    start_workload();
    start_faults();
    if (step_until(run.quiet_at))
        drain();
    return end_run();
}

bool run_schedule(uint64_t seed, bool trace)
{
    return run_any(seed, trace, 0);
}

bool run_short_of_memory(uint64_t seed, bool trace, int64_t successes, int64_t failures, int64_t *attempts)
{
    zkl_memory_fail_some(successes, failures);
    bool passed = run_any(seed, trace, failures);
    *attempts = zkl_memory_attempts();
    zkl_memory_fail_after(-1);
    return passed;
}

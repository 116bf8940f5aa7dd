/*
 * explore: runs small worlds in every order. `simulate` runs some thousand orders out of very many; this program runs all.
 *
 *   explore [BOUNDS]                       every world
 *   explore --world NAME [BOUNDS]          one world; --list prints the names
 *   explore --breaks [BOUNDS]              breaks each rule of zkl_broken_rule in turn: the world that worlds.c names for the
 *                                          rule must notice; with --all: what every world says about every rule
 *   explore --break RULE --world NAME …    one rule, one world, with the trace of the shortest schedule that shows it
 *   explore --world NAME --replay 0,1,0,2 [--break RULE] [BOUNDS]   one schedule, with its trace
 *
 *   BOUNDS: --far (takes minutes, not moments) --faults N --ticks N --clients N (only worlds with N clients) --depth N
 *           --states N --jobs N (worlds at the same time, 2)
 *
 * A world (worlds.c) has two or three clients, each with a script of acquisitions and releases, and a set of faults with the
 * number of times that a fault may happen. Its state changes in steps. A step is one of these:
 *
 *   - The next message of a connection arrives, in either direction. A server takes a request and executes it. A client takes
 *     an answer or an event and does everything that follows from it.
 *
 *   - A client makes its next acquisition, release or cancellation.
 *
 *   - A short while passes: as long as a client waits before it connects again, or servers before they elect.
 *
 *   - A tick passes, a fifth of the session timeout T. This needs that nothing is under way except what a fault holds back.
 *     So messages take less than a tick without a fault, and locks are held for as many ticks as there are.
 *
 *   - A fault begins, or a fault that lasts for a while ends.
 *
 *   - The end: all holders release, all messages arrive, time passes, and then nothing may be left.
 *
 * All checks of checks.c run after each step, and those for the end of a run at each end.
 *
 * The search is breadth first, so the schedules that it finds have as few choices as possible. No state of the engine, the
 * simulated servers or the checks is copied. A state is reached by making its choices from the beginning, which takes less
 * than a tenth of a millisecond. If the same can follow from a state as from an earlier one, the search does not continue
 * there. States are compared by a hash of 64 bits. It covers the servers and the messages under way as they are, and each client
 * by all its inputs so far in their order (sim_choices.c). It also covers everything that the checks remember (hash_checks), the
 * scripts, and the faults that may still happen. Among n states, the chance that any two different ones have the same hash is
 * n * n / 2^65: one in 10^7 for a million states. Nothing verifies what hash_checks leaves out or treats as equal. A check that
 * remembers something new must add it there.
 *
 * A step that is the only possible one is made without counting as a choice. When no fault can happen any more, this also holds
 * for the arrival of an answer at a client that holds nothing, whose script does not go on at that moment, and which suffers
 * from no fault. No other step touches what this step touches: requests of this client are in the other direction. So every
 * other order leads to the same states. The step can only add to what is held at one time, so no overlap is missed. One order
 * is missed: that the answer arrives after a short while that begins only after the answer was sent.
 *
 * Schedules need no bound on their length, since scripts, ticks and faults end. With --depth the number of choices is a part
 * of the state. Where all clients have the same script, a single fault always hits the first client, because client numbers
 * do not matter.
 *
 * These orders are not run:
 *   - A client's turn in parts. A turn is one step.
 *   - Messages that take longer than a tick without a fault.
 *   - Orders of messages between servers. In a world with three servers they arrive at once, unless a server is cut off.
 *   - Orders of several effects of a short while or a tick at the same instant. They happen in one order.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "explore.h"

#define SESSION_TIMEOUT_MS 1000
#define TICKS_OF_A_TIMEOUT 5
#define TICK (SESSION_TIMEOUT_MS * SIM_MILLISECOND / TICKS_OF_A_TIMEOUT)
#define SHORT_WHILE (SESSION_TIMEOUT_MS * SIM_MILLISECOND / 20)
#define FOR_EVER (INT64_MAX / 8)
#define MOST_CHOICES 64
#define MOST_STEPS 400

typedef struct {
    int faults, ticks; /* -1: as many as the world has */
    int depth;         /* 0: no bound */
    int64_t states;
    int reach;
} bounds;

typedef enum {
    CHOOSE_DELIVERY,
    CHOOSE_STEP,
    CHOOSE_WHILE,
    CHOOSE_TICK,
    CHOOSE_END,
    CHOOSE_RELIEF, /* a fault is over */
    CHOOSE_FAULT
} choice_kind;

typedef struct {
    choice_kind kind;
    int client;
    unsigned fault; /* one bit of MAY_… */
    int index;      /* MAY_DELETE: 16 times the directory, plus the child's index */
    sim_delivery delivery;
} choice;

/* The world that is running. */
static struct {
    const world *is;
    int faults_left, ticks_left;
    bool first_only; /* faults and ends happen to the first client only */
    int64_t tick;
    int steps, choices; /* so far */
    int position[WORLD_CLIENTS];
    acquisition_record *acquisitions[WORLD_CLIENTS][WORLD_ACQUISITIONS];
    unsigned suffers[WORLD_CLIENTS]; /* the faults in effect that will end */
    int isolated[WORLD_CLIENTS];     /* MAY_ISOLATE: the server */
    bool ended;
} at;

/* ---- a world from its beginning ---- */

static void deliver_all(void)
{
    sim_delivery deliveries[MOST_CHOICES];
    for (;;) {
        int count = sim_deliveries(deliveries, MOST_CHOICES), i = 0;
        while (i < count && !deliveries[i].up && run.clients[deliveries[i].caller].paused_until > sim_now())
            i++;
        if (i == count || run.failed)
            return;
        sim_deliver(&deliveries[i]);
        sim_run_until(sim_now());
    }
}

static void make_directory(const char *path, const char *data)
{
    sim_foreign_create(0, path, data, 0);
    sim_run_until(sim_now());
}

static void prepare_directories(void)
{
    static const char *const numbers[] = {"0", "1", "2", "3", "4"};
    char directory[MAX_DIRECTORY];
    if (at.is->no_directory)
        return;
    make_directory(run.paths[0], "");
    make_directory("/_flags_l", ""); /* else the first pass would only make it */
    if (at.is->permits == 0 || at.is->latch)
        return;
    queue_directory(0, directory);
    make_directory(directory, "");
    lease_directory(0, directory);
    make_directory(directory, at.is->mismatch ? "" : numbers[at.is->permits]);
}

static bool all_connected(void)
{
    for (int i = 0; i < run.client_count; i++) {
        if (run.clients[i].state != ZKL_STATE_CONNECTED)
            return false;
    }
    return true;
}

static void begin_world(const world *is, const bounds *within, bool trace)
{
    memset(&at, 0, sizeof(at));
    at.is = is;
    at.faults_left = within->faults >= 0 ? within->faults : is->fault_count[within->reach];
    at.ticks_left = within->ticks >= 0 ? within->ticks : is->ticks[within->reach];
    at.tick = TICK * (is->tick_length > 0 ? is->tick_length : 1);
    at.first_only = is->first_only || (is->symmetric && at.faults_left == 1);
    int servers = is->servers > 0 ? is->servers : 1;
    sim_options options = {.seed = 1,
                           .servers = servers,
                           .min_session_timeout_ms = SESSION_TIMEOUT_MS,
                           .max_session_timeout_ms = SESSION_TIMEOUT_MS,
                           .tick_ms = SESSION_TIMEOUT_MS / (servers > 1 ? 2 : TICKS_OF_A_TIMEOUT),
                           .trace = trace,
                           .by_hand = true};
    begin_run(&options);
    run.seed = 2; /* no credentials, and an unchanged session timeout */
    run.timeout = SESSION_TIMEOUT_MS * SIM_MILLISECOND;
    run.leases = !is->no_lease;
    run.prefix = "";
    run.path_count = is->latch ? 0 : 1;
    run.latch_count = is->latch ? 1 : 0;
    run.latches[0].count = is->permits;
    run.limits[0] = is->latch ? 0 : is->permits;
    run.mismatch = is->mismatch;
    run.resizes = is->resizes;
    run.handoff = is->handoff;
    run.weights[ZKL_MODE_MUTEX] = 1;
    zkl_most_in_flight = 1000;
    zkl_most_grants = INT32_C(1) << 30;
    zkl_most_watched_bytes = ZKL_USUAL_WATCHED_BYTES;
    zkl_most_checks = ZKL_USUAL_CHECKS;
    snprintf(run.paths[0], sizeof(run.paths[0]), "/l");
    while (sim_leader() < 0)
        sim_run_until(sim_next_event(event_counts));
    prepare_directories();
    run.client_count = is->clients;
    for (int i = 0; i < is->clients; i++) {
        run.clients[i].index = i;
        open_client(&run.clients[i]);
    }
    while (!all_connected()) {
        deliver_all();
        if (!all_connected())
            sim_run_until(sim_next_event(event_counts));
    }
    deliver_all();
    run.started = sim_now();
}

/* ---- scripts ---- */

static const script_step *next_step(int who)
{
    return &at.is->scripts[who][at.position[who]];
}

static bool may_step(int who)
{
    const script_step *step = next_step(who);
    if (step->kind == STEP_END || run.clients[who].engine == NULL || run.clients[who].paused_until > sim_now())
        return false;
    const acquisition_record *record = at.acquisitions[who][step->acquisition];
    if (step->kind == STEP_RELEASE || step->kind == STEP_WAIT)
        return record == NULL || record->phase != ZKL_ACQUISITION_WAITING;
    if (step->kind == STEP_DOWNGRADE)
        return at.acquisitions[who][step->writer]->phase != ZKL_ACQUISITION_WAITING;
    return true;
}

static void acquisition(int who, const script_step *step)
{
    acquisition_record *record = new_record(&run.clients[who], 0);
    record->mode = step->mode;
    record->handoff = run.handoff;
    record->linger = step->linger * TICK;
    run.longest_linger = record->linger > run.longest_linger ? record->linger : run.longest_linger;
    record->max_hold = step->hold * TICK;
    record->try_only = step->try_only;
    record->optimistic = step->optimistic;
    record->limit = step->permits > 0 ? step->permits : at.is->permits;
    record->count = step->count;
    if (step->kind == STEP_DOWNGRADE) {
        record->writer = at.acquisitions[who][step->writer];
        record->writer->reader = record;
        record->writer->hands_over = true;
    }
    at.acquisitions[who][step->acquisition] = record;
    submit_acquisition(record);
}

static void take_step(int who)
{
    const script_step *step = next_step(who);
    at.position[who]++;
    sim_note(who, UINT64_C(1000) + (uint64_t)at.position[who]);
    if (step->kind == STEP_ACQUISITION) {
        acquisition(who, step);
    } else if (step->kind == STEP_DOWNGRADE) {
        if (at.acquisitions[who][step->writer]->phase == ZKL_ACQUISITION_GRANTED)
            acquisition(who, step);
    } else if (step->kind == STEP_RESIZE) {
        resize(0, step->permits);
        sim_run_until(sim_now());
    } else if (step->kind != STEP_WAIT) {
        acquisition_record *record = at.acquisitions[who][step->acquisition];
        if (record != NULL && record->acquisition != NULL && !record->ended)
            end_acquisition(record);
    }
}

/* ---- faults ---- */

static const char *const fault_texts[FAULT_BITS] = {"loses its connection and what is under way",
                                                    "loses its connection, what it has sent is under way",
                                                    "stands still",
                                                    "is cut off",
                                                    "is not heard",
                                                    "fails to send next time",
                                                    "has a node deleted by somebody",
                                                    "may see its directory reaped",
                                                    "dies",
                                                    "has a server that is cut off from the others",
                                                    "sees the leader step down"};

static int bit_of(unsigned fault)
{
    int bit = 0;
    while ((fault >> bit & 1) == 0)
        bit++;
    return bit;
}

/* Stores the directory of contenders' nodes. A semaphore has two such directories. */
static bool directory_of(int which, char *out)
{
    if (which == 0)
        queue_directory(0, out);
    else
        lease_directory(0, out);
    return which == 0 || (at.is->permits > 0 && !at.is->latch);
}

static void delete_child(int index)
{
    char directory[MAX_DIRECTORY], path[160];
    directory_of(index / 16, directory);
    snprintf(path, sizeof(path), "%s/%s", directory, sim_child(directory, index % 16));
    sim_trace("fault: somebody deletes %s", path);
    note_admin_delete(path);
    sim_foreign_delete(0, path);
}

static void go_wrong(const choice *what)
{
    client *of = &run.clients[what->client];
    at.faults_left--;
    switch (what->fault) {
    case MAY_LOSE_ALL:
    case MAY_LOSE_ANSWERS:
        sim_lose_connection(what->client, what->fault == MAY_LOSE_ANSWERS);
        break;
    case MAY_PAUSE:
        of->paused_until = of->unheard_until = FOR_EVER;
        break;
    case MAY_CUT:
        sim_set_network(what->client, -1, false);
        break;
    case MAY_STALL:
        sim_stall_requests(what->client, true);
        break;
    case MAY_SEND:
        sim_fail_next_send(what->client);
        break;
    case MAY_DELETE:
        delete_child(what->index);
        break;
    case MAY_REAP:
        sim_reap_containers();
        break;
    case MAY_KILL:
        drop_client(of, true);
        break;
    case MAY_ISOLATE:
        at.isolated[what->client] = sim_client_server(what->client);
        for (int i = 0; i < run.options.servers; i++)
            sim_set_link(at.isolated[what->client], i, false);
        break;
    case MAY_DROP_LEADER:
        sim_drop_leader();
        break;
    default:
        break;
    }
    if ((what->fault & (MAY_PAUSE | MAY_CUT | MAY_STALL | MAY_ISOLATE)) != 0)
        at.suffers[what->client] |= what->fault;
}

static void relieve(int who, unsigned fault)
{
    at.suffers[who] &= ~fault;
    switch (fault) {
    case MAY_PAUSE:
        run.clients[who].paused_until = 0;
        run.clients[who].unheard_until = sim_now();
        wake_client(&run.clients[who], sim_now());
        break;
    case MAY_CUT:
        sim_set_network(who, -1, true);
        break;
    case MAY_STALL:
        run.clients[who].unheard_until = sim_now();
        sim_stall_requests(who, false);
        break;
    case MAY_ISOLATE:
        for (int i = 0; i < run.options.servers; i++)
            sim_set_link(at.isolated[who], i, true);
        break;
    default:
        break;
    }
}

static bool can_go_wrong(int who, unsigned fault)
{
    char directory[MAX_DIRECTORY];
    if (run.clients[who].engine == NULL || (at.suffers[who] & fault) != 0)
        return false;
    switch (fault) {
    case MAY_LOSE_ALL:
    case MAY_LOSE_ANSWERS:
    case MAY_STALL:
        return sim_can_lose_connection(who);
    case MAY_ISOLATE:
        return sim_client_server(who) >= 0 && sim_client_server(who) != sim_leader() && sim_leader() >= 0;
    case MAY_REAP:
        queue_directory(0, directory);
        return who == 0 && sim_exists(directory) && sim_child_count(directory) == 0;
    case MAY_DROP_LEADER:
        return who == 0 && sim_leader() >= 0;
    default:
        return true;
    }
}

/* ---- possible next steps ---- */

static int add_deletions(choice *out)
{
    int count = 0;
    char directory[MAX_DIRECTORY];
    for (int which = 0; which < 2 && directory_of(which, directory); which++) {
        int children = sim_child_count(directory);
        for (int i = 0; i < children && i < 4; i++) {
            if (!at.is->latch || strncmp(sim_child(directory, i), "gate-", 5) == 0)
                out[count++] = (choice){.kind = CHOOSE_FAULT, .fault = MAY_DELETE, .index = which * 16 + i};
        }
    }
    return count;
}

static int add_faults(choice *out)
{
    int count = 0;
    for (int i = 0; i < (at.first_only ? 1 : at.is->clients); i++) {
        for (unsigned bit = 0; bit < FAULT_BITS; bit++) {
            unsigned fault = at.is->faults & 1U << bit;
            if (fault != 0 && fault != MAY_DELETE && can_go_wrong(i, fault))
                out[count++] = (choice){.kind = CHOOSE_FAULT, .client = i, .fault = fault};
        }
    }
    return (at.is->faults & MAY_DELETE) != 0 ? count + add_deletions(out + count) : count;
}

/* Adds the steps of clients and servers. `busy`: a message is under way that will arrive soon. */
static int add_moves(choice *out, bool *busy)
{
    sim_delivery deliveries[MOST_CHOICES / 2];
    int pending = sim_deliveries(deliveries, MOST_CHOICES / 2), count = 0;
    *busy = false;
    for (int i = 0; i < pending; i++) {
        if (!deliveries[i].up && run.clients[deliveries[i].caller].paused_until > sim_now())
            continue;
        *busy = *busy || !deliveries[i].given_up;
        out[count++] = (choice){.kind = CHOOSE_DELIVERY, .client = deliveries[i].caller, .delivery = deliveries[i]};
    }
    for (int i = 0; i < at.is->clients; i++) {
        if (may_step(i))
            out[count++] = (choice){.kind = CHOOSE_STEP, .client = i};
    }
    return count;
}

static int list_choices(choice *out)
{
    if (at.ended || at.steps >= MOST_STEPS)
        return 0;
    bool busy;
    int count = add_moves(out, &busy);
    bool stuck = count == 0;
    bool soon = sim_next_event(event_counts) <= sim_now() + SHORT_WHILE;
    if (soon)
        out[count++] = (choice){.kind = CHOOSE_WHILE};
    bool silent = (at.suffers[0] | at.suffers[1] | at.suffers[2]) != 0;
    if (!soon && !busy && at.ticks_left > 0 && (silent || !at.is->ticks_in_silence))
        out[count++] = (choice){.kind = CHOOSE_TICK};
    if (!soon && stuck)
        out[count++] = (choice){.kind = CHOOSE_END};
    for (int i = 0; i < at.is->clients; i++) {
        for (unsigned bit = 0; bit < FAULT_BITS; bit++) {
            if ((at.suffers[i] & 1U << bit) != 0 && run.clients[i].engine != NULL)
                out[count++] = (choice){.kind = CHOOSE_RELIEF, .client = i, .fault = 1U << bit};
        }
    }
    if (at.faults_left > 0)
        count += add_faults(out + count);
    return count;
}

static void describe(const choice *what, char *out, size_t size)
{
    switch (what->kind) {
    case CHOOSE_DELIVERY:
        sim_describe(&what->delivery, out, size);
        break;
    case CHOOSE_STEP: {
        static const char *const names[] = {"nothing",  "acquires", "asks to be a reader",
                                            "releases", "cancels",  "waited"};
        snprintf(out, size, "client %d %s (%d)", what->client, names[next_step(what->client)->kind],
                 next_step(what->client)->acquisition);
        break;
    }
    case CHOOSE_WHILE:
        snprintf(out, size, "a short while passes");
        break;
    case CHOOSE_TICK:
        snprintf(out, size, "a tick passes");
        break;
    case CHOOSE_END:
        snprintf(out, size, "the end");
        break;
    case CHOOSE_RELIEF:
        snprintf(out, size, "over: client %d %s", what->client, fault_texts[bit_of(what->fault)]);
        break;
    case CHOOSE_FAULT:
        snprintf(out, size, "fault: client %d %s (%d)", what->client, fault_texts[bit_of(what->fault)], what->index);
        break;
    }
}

/* ---- the end of a world ---- */

static void release_all(void)
{
    for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        const acquisition_record *reader = each->reader;
        bool waits = each->hands_over && reader->acquisition != NULL && reader->phase == ZKL_ACQUISITION_WAITING;
        if (each->acquisition != NULL && each->phase == ZKL_ACQUISITION_GRANTED && !each->ended && !waits)
            end_acquisition(each);
    }
}

static bool still_busy(const char **what, const acquisition_record **who)
{
    return workload_busy(what, who) || !nothing_left();
}

static void finish(void)
{
    const char *what = "";
    const acquisition_record *who = NULL;
    for (int i = 0; i < at.is->clients; i++) {
        for (unsigned bit = 0; bit < FAULT_BITS; bit++) {
            if ((at.suffers[i] & 1U << bit) != 0 && run.clients[i].engine != NULL)
                relieve(i, 1U << bit);
        }
    }
    run.draining = true;
    at.ended = true;
    int64_t limit = sim_now() + 20 * run.timeout + 2 * run.longest_linger;
    for (;;) {
        deliver_all();
        release_all();
        finish_latches();
        deliver_all();
        if (run.failed || sim_now() >= limit || !still_busy(&what, &who))
            break;
        int64_t next = sim_next_event(event_counts);
        sim_run_until(next < sim_now() + TICK ? next : sim_now() + TICK);
    }
    if (!run.failed && workload_busy(&what, &who))
        fail("forgotten", "%s (acquisition %d of client %d, %s) %d ms after the last fault", what,
             who != NULL ? who->number : -1, who != NULL ? who->client : -1,
             who != NULL ? zkl_acquisition_phase_name(who->phase) : "",
             (int)((20 * run.timeout + 2 * run.longest_linger) / SIM_MILLISECOND));
    if (!run.failed)
        check_quiet();
}

/* ---- one step ---- */

static void make_step(const choice *what)
{
    at.steps++;
    sim_run_until(sim_now() + SIM_MICROSECOND);
    switch (what->kind) {
    case CHOOSE_DELIVERY:
        sim_deliver(&what->delivery);
        break;
    case CHOOSE_STEP:
        take_step(what->client);
        break;
    case CHOOSE_WHILE:
        sim_run_until(sim_next_event(event_counts));
        break;
    case CHOOSE_TICK:
        at.ticks_left--;
        sim_run_until((sim_now() / at.tick + 1) * at.tick);
        break;
    case CHOOSE_END:
        finish();
        break;
    case CHOOSE_RELIEF:
        relieve(what->client, what->fault);
        break;
    case CHOOSE_FAULT:
        go_wrong(what);
        break;
    }
    sim_run_until(sim_now());
    if (!run.failed)
        check_exclusion();
    if (!run.failed)
        check_latches();
}

static uint64_t hash_state(bool with_length)
{
    uint64_t hash = sim_mix(sim_hash(event_counts), hash_checks());
    hash = sim_mix(hash, (uint64_t)at.faults_left << 32 ^ (uint64_t)at.ticks_left << 8 ^ (uint64_t)at.ended);
    for (int i = 0; i < at.is->clients; i++)
        hash = sim_mix(hash, (uint64_t)at.position[i] << 32 ^ at.suffers[i] ^ (uint64_t)at.isolated[i] << 60);
    return with_length ? sim_mix(hash, (uint64_t)at.choices) : hash;
}

/* ---- steps that need no choice ---- */

static bool holds_something(int who)
{
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->client == who && each->phase == ZKL_ACQUISITION_GRANTED)
            return true;
    }
    return false;
}

/* Returns the delivery that needs no choice (see the head of this file), -1 if there is none. */
static int free_delivery(const choice *choices, int count)
{
    if (at.faults_left > 0 && at.is->faults != 0)
        return -1;
    for (int i = 0; i < count; i++) {
        if (choices[i].kind == CHOOSE_WHILE)
            return -1;
    }
    for (int i = 0; i < count; i++) {
        int who = choices[i].client;
        if (choices[i].kind == CHOOSE_DELIVERY && !choices[i].delivery.up && at.suffers[who] == 0 && !may_step(who) &&
            !holds_something(who))
            return i;
    }
    return -1;
}

static void trace_step(const choice *what)
{
    char text[300];
    if (!run.trace)
        return;
    describe(what, text, sizeof(text));
    sim_trace("-- %d: %s", at.steps, text);
}

/* Runs until there is a choice. Returns the number of choices. */
static int run_on(choice *choices)
{
    for (;;) {
        int count = list_choices(choices);
        int only = count == 1 ? 0 : free_delivery(choices, count);
        if (count == 0 || only < 0 || run.failed)
            return count;
        trace_step(&choices[only]);
        make_step(&choices[only]);
    }
}

static void choose_step(const choice *what)
{
    at.choices++;
    trace_step(what);
    make_step(what);
}

/* ---- the search ---- */

typedef struct {
    uint64_t hash;
    uint32_t parent;
    uint32_t edges; /* index of its first successor in `edges` */
    uint16_t depth;
    uint8_t choice; /* index among the choices of its parent */
} state_record;

typedef struct {
    state_record *states;
    uint32_t count, capacity;
    uint32_t *slots; /* hash table: index + 1 */
    uint32_t slot_count;
    uint32_t *edges; /* successors, grouped by state */
    uint32_t edge_count, edge_capacity;
} search;

typedef struct {
    bool failed, bounded;
    int64_t states, steps, ends;
    double schedules;
    int complete;      /* with bounds: all schedules with up to so many choices were run */
    int depth, length; /* the largest number of choices, and of steps, in a schedule */
    double seconds;    /* CPU time */
    char check[32], problem[400];
    int choices;
    uint8_t schedule[MOST_STEPS];
} outcome;

static double clock_of(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *grow(void *memory, size_t count, size_t size)
{
    void *larger = realloc(memory, count * size);
    if (larger == NULL) {
        fputs("explore: out of memory\n", stderr);
        abort();
    }
    return larger;
}

static void rehash(search *in)
{
    in->slot_count = in->slot_count > 0 ? in->slot_count * 2 : 1 << 12;
    free(in->slots);
    in->slots = calloc(in->slot_count, sizeof(*in->slots));
    if (in->slots == NULL)
        abort();
    for (uint32_t i = 0; i < in->count; i++) {
        uint32_t slot = (uint32_t)in->states[i].hash & (in->slot_count - 1);
        while (in->slots[slot] != 0)
            slot = (slot + 1) & (in->slot_count - 1);
        in->slots[slot] = i + 1;
    }
}

/* Returns the index of the state with that hash. Adds the state if it is new. */
static uint32_t note_state(search *in, uint64_t hash, uint32_t parent, uint8_t chosen)
{
    if (in->count * 2 >= in->slot_count)
        rehash(in);
    uint32_t slot = (uint32_t)hash & (in->slot_count - 1);
    for (; in->slots[slot] != 0; slot = (slot + 1) & (in->slot_count - 1)) {
        if (in->states[in->slots[slot] - 1].hash == hash)
            return in->slots[slot] - 1;
    }
    if (in->count == in->capacity) {
        in->capacity = in->capacity > 0 ? in->capacity * 2 : 1 << 12;
        in->states = grow(in->states, in->capacity, sizeof(*in->states));
    }
    uint16_t depth = in->count > 0 ? (uint16_t)(in->states[parent].depth + 1) : 0;
    in->states[in->count] = (state_record){hash, parent, 0, depth, chosen};
    in->slots[slot] = in->count + 1;
    return in->count++;
}

static void note_edge(search *in, uint32_t to)
{
    if (in->edge_count == in->edge_capacity) {
        in->edge_capacity = in->edge_capacity > 0 ? in->edge_capacity * 2 : 1 << 14;
        in->edges = grow(in->edges, in->edge_capacity, sizeof(*in->edges));
    }
    in->edges[in->edge_count++] = to;
}

/* Stores the choices that lead to a state. Returns their number. */
static int way_to(const search *in, uint32_t state, uint8_t *out)
{
    int length = in->states[state].depth;
    for (int i = length - 1; i >= 0; i--) {
        out[i] = in->states[state].choice;
        state = in->states[state].parent;
    }
    return length;
}

/*
 * Makes `*length` choices. Returns false if a check fails, and stores after how many choices in `*length`. `choices`
 * and `count` receive the next choices.
 */
static bool walk(const uint8_t *schedule, int *length, choice *choices, int *count)
{
    *count = run_on(choices);
    for (int i = 0; i < *length && !run.failed; i++) {
        if (schedule[i] >= *count) {
            fail("replay", "choice %d is %d of %d", i, schedule[i], *count);
        } else {
            choose_step(&choices[schedule[i]]);
            *count = run_on(choices);
        }
        if (run.failed)
            *length = i + 1;
    }
    return !run.failed;
}

/*
 * Returns the number of paths from the beginning to an end. States may have several predecessors, but there are no
 * cycles.
 */
static double count_schedules(const search *in)
{
    double *ways = calloc(in->count, sizeof(*ways));
    uint32_t *stack = calloc((size_t)in->count + 1, sizeof(*stack)), *next = calloc(in->count, sizeof(*next));
    if (ways == NULL || stack == NULL || next == NULL)
        abort();
    uint32_t height = 1;
    stack[0] = 0;
    next[0] = in->states[0].edges;
    while (height > 0) {
        uint32_t state = stack[height - 1];
        uint32_t end = state + 1 < in->count ? in->states[state + 1].edges : in->edge_count;
        if (next[state] == end) {
            if (in->states[state].edges == end)
                ways[state] = 1;
            for (uint32_t i = in->states[state].edges; i < end; i++)
                ways[state] += ways[in->edges[i]];
            height--;
            continue;
        }
        uint32_t follower = in->edges[next[state]++];
        if (next[follower] == 0 && ways[follower] <= 0) {
            next[follower] = in->states[follower].edges;
            stack[height++] = follower;
        }
    }
    double result = ways[0];
    free(ways);
    free(stack);
    free(next);
    return result;
}

static void note_failure(outcome *found, const uint8_t *schedule, int length)
{
    found->failed = true;
    snprintf(found->check, sizeof(found->check), "%s", run.check);
    snprintf(found->problem, sizeof(found->problem), "%s", run.problem);
    found->choices = length;
    memcpy(found->schedule, schedule, (size_t)length);
}

/* Makes all steps that can follow a state. Returns false if a check failed. */
static bool expand(search *in, uint32_t state, const world *is, const bounds *within, outcome *found)
{
    uint8_t schedule[MOST_STEPS + 1];
    choice choices[MOST_CHOICES];
    int length = way_to(in, state, schedule), most = 1, count;
    in->states[state].edges = in->edge_count;
    for (int i = 0; i < most; i++) {
        begin_world(is, within, false);
        int walked = length;
        bool good = walk(schedule, &walked, choices, &count);
        if (good && i == 0) {
            if (hash_state(within->depth > 0) != in->states[state].hash)
                fail("replay", "the same choices led to another state");
            most = within->depth > 0 && length >= within->depth ? 0 : count;
            found->ends += at.ended;
        }
        uint64_t hash = 0;
        if (good && most > 0) {
            schedule[length] = (uint8_t)i;
            walked = length + 1;
            int before = at.steps;
            choose_step(&choices[i]);
            if (!run.failed)
                run_on(choices);
            found->steps += at.steps - before;
            found->length = at.steps > found->length ? at.steps : found->length;
            hash = run.failed ? 0 : hash_state(within->depth > 0);
        }
        if (!end_run()) {
            note_failure(found, schedule, walked);
            return false;
        }
        if (most > 0)
            note_edge(in, note_state(in, hash, state, (uint8_t)i));
    }
    return true;
}

static void explore(const world *is, const bounds *within, outcome *found)
{
    search in = {0};
    double started = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    memset(found, 0, sizeof(*found));
    choice choices[MOST_CHOICES];
    begin_world(is, within, false);
    run_on(choices);
    uint64_t first = hash_state(within->depth > 0);
    end_run();
    note_state(&in, first, 0, 0);
    for (uint32_t i = 0; i < in.count && !found->failed && !found->bounded; i++) {
        found->bounded = within->states > 0 && i >= within->states;
        found->complete = in.states[i].depth;
        if (!found->bounded)
            expand(&in, i, is, within, found);
    }
    found->states = in.count;
    found->depth = in.count > 0 ? in.states[in.count - 1].depth : 0;
    found->seconds = clock_of(CLOCK_PROCESS_CPUTIME_ID) - started;
    if (!found->failed && !found->bounded)
        found->schedules = count_schedules(&in);
    free(in.states);
    free(in.slots);
    free(in.edges);
}

/* ---- the program ---- */

typedef struct {
    bounds within;
    const char *world, *rule, *replay;
    int clients, jobs;
    bool breaks, all, list;
    const char *program;
} arguments;

/* ---- jobs: each runs a world in a process of its own ---- */

#define MOST_JOBS 1024

typedef struct {
    const world *is;
    const broken_rule *broken; /* the rule to break, NULL for none */
    pid_t process;
    bool done;
    outcome found;
} job;

static job *new_jobs(size_t count)
{
    job *jobs = mmap(NULL, count * sizeof(job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (jobs == MAP_FAILED)
        abort();
    return jobs;
}

static void start_job(job *what, const bounds *within)
{
    pid_t process = fork();
    if (process < 0)
        abort();
    if (process > 0) {
        what->process = process;
        return;
    }
    break_rule(what->broken);
    explore(what->is, within, &what->found);
    _exit(0);
}

static void end_job(job *jobs, int count)
{
    int status;
    pid_t ended = wait(&status);
    for (int i = 0; i < count; i++) {
        job *each = &jobs[i];
        if (each->process != ended)
            continue;
        each->done = true;
        if (status != 0) {
            each->found.failed = true;
            snprintf(each->found.check, sizeof(each->found.check), "process");
            snprintf(each->found.problem, sizeof(each->found.problem), "ended with status %d", status);
        }
    }
}

/* Reports the results in the order of the jobs, each as soon as possible. */
static void run_jobs(const arguments *args, job *jobs, int count, void (*tell)(const arguments *args, const job *done))
{
    int started = 0, ended = 0, told = 0;
    fflush(stdout);
    while (ended < count) {
        if (started < count && started - ended < args->jobs) {
            start_job(&jobs[started++], &args->within);
            continue;
        }
        end_job(jobs, started);
        ended++;
        while (told < count && jobs[told].done)
            tell(args, &jobs[told++]);
    }
}

static bool chosen(const arguments *args, const world *is)
{
    return (args->world == NULL || strcmp(args->world, is->name) == 0) &&
           (args->clients == 0 || args->clients == is->clients);
}

static const world *find_world(const char *name)
{
    const world *is = worlds;
    while (is->name != NULL && (name == NULL || strcmp(is->name, name) != 0))
        is++;
    return is->name != NULL ? is : NULL;
}

static const broken_rule *find_rule(const char *name)
{
    const broken_rule *rule = broken_rules;
    while (rule->name != NULL && strcmp(rule->name, name) != 0)
        rule++;
    return rule->name != NULL ? rule : NULL;
}

static void print_schedule(const arguments *args, const world *is, const broken_rule *rule, const outcome *found)
{
    printf("  replay: %s --world %s --replay ", args->program, is->name);
    for (int i = 0; i < found->choices; i++)
        printf("%s%d", i > 0 ? "," : "", found->schedule[i]);
    if (args->within.reach != NEAR)
        printf(" --far");
    if (args->within.faults >= 0)
        printf(" --faults %d", args->within.faults);
    if (args->within.ticks >= 0)
        printf(" --ticks %d", args->within.ticks);
    if (rule != NULL)
        printf(" --break %s", rule->name);
    printf("\n");
}

static int replay(const arguments *args)
{
    const world *is = find_world(args->world);
    uint8_t schedule[MOST_STEPS];
    int length = 0;
    for (const char *place = args->replay; *place != '\0' && length < MOST_STEPS; length++) {
        char *end;
        schedule[length] = (uint8_t)strtol(place, &end, 10);
        place = *end == ',' ? end + 1 : end + strlen(end);
    }
    choice choices[MOST_CHOICES];
    int count;
    begin_world(is, &args->within, true);
    if (walk(schedule, &length, choices, &count) && !at.ended) {
        char text[300];
        for (int i = 0; i < count; i++) {
            describe(&choices[i], text, sizeof(text));
            printf("next %d: %s\n", i, text);
        }
    }
    bool good = end_run();
    if (!good)
        printf("FAILED after %d choices, check '%s': %s\n", length, run.check, run.problem);
    printf("%d passed, %d failed\n", good, !good);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int number_of(int given, const int *of_world, const bounds *within)
{
    return given >= 0 ? given : of_world[within->reach];
}

static const char *bounded_text(const outcome *found)
{
    static char text[80];
    snprintf(text, sizeof(text), ", NOT ALL: those of up to %d choices", found->complete);
    return found->bounded ? text : "";
}

static void print_job(const arguments *args, const job *done)
{
    const outcome *found = &done->found;
    const world *is = done->is;
    printf("world %-10s %d clients, %d faults, %d ticks: %7" PRId64 " states, %8" PRId64 " steps, %5" PRId64
           " ends, %.1e schedules of up to %d choices and %d steps, %.1f s%s\n",
           is->name, is->clients, number_of(args->within.faults, is->fault_count, &args->within),
           number_of(args->within.ticks, is->ticks, &args->within), found->states, found->steps, found->ends,
           found->schedules, found->depth, found->length, found->seconds, bounded_text(found));
    if (found->failed) {
        printf("world %s FAILED after %d choices, check '%s': %s\n", is->name, found->choices, found->check,
               found->problem);
        print_schedule(args, is, done->broken, found);
    }
    fflush(stdout);
}

static int explore_worlds(const arguments *args)
{
    int count = 0, failed = 0;
    job *jobs = new_jobs(MOST_JOBS);
    const broken_rule *rule = args->rule != NULL ? find_rule(args->rule) : NULL;
    for (const world *is = worlds; is->name != NULL; is++) {
        if (chosen(args, is))
            jobs[count++] = (job){.is = is, .broken = rule, .found.failed = true};
    }
    double started = clock_of(CLOCK_MONOTONIC), schedules = 0;
    int64_t states = 0, steps = 0;
    run_jobs(args, jobs, count, print_job);
    for (int i = 0; i < count; i++) {
        states += jobs[i].found.states;
        steps += jobs[i].found.steps;
        schedules += jobs[i].found.schedules;
        failed += jobs[i].found.failed;
    }
    printf("%d worlds, %" PRId64 " states, %" PRId64 " steps, %.1e schedules, %d violations, %.1f s\n", count, states,
           steps, schedules, failed, clock_of(CLOCK_MONOTONIC) - started);
    printf("%d passed, %d failed\n", count - failed, failed);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static const rule_fit *fit_of(const broken_rule *rule)
{
    const rule_fit *fit = rule_fits;
    while (fit->rule != NULL && strcmp(fit->rule, rule->name) != 0)
        fit++;
    if (fit->rule == NULL) {
        fprintf(stderr, "explore: worlds.c does not say which world is to notice that '%s' is broken\n", rule->name);
        exit(2);
    }
    return fit;
}

static void print_broken(const arguments *args, const job *done)
{
    const outcome *found = &done->found;
    printf("rule %-9s in world %-10s ", done->broken->name, done->is->name);
    if (found->failed)
        printf("noticed after %6" PRId64 " states and %7" PRId64 " steps, %d choices, by '%s': %s\n", found->states,
               found->steps, found->choices, found->check, found->problem);
    else
        printf("NOT noticed in %6" PRId64 " states, %.1f s%s\n", found->states, found->seconds, bounded_text(found));
    if (found->failed && !args->all)
        print_schedule(args, done->is, done->broken, found);
    fflush(stdout);
}

/* Asks the world that should notice each rule (worlds.c). With --all it asks every world about every rule. */
static int explore_broken(const arguments *args)
{
    int count = 0, passed = 0, failed = 0;
    job *jobs = new_jobs(MOST_JOBS);
    for (const broken_rule *rule = broken_rules; rule->name != NULL; rule++) {
        const rule_fit *fit = fit_of(rule);
        if (args->rule != NULL && strcmp(args->rule, rule->name) != 0)
            continue;
        if (fit->world == NULL && !args->all)
            printf("rule %-9s does not fit: %s\n", rule->name, fit->reason);
        for (const world *is = worlds; is->name != NULL && count < MOST_JOBS; is++) {
            if (args->all ? chosen(args, is) : fit->world != NULL && strcmp(fit->world, is->name) == 0)
                jobs[count++] = (job){.is = is, .broken = rule};
        }
    }
    run_jobs(args, jobs, count, print_broken);
    for (int i = 0; i < count; i++) {
        passed += jobs[i].found.failed;
        failed += !jobs[i].found.failed;
    }
    printf("%d passed, %d failed\n", passed, args->all ? 0 : failed);
    return failed > 0 && !args->all ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void usage(void)
{
    fputs("usage: explore [--world NAME] [--far] [--faults N] [--ticks N] [--clients N] [--depth N] [--states N]\n"
          "               [--jobs N] [--break RULE] [--replay N,N,…] | --breaks [--all] | --list\n",
          stderr);
    exit(2);
}

static arguments parse(int argc, char **argv)
{
    arguments args = {.within = {.faults = -1, .ticks = -1}, .jobs = 2, .program = argv[0]};
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i] != NULL ? argv[i] : "";
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        const struct {
            const char *name;
            int *number;
            const char **text;
        } options[] = {{"--faults", &args.within.faults, NULL},
                       {"--ticks", &args.within.ticks, NULL},
                       {"--depth", &args.within.depth, NULL},
                       {"--clients", &args.clients, NULL},
                       {"--jobs", &args.jobs, NULL},
                       {"--world", NULL, &args.world},
                       {"--break", NULL, &args.rule},
                       {"--replay", NULL, &args.replay}};
        bool known = false;
        for (size_t j = 0; j < sizeof(options) / sizeof(options[0]) && !known && next != NULL; j++) {
            known = strcmp(option, options[j].name) == 0;
            if (known && options[j].number != NULL)
                *options[j].number = (int)strtol(argv[++i], NULL, 10);
            else if (known)
                *options[j].text = argv[++i];
        }
        if (known)
            continue;
        if (next != NULL && strcmp(option, "--states") == 0)
            args.within.states = strtoll(argv[++i], NULL, 10);
        else if (strcmp(option, "--far") == 0)
            args.within.reach = FAR;
        else if (strcmp(option, "--breaks") == 0)
            args.breaks = true;
        else if (strcmp(option, "--all") == 0)
            args.all = true;
        else if (strcmp(option, "--list") == 0)
            args.list = true;
        else
            usage();
    }
    bool unknown = (args.world != NULL && find_world(args.world) == NULL) ||
                   (args.rule != NULL && find_rule(args.rule) == NULL) || args.jobs < 1 ||
                   (args.replay != NULL && args.world == NULL);
    if (unknown)
        usage();
    return args;
}

int main(int argc, char **argv)
{
    arguments args = parse(argc, argv);
    if (args.rule != NULL)
        break_rule(find_rule(args.rule));
    if (args.list) {
        for (const world *is = worlds; is->name != NULL; is++)
            printf("%-10s %s\n", is->name, is->what);
        return EXIT_SUCCESS;
    }
    if (args.replay != NULL)
        return replay(&args);
    return args.breaks ? explore_broken(&args) : explore_worlds(&args);
}

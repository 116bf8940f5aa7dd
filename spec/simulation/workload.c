/*
 * workload: what clients do. They make acquisitions of every kind, hold, release, cancel and forget them, and list
 * directories, all at random.
 *
 * A new kind of lock needs, in this folder: `random_mode` below, `kind_of` (paths.c), a check in checks.c, a world in
 * worlds.c, and for each new rule a switch in rules.c. A switch is a name by which the test build breaks the rule.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule.h"

/* A list of a directory that a client asked for. */
typedef struct {
    zkl_operation *operation; /* NULL: free */
    int client;
    bool answered;
} listing;

#define MAX_LISTINGS 256
static listing listings[MAX_LISTINGS];

bool client_ready(const client *of)
{
    return of->engine != NULL && of->paused_until <= sim_now();
}

/* ---- acquisitions ---- */

zkl_mode random_mode(int path)
{
    if (is_latch(path))
        return ZKL_MODE_LATCH;
    if (run.limits[path] > 0)
        return ZKL_MODE_PERMITS;
    int64_t choice = sim_below(run.weights[0] + run.weights[1] + run.weights[2]);
    for (int i = 0; i < 2; i++) {
        if (choice < run.weights[i])
            return (zkl_mode)i;
        choice -= run.weights[i];
    }
    return ZKL_MODE_WRITE;
}

static void choose_permits(acquisition_record *record)
{
    record->limit = run.limits[record->path];
    if (run.mismatch && sim_chance(1, 6))
        record->limit = 1 + (int32_t)sim_below(MOST_PERMITS);
    record->count = sim_chance(1, 2) ? 1 : 1 + (int32_t)sim_below(record->limit);
}

acquisition_record *new_record(client *of, int path)
{
    acquisition_record *record = calloc(1, sizeof(*record));
    if (record == NULL)
        abort();
    record->number = ++run.acquisition_count;
    record->client = of->index;
    record->path = path;
    record->mode = random_mode(path);
    if (record->mode == ZKL_MODE_PERMITS)
        choose_permits(record);
    record->hold_until = ZKL_NEVER;
    if (sim_chance(1, 8))
        record->max_hold = run.timeout / 20 + sim_below(run.timeout);
    record->revocable = sim_chance(1, 4);
    record->handoff = sim_chance(1, 8) ? 0 : run.handoff;
    if (run.handoff > 0 && sim_chance(1, 3))
        record->linger = sim_below(sim_chance(1, 3) ? 12 * run.timeout : run.timeout);
    if (record->linger > run.longest_linger)
        run.longest_linger = record->linger;
    snprintf(record->identity, sizeof(record->identity), "client-%d%s", of->index,
             record->number % 8 == 0 ? "/other" : "");
    if (is_latch(path))
        describe_latch_record(record);
    record->next = run.acquisitions;
    run.acquisitions = record;
    return record;
}

/* The acquisition could not be made. */
static void refused_for_memory(acquisition_record *record)
{
    if (!run.short_of_memory || record->phase != ZKL_ACQUISITION_WAITING || record->acquisition != NULL)
        abort();
    sim_trace("client %d: no memory for acquisition %d", record->client, record->number);
    totals.refused_for_memory++;
    record->phase = ZKL_ACQUISITION_REFUSED;
    record->settled = record->ended = true;
    acquisition_over(record);
}

void submit_acquisition(acquisition_record *record)
{
    client *of = &run.clients[record->client];
    const zkl_lock lock = {.path = run.paths[record->path],
                           .mode = record->mode,
                           .permits = record->limit,
                           .identity = record->identity,
                           .acl = &ZOO_OPEN_ACL_UNSAFE,
                           .max_hold = record->max_hold,
                           .revocable = record->revocable,
                           .handoff = record->handoff,
                           .linger = record->linger};
    zkl_acquisition_request request = {.spec = zkl_lock_spec_new(&lock),
                                       .count = record->count,
                                       .optimistic = record->optimistic,
                                       .try_only = record->try_only};
    static const char *const names[] = {"mutex", "read", "write", "permits", "latch", "count-down"};
    sim_trace("client %d: acquisition %d on %s, %s%s, %d of %d, max_hold %lld ms%s%s", of->index, record->number,
              lock.path, names[record->mode], record->writer != NULL ? " beside its writer" : "", (int)record->count,
              (int)record->limit, (long long)(record->max_hold / SIM_MILLISECOND),
              record->revocable ? ", revocable" : "", record->try_only ? ", a try" : "");
    totals.acquisitions++;
    totals.modes[record->mode]++;
    totals.tries += record->try_only;
    record->asked_at = sim_now();
    check_asked(record);
    begin_call(of);
    int64_t before = zkl_engine_stats(of->engine)->requests;
    const zkl_acquisition *writer = record->writer != NULL ? record->writer->acquisition : NULL;
    zkl_acquisition *acquisition =
        request.spec != NULL ? zkl_engine_acquire(of->engine, &request, writer, record, read_clock(of)) : NULL;
    zkl_lock_spec_drop(request.spec);
    if (acquisition == NULL) {
        refused_for_memory(record);
        end_call(of);
        return;
    }
    record->acquisition = acquisition;
    if (record->phase == ZKL_ACQUISITION_GRANTED)
        check_no_requests(of, "to be granted by a node that is held or lingers", before,
                          record->revocable + (record->handoff > 0)); /* it may begin to watch the directory */
    end_call(of);
}

static void make_acquisition(client *of, int path)
{
    acquisition_record *record = new_record(of, path);
    record->try_only = sim_chance(1, 4);
    record->optimistic = record->try_only && sim_chance(1, 4);
    if (one_lock) {
        record->mode = ZKL_MODE_MUTEX;
        record->try_only = record->optimistic = false;
        record->linger = record->max_hold = 0;
    }
    submit_acquisition(record);
}

/* ---- a client that wants one lock all the time ---- */

#define KEEN_ACQUISITIONS 3

static bool is_keen(const acquisition_record *record)
{
    return run.keen && record->client == 0 && record->path == 0;
}

static void stay_keen(void *context, int64_t nothing)
{
    (void)nothing;
    client *of = context;
    if (run.draining)
        return;
    int count = 0;
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next)
        count += is_keen(each) && each->acquisition != NULL && !each->ended &&
                 (each->phase == ZKL_ACQUISITION_WAITING || each->phase == ZKL_ACQUISITION_GRANTED);
    for (; count < KEEN_ACQUISITIONS && client_ready(of) && !of->closing; count++) {
        acquisition_record *record = new_record(of, 0);
        record->handoff = run.handoff;
        record->mode = ZKL_MODE_MUTEX;
        record->revocable = false;
        record->max_hold = 0;
        snprintf(record->identity, sizeof(record->identity), "client-0");
        submit_acquisition(record);
    }
    sim_schedule(sim_now() + 1 + sim_below(run.timeout / 20), stay_keen, of, 0);
}

/* ---- clients that take turns with one lock ---- */

static void release_event(void *context, int64_t number);

#define TURNS 40 /* acquisitions of each client, one after the other; some are cancelled */

static void take_turn(void *context, int64_t left)
{
    client *of = context;
    if (run.draining || run.failed)
        return;
    if (!client_ready(of) || of->closing) {
        sim_schedule(sim_now() + 1 + sim_below(run.timeout), take_turn, of, left);
        return;
    }
    acquisition_record *record = new_record(of, 0);
    record->mode = ZKL_MODE_MUTEX;
    record->handoff = 0;
    record->linger = record->max_hold = 0;
    record->revocable = false;
    record->turns_left = left;
    if (sim_chance(1, 20))
        sim_schedule(sim_now() + sim_below(4 * run.options.delay), release_event, record, record->number);
    submit_acquisition(record);
}

/* A client that has released usually acquires again soon. */
static void come_back(const acquisition_record *record)
{
    if (record->turns_left > 1)
        sim_schedule(sim_now() + sim_below(sim_chance(1, 20) ? run.timeout : run.options.delay), take_turn,
                     &run.clients[record->client], record->turns_left - 1);
}

static void start_turns(void)
{
    for (int i = 0; i < run.client_count; i++)
        sim_schedule(sim_now() + sim_below(run.timeout), take_turn, &run.clients[i], TURNS);
}

static int open_acquisitions(const client *of)
{
    int count = 0;
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next)
        count += each->client == of->index && each->acquisition != NULL &&
                 (each->phase == ZKL_ACQUISITION_WAITING || each->phase == ZKL_ACQUISITION_GRANTED);
    return count;
}

/* Makes several acquisitions at once that may share a node. */
static void make_acquisitions(client *of)
{
    int path = (int)sim_below(run.path_count);
    if (run.keen && of->index == 0 && path == 0)
        return;
    int64_t count = run.handoff > 0 && sim_chance(1, 4) ? 1 + sim_below(run.most_open) : 1;
    for (int64_t i = 0; i < count && client_ready(of) && !of->closing && open_acquisitions(of) < run.most_open; i++)
        make_acquisition(of, path);
}

static void forget(acquisition_record *record)
{
    client *of = &run.clients[record->client];
    sim_trace("client %d: forgets acquisition %d", of->index, record->number);
    record->ended = true;
    begin_call(of);
    record->end_code = ZKL_CANCELLED;
    zkl_acquisition *acquisition = record->acquisition;
    record->acquisition = NULL;
    note_forgotten(record);
    of->disturbed_at = sim_now(); /* the checks are not told how it ends */
    zkl_acquisition_forget(acquisition, read_clock(of));
    end_call(of);
    acquisition_over(record);
}

/*
 * Returns whether a revocation was requested and received by the node's client, so that waiting acquisitions queue with
 * another node. The node is that of the acquisition, or that of a waiting acquisition's queue entry, which just went to
 * other acquisitions.
 */
static bool told_to_let_go(const acquisition_record *record)
{
    if (record->held_count > 0)
        return record->held[0]->told;
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->client == record->client && each->path == record->path && each->phase == ZKL_ACQUISITION_GRANTED &&
            each->granted_at == sim_now() && each->held_count > 0 && each->held[0]->told)
            return true;
    }
    return false;
}

void end_acquisition(acquisition_record *record)
{
    client *of = &run.clients[record->client];
    if (sim_chance(1, 6)) {
        forget(record);
        return;
    }
    bool waiting = record->phase == ZKL_ACQUISITION_WAITING;
    sim_trace("client %d: ends acquisition %d", of->index, record->number);
    record->ended = true;
    record->end_code = waiting ? ZKL_CANCELLED : ZKL_OK;
    totals.cancelled += waiting;
    begin_call(of);
    int64_t before = zkl_engine_stats(of->engine)->requests;
    int64_t grants = totals.grants, overheard = totals.overheard;
    zkl_acquisition_end(record->acquisition, record->end_code, read_clock(of));
    bool told = told_to_let_go(record);
    bool many = totals.grants > grants + 1; /* several readers: then it may begin to watch the directory */
    if (totals.grants > grants && record->mode != ZKL_MODE_PERMITS && !told)
        check_no_requests(of, "to hand a node over", before, totals.overheard - overheard + many);
    end_call(of);
    acquisition_over(record);
    if (record->acquisition != NULL && sim_chance(1, 2))
        forget(record);
}

static void release_event(void *context, int64_t number)
{
    acquisition_record *record = context;
    const client *of = &run.clients[record->client];
    if (record->number != number || record->acquisition == NULL || record->ended || run.failed)
        return;
    const acquisition_record *reader = record->reader;
    bool waits =
        record->hands_over && reader != NULL && reader->acquisition != NULL && reader->phase == ZKL_ACQUISITION_WAITING;
    bool enjoys = record->revocable && record->revocations == 0 && !run.draining && record->number % 4 == 0 &&
                  sim_now() < record->granted_at + 6 * run.timeout;
    if (of->paused_until > sim_now())
        sim_schedule(of->paused_until + sim_below(run.timeout / 10), release_event, record, number);
    else if (waits || enjoys)
        sim_schedule(sim_now() + 1 + sim_below(run.timeout / 10), release_event, record, number);
    else
        end_acquisition(record);
}

void acquisition_granted(acquisition_record *record)
{
    if (run.options.by_hand || run.options.even)
        return;
    if (record->set != NULL) {
        set_changed(record->set);
        return;
    }
    int64_t hold = sim_below(run.draining ? run.timeout / 20 : run.timeout);
    if (!run.draining && sim_chance(1, 6))
        hold *= 4;
    if (sim_chance(1, 3))
        hold /= 50;
    if (is_keen(record))
        hold /= 10;
    if (record->turns_left > 0)
        hold = sim_below(2 * run.options.delay);
    if (one_lock && !run.draining)
        hold = run.timeout / 2 + sim_below(run.timeout * 2);
    sim_schedule(sim_now() + hold, release_event, record, record->number);
}

void acquisition_over(acquisition_record *record)
{
    if (record->set != NULL)
        set_changed(record->set);
    come_back(record);
    record->turns_left = 0;
}

/* ---- what one client does next ---- */

static acquisition_record *random_acquisition(const client *of, int phase)
{
    acquisition_record *chosen = NULL;
    int64_t seen = 0;
    for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->client == of->index && each->acquisition != NULL && (int)each->phase == phase && !each->ended &&
            sim_below(++seen) == 0)
            chosen = each;
    }
    return chosen;
}

/* Forgets acquisitions that are over. Some stay until their client is closed. */
static void tidy(client *of)
{
    for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->client != of->index || each->acquisition == NULL)
            continue;
        bool over = each->phase != ZKL_ACQUISITION_WAITING && each->phase != ZKL_ACQUISITION_GRANTED;
        if (over && (each->settled || sim_chance(1, 4)) && sim_chance(3, 4)) {
            forget(each);
            return;
        }
    }
}

static void listed(void *user, zkl_code code, const char *message, zkl_operation_result *result, int32_t failed_part)
{
    listing *mine = user;
    (void)failed_part;
    sim_trace("listed: %s %s, %d", zkl_code_name(code), message, result != NULL ? (int)result->name_count : 0);
    if (mine->answered)
        fail("final", "a list was answered twice");
    mine->answered = true;
    zkl_operation_result_free(result);
}

void forget_listings(client *of, bool are_gone)
{
    for (int i = 0; i < MAX_LISTINGS; i++) {
        listing *each = &listings[i];
        if (each->operation == NULL || each->client != of->index || !(each->answered || are_gone))
            continue;
        if (!are_gone)
            zkl_operation_forget(each->operation, read_clock(of));
        each->operation = NULL;
    }
}

static void list_directory(client *of)
{
    static const zkl_operation_host host = {.done = listed};
    begin_call(of);
    forget_listings(of, false);
    listing *mine = NULL;
    for (int i = 0; i < MAX_LISTINGS && mine == NULL; i++)
        mine = listings[i].operation == NULL ? &listings[i] : NULL;
    if (mine != NULL) {
        char directory[MAX_DIRECTORY];
        some_directory(directory);
        totals.listings++;
        const zkl_operation_request request = {.kind = ZKL_OPERATION_CHILDREN, .path = directory + strlen(run.prefix)};
        *mine = (listing){.operation = zkl_operation_new(&request), .client = of->index};
        if (mine->operation != NULL)
            zkl_engine_operate(of->engine, mine->operation, &host, mine, read_clock(of));
    }
    end_call(of);
}

/* Downgrades a writer. It releases the writer before or after the reader is granted. */
static void downgrade(acquisition_record *writer)
{
    client *of = &run.clients[writer->client];
    acquisition_record *reader = new_record(of, writer->path);
    reader->mode = ZKL_MODE_READ;
    reader->writer = writer;
    reader->try_only = sim_chance(1, 6);
    writer->reader = reader;
    writer->hands_over = sim_chance(2, 3);
    totals.downgrades++;
    submit_acquisition(reader);
    if (!writer->hands_over && sim_chance(1, 2) && writer->acquisition != NULL && !writer->ended)
        end_acquisition(writer);
}

static bool may_downgrade(const acquisition_record *record)
{
    return record->mode == ZKL_MODE_WRITE && record->phase == ZKL_ACQUISITION_GRANTED && record->acquisition != NULL &&
           !record->ended && record->reader == NULL && record->set == NULL && !run.few_watches;
}

static void downgrade_event(void *context, int64_t number)
{
    acquisition_record *writer = context;
    const client *of = &run.clients[writer->client];
    if (writer->number == number && may_downgrade(writer) && client_ready(of) && !of->closing && !run.draining &&
        !run.failed)
        downgrade(writer);
}

bool disown_writer(char *path, size_t size)
{
    for (acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (!may_downgrade(each) || !sim_chance(1, 2))
            continue;
        snprintf(path, size, "%s", each->node);
        sim_schedule(sim_now() + sim_below(run.timeout / 5), downgrade_event, each, each->number);
        return true;
    }
    return false;
}

/* Writes into a node what Curator's Revoker writes, or something else. */
static void revoke(void)
{
    char directory[MAX_DIRECTORY], path[160];
    some_directory(directory);
    int count = sim_child_count(directory);
    if (count == 0)
        return;
    int32_t number;
    const char *name = sim_child(directory, sim_chance(1, 2) ? 0 : (int)sim_below(count));
    if (contender_name(name, &number) == SIM_NO_PART && zkl_node_parse(name).kind != ZKL_NODE_LEASE)
        return;
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    sim_foreign_set(0, path, sim_chance(5, 6) ? "__REVOKE__" : "__REVOKE");
}

/* Another thread has checked whether a grant still holds, and saw that its lease has run out. */
static void notice_lapse(client *of)
{
    acquisition_record *record = random_acquisition(of, ZKL_ACQUISITION_GRANTED);
    if (record == NULL || grant_valid(record))
        return;
    begin_call(of);
    of->last_read = client_clock(of, sim_now()); /* read after the other thread's check */
    zkl_acquisition_lapsed(record->acquisition, of->last_read);
    end_call(of);
}

static void rush(void *context, int64_t argument)
{
    client *of = context;
    (void)argument;
    if (client_ready(of) && !of->closing && !run.draining && !run.failed &&
        open_acquisitions(of) < (one_lock ? 1 : run.most_open))
        make_acquisition(of, (int)sim_below(run.path_count));
}

void want_soon(client *of, int64_t after)
{
    sim_schedule(sim_now() + after, rush, of, 0);
}

static void look(void *context, int64_t argument)
{
    client *of = context;
    (void)argument;
    if (client_ready(of) && !of->closing && !run.draining && !run.failed)
        list_directory(of);
}

void look_soon(client *of, int64_t after)
{
    sim_schedule(sim_now() + after, look, of, 0);
}

/* All clients want something at nearly the same time. */
void start_rush(void)
{
    int64_t begin = sim_now() + sim_below(run.options.delay * 40);
    for (int i = 0; i < run.client_count; i++)
        sim_schedule(begin + sim_below(run.options.delay * 4), rush, &run.clients[i], 0);
}

static void want_downgrade(client *of)
{
    acquisition_record *writer = random_acquisition(of, ZKL_ACQUISITION_GRANTED);
    if (writer != NULL && may_downgrade(writer))
        downgrade(writer);
}

static void want_something(client *of, int64_t choice)
{
    acquisition_record *record;
    if (run.latch_count > 0 && choice < 20 && sim_chance(1, 4)) {
        if (open_acquisitions(of) <= run.most_open)
            use_latch(of);
    } else if (choice < 9) {
        make_acquisitions(of);
    } else if (choice < 10) {
        if (open_acquisitions(of) <= run.most_open)
            make_set(of);
    } else if (choice < 12) {
        if (open_acquisitions(of) <= run.most_open)
            want_downgrade(of);
    } else if (choice < 14) {
        if ((record = random_acquisition(of, ZKL_ACQUISITION_WAITING)) != NULL)
            end_acquisition(record);
    } else if (choice < 16) {
        list_directory(of);
    } else if (choice < 18) {
        revoke();
    } else if (choice < 20) {
        notice_lapse(of);
    } else {
        tidy(of);
    }
}

static void act(void *context, int64_t argument)
{
    client *of = context;
    if (run.failed)
        return;
    sim_schedule(sim_now() + run.timeout / 40 + sim_below(run.timeout / 2), act, of, argument);
    if (!client_ready(of) || of->closing)
        return;
    /* 20: the fault decides which client wants the lock, and when. */
    if (!run.draining)
        want_something(of, one_lock ? 20 : sim_below(24));
    else if (sim_chance(1, 2))
        notice_lapse(of);
    else
        tidy(of);
}

/* ---- beginning and end ---- */

void start_workload(void)
{
    memset(listings, 0, sizeof listings);
    if (sim_chance(1, 3) && !one_lock)
        start_rush();
    if (run.keen)
        sim_schedule(sim_now() + sim_below(run.timeout), stay_keen, &run.clients[0], 0);
    if (run.in_turns)
        start_turns();
    for (int i = 0; i < run.client_count; i++)
        sim_schedule(sim_now() + sim_below(run.timeout / 2), act, &run.clients[i], 0);
    start_foreigners();
    start_resizes();
}

bool workload_busy(const char **what, const acquisition_record **who)
{
    *who = NULL;
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->acquisition == NULL)
            continue;
        *who = each;
        if (each->phase == ZKL_ACQUISITION_WAITING) {
            *what = each->try_only ? "a try was not answered" : "an acquisition still waits";
            return true;
        }
        if (each->phase == ZKL_ACQUISITION_GRANTED) {
            *what = "an acquisition still holds";
            return true;
        }
        if (!each->settled && !run.unreadable) {
            *what = "an acquisition that is over has not settled";
            return true;
        }
    }
    *who = NULL;
    for (int i = 0; i < run.client_count; i++) {
        if (run.clients[i].engine != NULL && run.clients[i].closing) {
            *what = "a client does not finish closing";
            return true;
        }
    }
    for (int i = 0; i < run.foreigner_count; i++) {
        if (foreigner_busy(&run.foreigners[i])) {
            *what = "a foreigner still waits";
            return true;
        }
    }
    for (int i = 0; i < MAX_LISTINGS; i++) {
        if (listings[i].operation != NULL && !listings[i].answered) {
            *what = "a list was not answered";
            return true;
        }
    }
    return false;
}

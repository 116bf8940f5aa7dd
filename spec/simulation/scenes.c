/*
 * scenes: single scenes, message by message. Random schedules hardly ever reach them, and they are too long for small worlds.
 *
 *   scenes [--trace]
 *
 * Each scene has the clients, servers and checks of schedule.h, in a world that is run by hand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "lock/entry.h"
#include "lock/permits.h"
#include "schedule.h"

#define SESSION_TIMEOUT_MS 1000
#define MOST_DELIVERIES 32
/* A scene that takes more seconds than this hangs, for example in a circular list. */
#define LONGEST 60

int passed, failed;
const char *test_name;

/* ---- time and messages ---- */

/* The client whose messages stay under way; -1: none. */
static int held_back = -1;

static void deliver(const sim_delivery *delivery)
{
    sim_run_until(sim_now() + SIM_MICROSECOND);
    sim_deliver(delivery);
    sim_run_until(sim_now());
}

/* Delivers the next message. Returns false if none is under way. */
static bool deliver_one(void)
{
    sim_delivery deliveries[MOST_DELIVERIES];
    int count = run.failed ? 0 : sim_deliveries(deliveries, MOST_DELIVERIES);
    for (int i = 0; i < count; i++) {
        if (deliveries[i].caller != held_back) {
            deliver(&deliveries[i]);
            return true;
        }
    }
    return false;
}

/* Returns the client's first message that is under way to a server, or from one; NULL if there is none. */
static const sim_delivery *message_of(const client *of, bool up)
{
    static sim_delivery deliveries[MOST_DELIVERIES];
    int count = run.failed ? 0 : sim_deliveries(deliveries, MOST_DELIVERIES);
    for (int i = 0; i < count; i++) {
        if (deliveries[i].caller == of->index && deliveries[i].up == up)
            return &deliveries[i];
    }
    return NULL;
}

/* Delivers all requests of the client that are under way, and no reply; or all replies and events, and no request. */
static void deliver_all_of(const client *of, bool up)
{
    for (const sim_delivery *next = message_of(of, up); next != NULL; next = message_of(of, up))
        deliver(next);
}

static void deliver_all(void)
{
    while (deliver_one()) {
    }
}

/* Delivers all messages that are under way, and lets time pass until the next event. */
static void pass_time(void)
{
    deliver_all();
    if (!run.failed)
        sim_run_until(sim_next_event(event_counts));
    deliver_all();
}

static bool is(const acquisition_record *record, zkl_acquisition_phase phase)
{
    return record->phase == phase;
}

/* Waits for ten session timeouts at most. */
static void until(const acquisition_record *record, zkl_acquisition_phase phase)
{
    int64_t limit = sim_now() + 10 * run.timeout;
    while (!run.failed && !is(record, phase) && sim_now() < limit)
        pass_time();
    CHECK(is(record, phase));
}

/* ---- a scene ---- */

static void begin_scene(const char *name, int paths, bool trace)
{
    test_name = name;
    sim_options options = {.seed = 1,
                           .servers = 1,
                           .min_session_timeout_ms = SESSION_TIMEOUT_MS,
                           .max_session_timeout_ms = SESSION_TIMEOUT_MS,
                           .tick_ms = SESSION_TIMEOUT_MS / 5,
                           .trace = trace,
                           .by_hand = true};
    begin_run(&options);
    run.seed = 2; /* no credentials, and an unchanged session timeout */
    run.timeout = SESSION_TIMEOUT_MS * SIM_MILLISECOND;
    run.leases = true;
    run.prefix = "";
    run.path_count = paths;
    run.weights[ZKL_MODE_MUTEX] = 1;
    zkl_most_in_flight = 1000;
    zkl_most_watched_bytes = ZKL_USUAL_WATCHED_BYTES;
    zkl_most_checks = ZKL_USUAL_CHECKS;
    while (sim_leader() < 0)
        sim_run_until(sim_next_event(event_counts));
}

static client *new_client(void)
{
    client *of = &run.clients[run.client_count];
    of->index = run.client_count++;
    open_client(of);
    while (of->state != ZKL_STATE_CONNECTED)
        pass_time();
    return of;
}

static acquisition_record *ask(client *of, int path, int64_t linger)
{
    acquisition_record *record = new_record(of, path);
    record->handoff = 0; /* with a node of its own */
    record->linger = linger;
    run.longest_linger = linger > run.longest_linger ? linger : run.longest_linger;
    submit_acquisition(record);
    return record;
}

/* Makes an acquisition, waits until it is granted, and releases it. All requests are acknowledged. */
static void take_turn(client *of)
{
    acquisition_record *record = ask(of, 0, 0);
    until(record, ZKL_ACQUISITION_GRANTED);
    end_acquisition(record);
    deliver_all();
}

static void replace_data(sim_replacement how)
{
    note_replacing(how);
    CHECK(sim_replace_data(how, ""));
    note_replaced(how);
    for (int i = 0; i < run.options.servers; i++)
        sim_restart_server(i);
    deliver_all();
}

/* Lets time pass, with all its events. */
static void wait_until(int64_t instant)
{
    while (!run.failed && sim_now() < instant)
        pass_time();
}

static void end_scene(void)
{
    for (int i = 0; i < run.client_count && run.replaced_live_at != 0; i++)
        sim_lose_connection(i, false); /* the servers have forgotten the watches */
    run.draining = true;
    int64_t limit = sim_now() + 20 * run.timeout + 2 * run.longest_linger;
    while (!run.failed && !nothing_left() && sim_now() < limit)
        pass_time();
    if (!run.failed)
        check_quiet();
    bool good = end_run();
    CHECK(good);
    if (!good)
        printf("%s: check '%s': %s\n", test_name, run.check, run.problem);
}

/* ---- the scenes ---- */

/*
 * An acquisition may not send yet, and waits while its directory is made for another acquisition, which is cancelled.
 * When the directory exists, a node that lingers elsewhere has used up the watch budget.
 */
static void directory_made_without_room(bool trace)
{
    begin_scene("a directory is made for an acquisition that finds no room", 2, trace);
    zkl_most_in_flight = 2;
    zkl_most_watched_bytes = 100;
    snprintf(run.paths[0], sizeof(run.paths[0]), "/l");
    snprintf(run.paths[1], sizeof(run.paths[1]), "/new/l");
    client *of = new_client();

    acquisition_record *holder = ask(of, 0, 2 * run.timeout);
    until(holder, ZKL_ACQUISITION_GRANTED);
    deliver_all();

    acquisition_record *first = ask(of, 1, 0);
    const zkl_queue *queue = first->acquisition->queue;
    while (queue->parents_flying == 0 && deliver_one()) {
    }
    CHECK(queue->parents_flying == 2);
    acquisition_record *second = ask(of, 1, 0);
    const zkl_acquisition *waits = second->acquisition;
    CHECK(waits->entry != first->acquisition->entry && waits->entry->wait_list == &waits->entry->locks->runnable &&
          !waits->entry->reserved);
    end_acquisition(first);
    end_acquisition(holder);
    CHECK(!zkl_entry_fits(waits->entry));
    while (queue->parents_flying > 0 && deliver_one()) {
    }
    CHECK(!is(second, ZKL_ACQUISITION_GRANTED) && waits->entry->wait_list == &waits->entry->locks->over_watch_budget);
    until(second, ZKL_ACQUISITION_GRANTED); /* the lingering node is deleted */
    end_acquisition(second);
    end_scene();
}

/*
 * A directory above the lock's exists when it is to be made. It is gone when the directory in it is to be made: an
 * empty container that was reaped.
 */
static void directory_reaped(bool trace)
{
    begin_scene("a directory is reaped while those in it are made", 1, trace);
    snprintf(run.paths[0], sizeof(run.paths[0]), "/new/a/l");
    client *of = new_client();
    CHECK(sim_foreign_create(0, "/new", "", 0));
    sim_run_until(sim_now());
    acquisition_record *record = ask(of, 0, 0);
    const zkl_queue *queue = record->acquisition->queue;
    while (queue->parents_flying == 0 && deliver_one()) {
    }
    CHECK(queue->parents_flying == 3);
    const sim_delivery *first = message_of(of, true);
    CHECK(first != NULL);
    deliver(first);
    CHECK(sim_foreign_delete(0, "/new"));
    sim_run_until(sim_now());
    until(record, ZKL_ACQUISITION_GRANTED);
    end_acquisition(record);
    end_scene();
}

#define NUMBER 40 /* number of the first node */

static void begin_with_numbers(const char *name, const broken_rule *rule, bool trace)
{
    begin_scene(name, 1, trace);
    break_rule(rule);
    snprintf(run.paths[0], sizeof(run.paths[0]), "/l");
    sim_preset_counter(run.paths[0], NUMBER);
    sim_foreign_create(0, run.paths[0], "", 0);
    sim_run_until(sim_now());
}

/*
 * `one` has had the number, and `other` holds by the same number in the new data. `one` gets the next number and must
 * wait.
 */
static void meet_again(client *one, client *other)
{
    acquisition_record *holder = ask(other, 0, 0);
    until(holder, ZKL_ACQUISITION_GRANTED);
    CHECK(run.failed || zkl_node_parse(strrchr(holder->node, '/') + 1).sequence == NUMBER);
    while (!run.failed && one->state != ZKL_STATE_CONNECTED)
        pass_time();
    acquisition_record *waiter = ask(one, 0, 0);
    deliver_all();
    CHECK(run.failed || (is(waiter, ZKL_ACQUISITION_WAITING) && is(holder, ZKL_ACQUISITION_GRANTED)));
    if (run.failed)
        return;
    CHECK(zkl_node_parse(strrchr(waiter->node, '/') + 1).sequence == NUMBER + 1);
    end_acquisition(holder);
    until(waiter, ZKL_ACQUISITION_GRANTED);
    end_acquisition(waiter);
}

/* Two holders must be noticed if a rule is broken, and only then. */
static void end_with_numbers(const broken_rule *rule)
{
    bool noticed = run.failed && strcmp(run.check, "exclusion") == 0;
    if (rule == NULL) {
        end_scene();
    } else {
        CHECK(noticed);
        end_run();
    }
    break_rule(NULL);
}

/* The servers are stopped, lose their data, and are restored. Another client comes only afterwards. */
static void restored_data(const broken_rule *rule, bool trace)
{
    begin_with_numbers("data are restored while a client stays", rule, trace);
    sim_back_up();
    client *one = new_client();
    take_turn(one);
    replace_data(SIM_RESTORED);
    meet_again(one, new_client());
    end_with_numbers(rule);
}

/* The same while connections stay, but longer ago than a number counts. */
static void restored_live(const broken_rule *rule, bool trace)
{
    begin_with_numbers("data are restored under living connections", rule, trace);
    client *one = new_client(), *other = new_client();
    sim_back_up();
    take_turn(one);
    replace_data(SIM_RESTORED_LIVE);
    wait_until(sim_now() + 2 * ZKL_SECOND);
    meet_again(one, other);
    end_with_numbers(rule);
}

/*
 * A client with more nodes than a heartbeat checks holds two locks, one of which it got after the backup. No event tells that the node
 * of that one is gone, and its turn to be checked comes after those of all others.
 */
static void restored_under_many(const broken_rule *rule, bool trace)
{
    begin_with_numbers("data are restored under a client that holds many locks", rule, trace);
    zkl_most_checks = 1;
    run.path_count = 3;
    snprintf(run.paths[1], sizeof(run.paths[1]), "/m");
    snprintf(run.paths[2], sizeof(run.paths[2]), "/n");
    client *one = new_client(), *other = new_client();
    acquisition_record *records[12] = {ask(other, 2, 0), ask(one, 1, 0)};
    until(records[0], ZKL_ACQUISITION_GRANTED);
    until(records[1], ZKL_ACQUISITION_GRANTED);
    for (int i = 2; i < 12; i++)
        records[i] = ask(one, 2, 0);
    deliver_all();
    sim_back_up();
    acquisition_record *newest = ask(one, 0, 0);
    until(newest, ZKL_ACQUISITION_GRANTED);
    wait_until(sim_now() + run.timeout / 2);
    replace_data(SIM_RESTORED_LIVE);
    acquisition_record *second = ask(other, 0, 0);
    until(second, ZKL_ACQUISITION_GRANTED);
    wait_until(sim_now() + 2 * run.timeout);
    CHECK(run.failed || is(newest, ZKL_ACQUISITION_LOST));
    for (int i = 0; i < 12 && !run.failed; i++)
        end_acquisition(records[i]);
    if (!run.failed)
        end_acquisition(second);
    end_with_numbers(rule);
}

/*
 * A client holds one lock and waits for so many others that its heartbeats check the node of that one now and then only. So the node is
 * guarded, and its deletion is noticed at once.
 */
static void deleted_beside_waiters(bool trace)
{
    begin_with_numbers("the node of a holder is deleted that waits for many other locks", NULL, trace);
    zkl_most_checks = 1;
    run.path_count = 2;
    snprintf(run.paths[1], sizeof(run.paths[1]), "/m");
    client *one = new_client(), *other = new_client();
    acquisition_record *records[6] = {ask(other, 1, 0)};
    until(records[0], ZKL_ACQUISITION_GRANTED);
    acquisition_record *held = ask(one, 0, 0);
    until(held, ZKL_ACQUISITION_GRANTED);
    for (int i = 1; i < 6; i++)
        records[i] = ask(one, 1, 0);
    wait_until(sim_now() + run.timeout);
    note_admin_delete(held->node);
    CHECK(sim_foreign_delete(0, held->node));
    sim_run_until(sim_now());
    deliver_all();
    CHECK(run.failed || is(held, ZKL_ACQUISITION_LOST));
    for (int i = 0; i < 6 && !run.failed; i++)
        end_acquisition(records[i]);
    end_with_numbers(NULL);
}

/*
 * A client guards the nodes of four locks. Its servers forget all watches. Then a session of another client replaces one of these nodes.
 * No event tells that, and no check, so it is left to the reads that take turns.
 */
static void replaced_under_many(int which, bool trace)
{
    begin_with_numbers("a node is replaced that is guarded by a watch that was forgotten", NULL, trace);
    zkl_most_checks = 1;
    run.path_count = 4;
    client *one = new_client();
    acquisition_record *records[4];
    for (int i = 0; i < 4; i++) {
        snprintf(run.paths[i], sizeof(run.paths[i]), "/l%d", i);
        records[i] = ask(one, i, 0);
        until(records[i], ZKL_ACQUISITION_GRANTED);
    }
    wait_until(sim_now() + run.timeout);
    sim_back_up();
    replace_data(SIM_RESTORED_LIVE);
    char node[160];
    snprintf(node, sizeof(node), "%s", records[which]->node);
    int64_t session = sim_foreign_session();
    CHECK(session != 0);
    note_admin_delete(node);
    CHECK(sim_foreign_delete(0, node));
    sim_run_until(sim_now());
    CHECK(sim_foreign_create(session, node, "impostor", ZOO_EPHEMERAL));
    sim_run_until(sim_now());
    wait_until(sim_now() + 6 * run.timeout);
    for (int i = 0; i < 4; i++) {
        CHECK(run.failed || is(records[i], i == which ? ZKL_ACQUISITION_LOST : ZKL_ACQUISITION_GRANTED));
        if (!run.failed)
            end_acquisition(records[i]);
    }
    CHECK(sim_foreign_expire(session));
    end_with_numbers(NULL);
}

/*
 * The first client queues again and again, each time less than a second after the last time. It must list the queue
 * nevertheless, at the latest a second after it gave back its number of the old data.
 */
static void restored_between_turns(const broken_rule *rule, bool trace)
{
    begin_with_numbers("data are restored under a client that comes again and again", rule, trace);
    client *one = new_client(), *other = new_client();
    sim_back_up();
    take_turn(one);
    replace_data(SIM_RESTORED_LIVE);
    acquisition_record *holder = ask(other, 0, 0);
    until(holder, ZKL_ACQUISITION_GRANTED);
    acquisition_record *latest = NULL;
    for (int turns = 0; turns < 6 && !run.failed; turns++) {
        wait_until(sim_now() + ZKL_SECOND / 4);
        latest = ask(one, 0, 0);
        deliver_all();
        if (run.failed || is(latest, ZKL_ACQUISITION_WAITING))
            break;
        end_acquisition(latest);
        deliver_all();
    }
    CHECK(run.failed || (is(latest, ZKL_ACQUISITION_WAITING) && is(holder, ZKL_ACQUISITION_GRANTED)));
    if (!run.failed) {
        end_acquisition(holder);
        until(latest, ZKL_ACQUISITION_GRANTED);
        end_acquisition(latest);
    }
    end_with_numbers(rule);
}

/*
 * The server has forgotten the watch of an acquisition that is cancelled. The C client has not: it keeps the watch for
 * the next connection.
 */
static void forgotten_watch(bool trace)
{
    begin_with_numbers("a watch is removed that the server has forgotten", NULL, trace);
    client *one = new_client(), *other = new_client();
    acquisition_record *holder = ask(one, 0, 0);
    until(holder, ZKL_ACQUISITION_GRANTED);
    acquisition_record *waiter = ask(other, 0, 0);
    deliver_all();
    CHECK(is(waiter, ZKL_ACQUISITION_WAITING) && sim_client_watches(other->index) == 1);
    sim_back_up();
    replace_data(SIM_RESTORED_LIVE);
    end_acquisition(waiter);
    int64_t limit = sim_now() + 10 * run.timeout;
    while (!run.failed && sim_client_watches(other->index) > 0 && sim_now() < limit)
        pass_time();
    CHECK(sim_client_watches(other->index) == 0);
    CHECK(zkl_engine_stats(other->engine)->watches == 0);
    end_acquisition(holder);
    end_scene();
}

/* Waits until the client has sent a heartbeat that checks its nodes, and the servers have not received it. */
static void until_heartbeat(const client *of)
{
    char what[200] = "";
    int64_t limit = sim_now() + run.timeout;
    while (!run.failed && strstr(what, "multi") == NULL && sim_now() < limit) {
        const sim_delivery *next = message_of(of, true);
        if (next != NULL)
            sim_describe(next, what, sizeof(what));
        if (strstr(what, "multi") == NULL && !deliver_one())
            sim_run_until(sim_next_event(event_counts));
    }
    CHECK(strstr(what, "multi") != NULL);
}

/*
 * A writer's node is deleted, another writer is granted and releases, and a node of the first name is created. The
 * first writer downgrades, and its request finds that node. A heartbeat tells it that its own node was deleted: before
 * it learns that the reader's node is created or, with `unheard`, no earlier than that.
 */
static void lost_writer(bool unheard, bool broken, bool trace)
{
    static const broken_rule rule = {ZKL_BREAK_LOST_WRITER, 0, "lost writer", false, 1};
    begin_with_numbers("a writer is lost while a reader's node is made beside it", broken ? &rule : NULL, trace);
    client *one = new_client(), *other = new_client();
    acquisition_record *writer = new_record(one, 0);
    writer->mode = ZKL_MODE_WRITE;
    submit_acquisition(writer);
    until(writer, ZKL_ACQUISITION_GRANTED);
    deliver_all();
    if (!unheard)
        until_heartbeat(one);

    held_back = one->index;
    char node[200];
    snprintf(node, sizeof(node), "%s", writer->node);
    note_admin_delete(node);
    CHECK(sim_foreign_delete(0, node));
    sim_run_until(sim_now());
    take_turn(other);
    deliver_all_of(one, true);
    CHECK(sim_foreign_create(0, node, "", 0));
    sim_run_until(sim_now());
    acquisition_record *reader = new_record(one, 0);
    reader->mode = ZKL_MODE_READ;
    reader->writer = writer;
    submit_acquisition(reader);
    deliver_all_of(one, true);
    held_back = -1;

    deliver_all();
    CHECK(run.failed || is(writer, ZKL_ACQUISITION_LOST));
    CHECK(broken == (run.failed && strcmp(run.check, "token") == 0));
    if (broken) {
        end_run();
    } else {
        until(reader, ZKL_ACQUISITION_GRANTED);
        end_acquisition(reader);
        end_scene();
    }
    break_rule(NULL);
}

static acquisition_record *ask_revocable(client *of)
{
    acquisition_record *record = new_record(of, 0);
    record->handoff = 0;
    record->linger = record->max_hold = 0;
    record->revocable = true;
    submit_acquisition(record);
    return record;
}

/*
 * An acquisition waits, and another one of its client waits for its node, whose data ask to let go. The second one is cancelled,
 * and the first one is granted while the removal of that watch is in flight. Then the connection is lost, and the watch stays.
 */
static void granted_while_unwatched(bool trace)
{
    begin_with_numbers("a request to let go of a node whose watch was about to be removed", NULL, trace);
    client *one = new_client(), *other = new_client();
    acquisition_record *holder = ask(other, 0, 0);
    until(holder, ZKL_ACQUISITION_GRANTED);
    acquisition_record *record = ask_revocable(one);
    deliver_all();
    acquisition_record *behind = ask(one, 0, 0);
    deliver_all();
    CHECK(sim_foreign_set(0, record->node, ZKL_REVOKE));
    sim_run_until(sim_now());
    deliver_all();
    end_acquisition(behind);
    end_acquisition(holder);
    deliver_all_of(other, true);
    deliver_all_of(one, false);
    CHECK(is(record, ZKL_ACQUISITION_GRANTED) && record->revocations == 0 && message_of(one, true) != NULL);
    sim_lose_connection(one->index, false);
    pass_time();
    while (!run.failed && one->state != ZKL_STATE_CONNECTED)
        pass_time();
    deliver_all();
    CHECK(is(record, ZKL_ACQUISITION_GRANTED) && record->revocations == 1);
    end_acquisition(record);
    end_scene();
}

/*
 * A holder's client has seen higher zxids than those of the restored data. So after its reconnect the servers do not report a
 * request to let go that was written to them before: it must read its node.
 */
static void restored_before_request(const broken_rule *rule, bool trace)
{
    begin_with_numbers("a request to let go is written to restored servers", rule, trace);
    client *one = new_client();
    acquisition_record *record = ask_revocable(one);
    until(record, ZKL_ACQUISITION_GRANTED);
    sim_back_up();
    for (int i = 0; i < 10; i++)
        CHECK(sim_foreign_set(0, run.paths[0], "later"));
    sim_run_until(sim_now());
    wait_until(sim_now() + run.timeout / 2); /* a heartbeat shows their zxids */
    held_back = one->index;
    replace_data(SIM_RESTORED);
    while (sim_leader() < 0)
        sim_run_until(sim_next_event(event_counts));
    CHECK(sim_foreign_set(0, record->node, ZKL_REVOKE));
    for (int i = 0; i < 20; i++)
        CHECK(sim_foreign_set(0, run.paths[0], "again"));
    sim_run_until(sim_now());
    held_back = -1;
    deliver_all();
    while (!run.failed && one->state != ZKL_STATE_CONNECTED)
        pass_time();
    deliver_all();
    CHECK(is(record, ZKL_ACQUISITION_GRANTED) && record->revocations == (rule == NULL));
    CHECK(zkl_engine_stats(one->engine)->connections == 2 && zkl_engine_stats(one->engine)->notifications == 0);
    end_acquisition(record);
    end_scene();
    break_rule(NULL);
}

/*
 * A restore brings back a node that was between a waiter and the node for which it waits, and both are deleted together. When the
 * waiter is notified of the latter, some server may still have the former.
 */
static void restored_predecessor(bool trace)
{
    static const char *const ahead[] = {"/l/_c_f0000000-0000-4000-8001-000000000010-lock-0000000000",
                                        "/l/_c_f0000000-0000-4000-8001-000000000011-lock-0000000001",
                                        "/l/_c_f0000000-0000-4000-8001-000000000012-lock-0000000002"};
    begin_with_numbers("a predecessor is there again", NULL, trace);
    int64_t session = sim_foreign_session();
    for (int i = 0; i < 3; i++)
        CHECK(sim_foreign_create(i == 0 ? 0 : session, ahead[i], "", i == 0 ? 0 : ZOO_EPHEMERAL));
    sim_run_until(sim_now());
    client *waiter = new_client();
    acquisition_record *record = ask(waiter, 0, 0);
    deliver_all();
    sim_back_up();
    CHECK(sim_foreign_delete(session, ahead[2]));
    sim_run_until(sim_now());
    deliver_all();
    replace_data(SIM_RESTORED);
    while (sim_leader() < 0)
        sim_run_until(sim_next_event(event_counts));
    for (int i = 0; i < 5; i++)
        CHECK(sim_foreign_set(0, run.paths[0], "again")); /* until the zxids are as high as the client's */
    while (!run.failed && waiter->state != ZKL_STATE_CONNECTED)
        pass_time();
    deliver_all();
    CHECK(zkl_engine_stats(waiter->engine)->sessions == 1 && sim_exists(ahead[1]) && sim_exists(ahead[2]));
    waiter->disturbed_at = sim_now() - 4 * run.timeout; /* as if the session had been kept alive for long */
    CHECK(sim_foreign_expire(session));
    sim_run_until(sim_now());
    deliver_all();
    CHECK(is(record, ZKL_ACQUISITION_WAITING));
    CHECK(sim_foreign_delete(0, ahead[0]));
    sim_run_until(sim_now());
    until(record, ZKL_ACQUISITION_GRANTED);
    end_acquisition(record);
    end_scene();
}

static acquisition_record *ask_permits(client *of, int32_t count, int32_t limit)
{
    run.limits[0] = limit;
    acquisition_record *record = new_record(of, 0);
    record->mode = ZKL_MODE_PERMITS;
    record->count = count;
    record->limit = limit;
    record->handoff = 0;
    submit_acquisition(record);
    return record;
}

static void take_permit(client *of, int32_t limit)
{
    acquisition_record *record = ask_permits(of, 1, limit);
    until(record, ZKL_ACQUISITION_GRANTED);
    end_acquisition(record);
    deliver_all();
}

static void begin_with_semaphore(const char *name, const broken_rule *rule, bool trace)
{
    begin_with_numbers(name, rule, trace);
    sim_preset_counter("/l/locks", NUMBER);
    CHECK(sim_foreign_create(0, "/l/locks", "", 0) && sim_foreign_create(0, "/l/leases", "", 0));
    sim_run_until(sim_now());
}

/*
 * A client remembers a semaphore's limit. After a restore another limit is written, by a write with the same version.
 */
static void restored_limit(bool trace)
{
    begin_with_semaphore("a semaphore's limit is restored, and set to another one", NULL, trace);
    client *one = new_client(), *other = new_client();
    sim_back_up();
    take_permit(one, 1);
    replace_data(SIM_RESTORED_LIVE);
    take_permit(other, 2);
    take_permit(one, 2);
    end_scene();
}

/* Once the servers have a leader, resizes the semaphore, writes so many times, and asks for four permits. */
static acquisition_record *resize_and_ask(client *of, const char *permits, int writes)
{
    while (sim_leader() < 0)
        sim_run_until(sim_next_event(event_counts));
    CHECK(sim_foreign_resize("/l/leases", permits, "/l/leases/" ZKL_RESIZED));
    for (int i = 0; i < writes; i++)
        CHECK(sim_foreign_set(0, run.paths[0], "again"));
    sim_run_until(sim_now());
    while (!run.failed && of->state != ZKL_STATE_CONNECTED)
        pass_time();
    acquisition_record *record = ask_permits(of, 4, 2);
    deliver_all();
    return record;
}

/*
 * The same by a resize that has the zxid of the one that the restore has undone. Writes follow it, because servers turn a client away that
 * has seen higher zxids.
 */
static void restored_resize(const broken_rule *rule, bool trace)
{
    begin_with_semaphore("a semaphore's resize is undone by a restore, and another one has its zxid", rule, trace);
    run.resizes = true;
    client *one = new_client();
    take_permit(one, 2);
    sim_back_up();
    acquisition_record *before = resize_and_ask(one, "4", 0);
    CHECK(is(before, ZKL_ACQUISITION_GRANTED));
    end_acquisition(before);
    deliver_all();
    replace_data(SIM_RESTORED);
    acquisition_record *after = resize_and_ask(one, "3", 20);
    CHECK(zkl_engine_stats(one->engine)->sessions == 1);
    if (rule == NULL) {
        CHECK(is(after, ZKL_ACQUISITION_REFUSED));
        end_scene();
    } else {
        CHECK(run.failed && strcmp(run.check, "limit") == 0);
        end_run();
    }
    break_rule(NULL);
}

/*
 * The head of a semaphore's queue has made its lease nodes and waits for room. Its session ends, so the next client is
 * the head and is about to make its own. Then a restore brings back the earlier data and the session. Each of the two
 * would wait for the other's nodes.
 */
static void two_first_in_queue(bool trace)
{
    static const char taken[] = "/l/leases/_c_f0000000-0000-4000-8001-000000000010-lease-0000000000";
    begin_with_semaphore("two clients believe that they are the first in a semaphore's line", NULL, trace);
    client *one = new_client(), *other = new_client();
    CHECK(sim_foreign_create(0, taken, "", 0));
    sim_run_until(sim_now());
    acquisition_record *first = ask_permits(one, 2, 2);
    deliver_all();
    acquisition_record *second = ask_permits(other, 2, 2);
    deliver_all();
    CHECK(is(first, ZKL_ACQUISITION_WAITING) && is(second, ZKL_ACQUISITION_WAITING));
    sim_back_up();

    held_back = one->index;
    CHECK(sim_foreign_expire(sim_client_session(one->index)));
    sim_run_until(sim_now());
    deliver_all();
    CHECK(sim_foreign_delete(0, taken));
    sim_run_until(sim_now());
    const zkl_permits *permits = second->acquisition->part;
    while (permits->state != ZKL_PERMITS_TAKING && deliver_one()) {
    }
    CHECK(permits->state == ZKL_PERMITS_TAKING && is(second, ZKL_ACQUISITION_WAITING));
    held_back = -1;
    replace_data(SIM_RESTORED);
    while (!run.failed && (one->state != ZKL_STATE_CONNECTED || other->state != ZKL_STATE_CONNECTED))
        pass_time();
    CHECK(sim_foreign_delete(0, taken));
    sim_run_until(sim_now());
    until(first, ZKL_ACQUISITION_GRANTED);
    end_acquisition(first);
    until(second, ZKL_ACQUISITION_GRANTED);
    end_acquisition(second);
    end_scene();
}

/*
 * A client sends a list with its create, and the number alone then seems to prove that no entry is ahead in the semaphore's queue.
 * But a restore had given out the numbers once more. The client learns of two entries ahead when it finds no room for its permit,
 * and must then notice when both are gone, one after the other.
 */
static void restored_before_head(bool trace)
{
    static const char taken[] = "/l/leases/_c_f0000000-0000-4000-8001-000000000010-lease-0000000000";
    static const char ahead[] = "/l/locks/_c_f0000000-0000-4000-8001-000000000011-lock-0000000001";
    begin_with_semaphore("entries are put before the head of a semaphore's queue", NULL, trace);
    client *one = new_client(), *other = new_client();
    CHECK(sim_foreign_create(0, taken, "", 0) && sim_foreign_create(0, ahead, "", 0));
    sim_run_until(sim_now());
    sim_back_up();
    CHECK(sim_foreign_delete(0, taken) && sim_foreign_delete(0, ahead));
    sim_run_until(sim_now());
    take_permit(one, 1);
    replace_data(SIM_RESTORED_LIVE);
    acquisition_record *nearest = ask_permits(other, 1, 1);
    deliver_all();
    acquisition_record *last = ask_permits(one, 1, 1);
    const zkl_entry *entry = last->acquisition->entry;
    while (entry->state != ZKL_ENTRY_CONFIRMING && deliver_one()) {
    }
    CHECK(entry->tenure.place == ZKL_PLACE_HEAD_BY_NUMBER && zkl_entry_has_sent(entry, ZKL_REQUEST_LIST));
    deliver_all();
    CHECK(is(nearest, ZKL_ACQUISITION_WAITING) && is(last, ZKL_ACQUISITION_WAITING));
    CHECK(entry->state == ZKL_ENTRY_QUEUED && entry->tenure.ahead == 2);
    end_acquisition(nearest);
    deliver_all();
    CHECK(sim_foreign_delete(0, taken) && sim_foreign_delete(0, ahead));
    sim_run_until(sim_now());
    until(last, ZKL_ACQUISITION_GRANTED);
    end_acquisition(last);
    end_scene();
}

/* ---- round trips that take a fraction of the session timeout ---- */

#define EVEN_TIMEOUT_MS 4000

/* Begins a world in which a round trip takes `percent` hundredths of the session timeout. */
static void begin_even(const char *name, int percent, bool trace)
{
    test_name = name;
    sim_options options = {.seed = 1,
                           .servers = 1,
                           .min_session_timeout_ms = EVEN_TIMEOUT_MS,
                           .max_session_timeout_ms = EVEN_TIMEOUT_MS,
                           .tick_ms = EVEN_TIMEOUT_MS / 5,
                           .delay = EVEN_TIMEOUT_MS * SIM_MILLISECOND * percent / 200,
                           .even = true,
                           .trace = trace};
    begin_run(&options);
    run.seed = 2;
    run.timeout = EVEN_TIMEOUT_MS * SIM_MILLISECOND;
    run.leases = true;
    run.prefix = "";
    run.path_count = 1;
    run.weights[ZKL_MODE_MUTEX] = 1;
    zkl_most_in_flight = 1000;
    zkl_most_watched_bytes = ZKL_USUAL_WATCHED_BYTES;
    zkl_most_checks = ZKL_USUAL_CHECKS;
    snprintf(run.paths[0], sizeof(run.paths[0]), "/l");
    while (sim_leader() < 0)
        sim_step();
}

static void steps_until(int64_t at)
{
    while (!run.failed && sim_now() < at)
        sim_step();
}

static client *even_client(void)
{
    client *of = &run.clients[run.client_count];
    of->index = run.client_count++;
    open_client(of);
    while (of->state != ZKL_STATE_CONNECTED)
        sim_step();
    return of;
}

static acquisition_record *ask_for_mutex(client *of)
{
    acquisition_record *record = new_record(of, 0);
    record->mode = ZKL_MODE_MUTEX;
    record->handoff = 0;
    record->linger = record->max_hold = 0;
    record->revocable = record->try_only = record->optimistic = false;
    submit_acquisition(record);
    return record;
}

/* Runs for so many session timeouts at most. */
static void steps_to(const acquisition_record *record, zkl_acquisition_phase phase, int timeouts)
{
    int64_t limit = sim_now() + timeouts * run.timeout;
    while (!run.failed && !is(record, phase) && sim_now() < limit)
        sim_step();
    CHECK(is(record, phase));
}

static void give_back(acquisition_record *record)
{
    record->ended = true;
    record->end_code = is(record, ZKL_ACQUISITION_WAITING) ? ZKL_CANCELLED : ZKL_OK;
    zkl_acquisition_end(record->acquisition, record->end_code, read_clock(&run.clients[record->client]));
    zkl_acquisition *acquisition = record->acquisition;
    record->acquisition = NULL;
    note_forgotten(record);
    zkl_acquisition_forget(acquisition, read_clock(&run.clients[record->client]));
    wake_client(&run.clients[record->client], sim_now());
}

static void end_even(void)
{
    for (acquisition_record *each = run.acquisitions; each != NULL && !run.failed; each = each->next) {
        if (each->acquisition != NULL)
            give_back(each);
    }
    CHECK(!run.failed);
    if (run.failed)
        printf("%s: check '%s': %s\n", test_name, run.check, run.problem);
    run.draining = true;
    steps_until(sim_now() + 5 * run.timeout);
    end_run();
}

/* The evidence for a lease takes four round trips in sequence, and must arrive in time. */
static void long_hold(int percent, bool trace)
{
    begin_even("a hold of thirty session timeouts", percent, trace);
    acquisition_record *record = ask_for_mutex(even_client());
    steps_to(record, ZKL_ACQUISITION_GRANTED, 10);
    steps_until(sim_now() + 30 * run.timeout);
    CHECK(is(record, ZKL_ACQUISITION_GRANTED) && grant_valid(record));
    give_back(record);
    end_even();
}

/* A client that is idle between its locks keeps its session. */
static void idle_turns(int percent, bool trace)
{
    begin_even("locks of an idle client", percent, trace);
    client *of = even_client();
    for (int i = 0; i < 10 && !run.failed; i++) {
        acquisition_record *record = ask_for_mutex(of);
        steps_to(record, ZKL_ACQUISITION_GRANTED, 1);
        give_back(record);
        steps_until(sim_now() + 2 * run.timeout);
    }
    CHECK(zkl_engine_stats(of->engine)->sessions == 1);
    end_even();
}

/*
 * One client's round trips take so long that it can keep no lease. At the head of the queue it must not block the other
 * clients.
 */
static void slow_head(bool trace)
{
    begin_even("a client that gets no lease makes way", 1, trace);
    acquisition_record *holder = ask_for_mutex(even_client());
    steps_to(holder, ZKL_ACQUISITION_GRANTED, 10);
    sim_slow_down(1, run.timeout * 7 / 100);
    const acquisition_record *slow = ask_for_mutex(even_client());
    steps_until(sim_now() + run.timeout);
    acquisition_record *quick = ask_for_mutex(even_client());
    steps_until(sim_now() + 3 * run.timeout);
    give_back(holder);
    steps_to(quick, ZKL_ACQUISITION_GRANTED, 4);
    steps_until(sim_now() + run.timeout);
    CHECK(is(slow, ZKL_ACQUISITION_WAITING) && zkl_engine_stats(run.clients[1].engine)->sessions == 2);
    give_back(quick);
    end_even();
}

static const broken_rule *rule_of(zkl_broken_rule which)
{
    const broken_rule *rule = broken_rules;
    while (rule->rule != which)
        rule++;
    return rule;
}

int main(int argc, char **argv)
{
    bool trace = argc > 1 && strcmp(argv[1], "--trace") == 0;
    alarm(LONGEST);
    static const int percents[] = {1, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < sizeof(percents) / sizeof(*percents); i++) {
        long_hold(percents[i], trace);
        idle_turns(percents[i], trace);
    }
    slow_head(trace);
    directory_made_without_room(trace);
    directory_reaped(trace);
    restored_data(NULL, trace);
    restored_data(rule_of(ZKL_BREAK_OUTLIVED), trace);
    restored_live(NULL, trace);
    restored_live(rule_of(ZKL_BREAK_AGE), trace);
    restored_under_many(NULL, trace);
    restored_under_many(rule_of(ZKL_BREAK_NEWEST), trace);
    deleted_beside_waiters(trace);
    for (int i = 0; i < 4; i++)
        replaced_under_many(i, trace);
    restored_between_turns(NULL, trace);
    restored_between_turns(rule_of(ZKL_BREAK_AGE), trace);
    forgotten_watch(trace);
    restored_limit(trace);
    restored_resize(NULL, trace);
    restored_resize(rule_of(ZKL_BREAK_OUTLIVED), trace);
    two_first_in_queue(trace);
    restored_before_head(trace);
    granted_while_unwatched(trace);
    restored_predecessor(trace);
    restored_before_request(NULL, trace);
    restored_before_request(rule_of(ZKL_BREAK_OUTLIVED), trace);
    for (int i = 0; i < 4; i++)
        lost_writer(i / 2 == 1, i % 2 == 1, trace);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

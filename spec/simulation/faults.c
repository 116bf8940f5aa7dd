/*
 * faults: the faults in a run. The seed decides whether each kind happens alone or all kinds together.
 *
 * How to add a fault:
 *
 *   1. A function of the simulated servers, network or client (sim_*.c, sim_zookeeper.h), with a test in
 *      sim_selftest_faults.c. sim_heal must end a fault that lasts.
 *   2. FAULT_… before FAULT_KINDS (schedule.h), and here its name in `fault_names`, its branch in `inflict` and, if it
 *      lasts, an UNDO_…. checks.c says what the fault excuses, and for how long.
 *   3. For small worlds: a bit MAY_… (explore.h), its steps (explore.c), a world (worlds.c).
 *   4. Kinds of faults are drawn at random, so each seed now gives another run. `simulate --breaks` shows which rules of
 *      rules.c need another first seed.
 */
#include <stdio.h>
#include <string.h>

#include "schedule.h"

const char *const fault_names[FAULT_KINDS] = {"connection reset",
                                              "all connections reset",
                                              "client cut off",
                                              "client cut off from a server",
                                              "server hangs",
                                              "requests held back",
                                              "server crash",
                                              "leader steps down",
                                              "follower cut off",
                                              "follower not spoken to",
                                              "leader cut off",
                                              "lagging server",
                                              "no quorum",
                                              "client paused",
                                              "machine suspended",
                                              "names fail, or one is not answered",
                                              "send fails",
                                              "reply lost",
                                              "node deleted by administrator",
                                              "node replaced by an impostor's",
                                              "data set by administrator",
                                              "directory reaped",
                                              "strange children",
                                              "foreigner crash",
                                              "client killed",
                                              "client closed",
                                              "requests throttled",
                                              "data wiped",
                                              "data restored",
                                              "data restored live"};

/* Kinds of undo events. A kind and its target are encoded in one number. */
enum {
    UNDO_SILENCE = 0,
    UNDO_HANG,
    UNDO_CRASH,
    UNDO_LINK,
    UNDO_WAY,
    UNDO_NAMES,
    UNDO_STALL,
    UNDO_THROTTLE,
    UNDO_LIVE
};

static int64_t duration(int64_t most_tenths);
static void wait_for_restore(int64_t during);
static void isolate(int server);

/*
 * Messages that were held back arrive all at once. The moment after that is the worst one for a follower to lose its
 * leader.
 */
static void cut_a_follower(void *context, int64_t caller)
{
    (void)context;
    int server = sim_chance(3, 4) ? sim_client_server((int)caller) : -1;
    if (server < 0)
        server = (int)sim_below(run.options.servers);
    if (!run.draining && server != sim_leader())
        isolate(server);
}

static void cut_server(void *context, int64_t index)
{
    (void)context;
    if (!run.draining && (int)index != sim_leader())
        isolate((int)index);
}

static void undo_later(int what, int one, int other, int64_t after);
static void undo(void *context, int64_t what)
{
    (void)context;
    int one = (int)(what / 100 % 10), other = (int)(what / 10 % 10);
    switch ((int)(what % 10)) {
    case UNDO_SILENCE:
        sim_set_network(one, other < SIM_MAX_SERVERS ? other : -1, true);
        break;
    case UNDO_HANG:
        sim_hang_server(one, false);
        break;
    case UNDO_CRASH:
        sim_restart_server(one);
        break;
    case UNDO_LINK:
        sim_set_link(one, other, true);
        break;
    case UNDO_WAY:
        sim_set_way(one, other, true);
        break;
    case UNDO_NAMES:
        if (other > 0)
            sim_silence_name(one, other, false);
        else
            sim_set_names(one, true);
        break;
    case UNDO_THROTTLE:
        sim_throttle(one, false);
        break;
    /* docs/reliability.md asks for this; a server that lags forgets its watches later than the others. */
    case UNDO_LIVE:
        if (sim_restored_everywhere())
            sim_reset_connections(-1);
        else
            wait_for_restore(run.timeout / 50);
        break;
    case UNDO_STALL:
        sim_stall_requests(one, false);
        if (run.options.servers > 1 && sim_chance(2, 3))
            sim_schedule(sim_now() + sim_below(run.options.delay * 40 + run.timeout / 20), cut_a_follower, NULL, one);
        break;
    }
}

static void undo_later(int what, int one, int other, int64_t after)
{
    sim_schedule(sim_now() + after, undo, NULL, one * 100 + other * 10 + what);
}

/* After a live restore clients do not hear of changes before their connections end. */
static void wait_for_restore(int64_t during)
{
    for (int i = 0; i < run.client_count; i++) {
        if (run.clients[i].unheard_until < sim_now() + during)
            run.clients[i].unheard_until = sim_now() + during;
    }
    undo_later(UNDO_LIVE, 0, 0, during);
}

static int64_t duration(int64_t most_tenths)
{
    return run.timeout / 50 + sim_below(run.timeout * most_tenths / 10);
}

static void cut(int one, int other, int64_t during)
{
    if (one == other)
        return;
    sim_set_link(one, other, false);
    undo_later(UNDO_LINK, one, other, during);
}

static void isolate(int server)
{
    int64_t during = duration(40);
    sim_trace("fault: server %d is cut off", server);
    for (int i = 0; i < run.options.servers; i++)
        cut(server, i, during);
}

/*
 * The link from the leader to a follower stalls, and the other direction works. No ping reaches the follower, so it
 * reports no session, but the leader executes the requests of its clients. Meanwhile the clients read, and they ask for
 * locks just before their sessions end or become doubtful. When the answers arrive, the follower may be
 * cut off before its next report has reached the leader.
 */
static void silence_leader(int leader, int follower)
{
    bool whole = sim_chance(1, 2);
    int64_t during = whole ? run.timeout * 6 / 10 + sim_below(run.timeout * 12 / 10)
                           : run.timeout * 3 / 10 + sim_below(run.timeout * 3 / 10);
    sim_trace("fault: what leader %d sends to server %d is held back", leader, follower);
    sim_set_way(leader, follower, false);
    undo_later(UNDO_WAY, leader, follower, during);
    for (int i = 0; i < run.client_count; i++) {
        if (sim_client_server(i) != follower || !sim_chance(3, 4))
            continue;
        for (int64_t at = sim_below(run.timeout / 20); at < during; at += run.timeout / 15 + sim_below(run.timeout / 8))
            look_soon(&run.clients[i], at);
        int64_t before = sim_below(whole ? run.timeout / 2 : run.timeout / 10);
        want_soon(&run.clients[i], before < during ? during - before : 0);
    }
    for (int i = 0; one_lock && i < run.client_count; i++) {
        if (sim_client_server(i) != follower)
            want_soon(&run.clients[i], during + sim_below(run.timeout / 2));
    }
    if (!whole && sim_chance(3, 4))
        sim_schedule(sim_now() + during + sim_below(run.options.delay * 3), cut_server, NULL, follower);
}

static void crash(int server, int64_t during)
{
    sim_crash_server(server);
    undo_later(UNDO_CRASH, server, 0, during);
}

static void without_quorum(void)
{
    int64_t during = duration(30);
    int spared = (int)sim_below(run.options.servers);
    for (int i = 0; i < run.options.servers; i++) {
        if (i != spared || run.options.servers == 1)
            crash(i, during + sim_below(SIM_SECOND));
    }
}

static void pause_client(client *of, bool suspend)
{
    int64_t during = duration(30);
    sim_trace("fault: client %d is %s for %lld ms", of->index, suspend ? "suspended" : "paused",
              (long long)(during / SIM_MILLISECOND));
    if (sim_now() + during <= of->paused_until)
        return; /* it stands still for longer already */
    of->paused_until = of->unheard_until = sim_now() + during;
    if (suspend)
        sim_skip_library_clock(of->index, during);
}

/* Stores the path of a child of a lock's or semaphore's directory, "" if there is none. */
static void random_child(bool contenders, char *path, size_t size)
{
    char directory[MAX_DIRECTORY];
    some_directory(directory);
    path[0] = '\0';
    int count = sim_child_count(directory);
    for (int tries = 0; tries < 4 && count > 0; tries++) {
        const char *name = sim_child(directory, (int)sim_below(count));
        if ((zkl_node_parse(name).kind != ZKL_NODE_STRANGER) != contenders)
            continue;
        snprintf(path, size, "%s/%s", directory, name);
        return;
    }
}

static bool admin_delete(void)
{
    char path[160];
    if (run.latch_count > 0 && sim_chance(1, 4))
        return delete_latch();
    if (!sim_chance(1, 3) || !disown_writer(path, sizeof(path)))
        random_child(true, path, sizeof(path));
    if (path[0] == '\0')
        return false;
    sim_trace("fault: an administrator deletes %s", path);
    note_admin_delete(path);
    return sim_foreign_delete(0, path);
}

/* ---- impostors ---- */

/* The impostor: a session that has replaced a client's node by its own. There is one at a time. */
static struct {
    char path[160];
    int64_t session; /* 0: there is none */
    int64_t until;
} impostor;

/* Creates the impostor's node as soon as possible. When its time is over, ends its session, which deletes the node. */
static void impersonate(void *context, int64_t argument)
{
    if (sim_now() < impostor.until && !sim_exists(impostor.path)) {
        sim_foreign_create(impostor.session, impostor.path, "impostor", ZOO_EPHEMERAL);
    } else if (sim_now() >= impostor.until) {
        note_admin_delete(impostor.path); /* a client that takes the node for its own then blocks no other client */
        if (sim_foreign_expire(impostor.session)) {
            impostor.session = 0;
            return;
        }
    }
    sim_schedule(sim_now() + run.timeout / 20 + sim_below(run.timeout / 20), impersonate, context, argument);
}

/* Deletes a client's node and creates one of the same name, before or after the next contender is granted. */
static bool replace_node(void)
{
    char path[sizeof(impostor.path)];
    random_child(true, path, sizeof(path));
    if (impostor.session != 0 || path[0] == '\0' || !is_clients_node(path))
        return false;
    impostor.session = sim_foreign_session();
    if (impostor.session == 0)
        return false;
    sim_trace("fault: a peer puts a node of its own in place of %s", path);
    note_admin_delete(path);
    sim_foreign_delete(0, path);
    memcpy(impostor.path, path, sizeof(path));
    impostor.until = sim_now() + duration(30);
    sim_schedule(sim_chance(1, 2) ? sim_now() : sim_now() + sim_below(run.timeout / 4), impersonate, NULL, 0);
    return true;
}

static bool admin_set(void)
{
    char path[160];
    random_child(true, path, sizeof(path));
    return path[0] != '\0' && sim_foreign_set(0, path, "__REVOKE__");
}

static bool stranger(void)
{
    static const char *const names[] = {"0", "readme", "x", "lock-", "node-0000000003", "lock-99999999999"};
    char path[160], directory[MAX_DIRECTORY];
    random_child(false, path, sizeof(path));
    if (path[0] != '\0' && sim_chance(1, 2))
        return sim_foreign_delete(0, path);
    some_directory(directory);
    if (!sim_exists(directory))
        return false;
    snprintf(path, sizeof(path), "%s/%s", directory, names[sim_below((int64_t)(sizeof(names) / sizeof(names[0])))]);
    return sim_foreign_create(0, path, "", ZOO_PERSISTENT);
}

static bool close_client(client *of, bool kill)
{
    if (of->engine == NULL || of->closing)
        return false;
    if (kill) {
        totals.kills++;
        drop_client(of, true);
        open_client(of);
        return true;
    }
    totals.closes++;
    sim_trace("client %d: begins to close", of->index);
    of->closing = true;
    of->close_patience = sim_now() + sim_below(run.timeout);
    begin_call(of);
    zkl_engine_close(of->engine, read_clock(of));
    end_call(of);
    wake_client(of, sim_now());
    wake_client(of, of->close_patience);
    return true;
}

/*
 * The servers execute a client's write without an answer, perhaps long after the client has looked for it in vain and
 * sent it again. Not in runs in which clients cannot list, are refused before they list, or have no room to queue there
 * again.
 */
static bool lose_reply(const client *of)
{
    if (run.denied || run.exhausting || run.few_watches)
        return false;
    int64_t after = sim_chance(1, 3)   ? 0
                    : sim_chance(1, 2) ? 1 + sim_below(run.options.delay * 40)
                                       : 1 + sim_below(run.timeout * 3);
    sim_trace("fault: the next write of client %d is carried out %lld ms late, and not answered", of->index,
              (long long)(after / SIM_MILLISECOND));
    sim_lose_next_write(of->index, after);
    return true;
}

void throttle_deletes(client *of)
{
    int64_t during = duration(5);
    of->unheard_until = sim_now() + during + 2 * SIM_SECOND; /* the client waits before it tries again */
    sim_throttle_deletes(of->index);
    undo_later(UNDO_THROTTLE, of->index, 0, during);
}

/*
 * Makes a backup, or restores the latest one. Not in runs in which a client's own node that exists again might prevent
 * it from queueing or listing. Also not for clients without leases whose sessions continue, because they do not learn
 * that their nodes are deleted.
 */
static bool replace_data(sim_replacement how)
{
    if (run.denied || run.exhausting || run.few_watches || sim_leader() < 0 || (how != SIM_WIPED && !run.leases))
        return false;
    if (how != SIM_WIPED && (!sim_has_backup() || sim_chance(1, 3))) {
        sim_back_up();
        return true;
    }
    if (!sim_chance(1, 3))
        return false;
    note_replacing(how);
    bool replaced = sim_replace_data(how, run.prefix);
    note_replaced(how);
    if (!replaced)
        return false;
    if (how == SIM_RESTORED_LIVE) {
        wait_for_restore(duration(10));
        return true;
    }
    int64_t during = duration(10);
    for (int i = 0; i < run.options.servers; i++)
        undo_later(UNDO_CRASH, i, 0, during + sim_below(SIM_SECOND));
    return true;
}

static bool inflict(fault_kind kind)
{
    client *of = &run.clients[sim_below(run.client_count)];
    int server = (int)sim_below(run.options.servers);
    int64_t during;
    switch (kind) {
    case FAULT_RESET:
        sim_reset_connections(of->index);
        break;
    case FAULT_RESET_ALL:
        sim_reset_connections(-1);
        break;
    case FAULT_CLIENT_SILENCE:
        during = duration(25);
        sim_trace("fault: client %d is cut off for %lld ms", of->index, (long long)(during / SIM_MILLISECOND));
        sim_set_network(of->index, -1, false);
        undo_later(UNDO_SILENCE, of->index, SIM_MAX_SERVERS, during);
        break;
    case FAULT_SERVER_SILENCE:
        during = duration(25);
        sim_trace("fault: client %d is cut off from server %d", of->index, server);
        sim_set_network(of->index, server, false);
        undo_later(UNDO_SILENCE, of->index, server, during);
        break;
    case FAULT_HANG:
        during = duration(25);
        sim_trace("fault: server %d hangs for %lld ms", server, (long long)(during / SIM_MILLISECOND));
        sim_hang_server(server, true);
        undo_later(UNDO_HANG, server, 0, during);
        break;
    case FAULT_STALL: /* the C client abandons a silent connection after two thirds of the session timeout */
        during = run.timeout * 2 / 10 + sim_below(run.timeout * 5 / 10);
        sim_trace("fault: what client %d sends is held back for %lld ms", of->index,
                  (long long)(during / SIM_MILLISECOND));
        of->unheard_until = sim_now() + during;
        sim_stall_requests(of->index, true);
        undo_later(UNDO_STALL, of->index, 0, during);
        break;
    case FAULT_CRASH:
        crash(server, duration(20));
        break;
    case FAULT_DROP_LEADER:
        sim_drop_leader();
        break;
    case FAULT_CUT_FOLLOWER:
        if (run.options.servers == 1 || server == sim_leader())
            return false;
        isolate(server);
        break;
    case FAULT_CUT_LEADER:
        if (run.options.servers == 1 || sim_leader() < 0)
            return false;
        isolate(sim_leader());
        break;
    case FAULT_ONE_WAY:
        if (run.options.servers == 1 || sim_leader() < 0 || server == sim_leader())
            return false;
        silence_leader(sim_leader(), server);
        break;
    case FAULT_LAG:
        sim_set_lag(server, sim_now() + duration(15));
        break;
    case FAULT_NO_QUORUM:
        without_quorum();
        break;
    case FAULT_PAUSE:
        pause_client(of, false);
        break;
    case FAULT_SUSPEND:
        pause_client(of, true);
        break;
    case FAULT_NAMES:
        if (server > 0) {
            sim_trace("fault: the name of server %d is not answered for client %d", server, of->index);
            sim_silence_name(of->index, server, true);
            sim_reset_connections(of->index); /* a name matters to who connects */
        } else {
            sim_trace("fault: names fail for client %d", of->index);
            sim_set_names(of->index, false);
        }
        undo_later(UNDO_NAMES, of->index, server, duration(20));
        break;
    case FAULT_SEND:
        sim_trace("fault: the next send of client %d fails", of->index);
        sim_fail_next_send(of->index);
        break;
    case FAULT_REPLY:
        return lose_reply(of);
    case FAULT_ADMIN_DELETE:
        return admin_delete();
    case FAULT_IMPOSTOR:
        return replace_node();
    case FAULT_ADMIN_SET:
        return admin_set();
    case FAULT_REAP:
        sim_reap_containers();
        if (sim_chance(1, 2))
            start_rush();
        break;
    case FAULT_STRANGER:
        return stranger();
    case FAULT_FOREIGN_CRASH:
        foreign_crash();
        return run.foreigner_count > 0;
    case FAULT_KILL_CLIENT:
        return close_client(of, true);
    case FAULT_CLOSE_CLIENT:
        return of->paused_until <= sim_now() && close_client(of, false);
    case FAULT_THROTTLE:
        during = duration(15);
        sim_trace("fault: some requests of client %d are throttled for %lld ms", of->index,
                  (long long)(during / SIM_MILLISECOND));
        of->unheard_until = sim_now() + during + 2 * SIM_SECOND; /* the client waits before it tries again */
        sim_throttle(of->index, true);
        undo_later(UNDO_THROTTLE, of->index, 0, during);
        break;
    case FAULT_WIPE:
        return replace_data(SIM_WIPED);
    case FAULT_RESTORE:
        return replace_data(SIM_RESTORED);
    case FAULT_RESTORE_LIVE:
        return replace_data(SIM_RESTORED_LIVE);
    case FAULT_KINDS:
        return false;
    }
    return true;
}

static void strike(void *context, int64_t argument)
{
    if (run.draining || run.failed)
        return;
    fault_kind kind = (fault_kind)sim_below(FAULT_KINDS);
    for (int tries = 0; tries < 100 && (run.fault_mask & (UINT32_C(1) << kind)) == 0; tries++)
        kind = (fault_kind)sim_below(FAULT_KINDS);
    if ((run.fault_mask & (UINT32_C(1) << kind)) != 0 && inflict(kind))
        totals.faults[kind]++;
    sim_schedule(sim_now() + 1 + sim_below(run.fault_pause * 2), strike, context, argument);
}

/* Returns a quarter of all kinds on average. */
static uint32_t a_quarter_of_all(void)
{
    uint32_t half = (uint32_t)sim_random();
    return half & (uint32_t)sim_random();
}

void start_faults(void)
{
    impostor.session = 0;
    int64_t choice = sim_below(20);
    if (choice == 0 || run.calm)
        return; /* no faults */
    if (choice < 6)
        run.fault_mask = UINT32_C(1) << (sim_chance(1, 4)   ? FAULT_STALL
                                         : sim_chance(1, 5) ? FAULT_REPLY
                                                            : sim_below(FAULT_KINDS));
    else if (choice < 16)
        run.fault_mask = a_quarter_of_all();
    else
        run.fault_mask = UINT32_MAX;
    if (forced_faults != 0)
        run.fault_mask = forced_faults;
    run.fault_pause = run.timeout / 6 + sim_below(run.timeout * 3 / 2);
    if (one_lock)
        run.fault_pause = run.timeout * 2;
    sim_schedule(sim_now() + sim_below(run.timeout), strike, NULL, 0);
}

void end_faults(void)
{
    sim_heal();
    for (int i = 0; i < run.client_count; i++)
        run.clients[i].paused_until = 0;
}

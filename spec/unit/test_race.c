/*
 * The race for a server, in virtual time: addresses that serve, swallow packets, refuse, accept and say nothing, or accept and close;
 * names that are resolved later or never.
 * A loop plays the connector (csrc/net/connector.c), and the world answers it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/race.h"

#define MS (ZKL_SECOND / 1000)
#define MOST_SERVERS 8
#define MOST_ADDRESSES 4
#define TIMEOUT (10 * ZKL_SECOND)

/*
 * Kinds of addresses. They are letters, so that a row of a table shows a list of servers: "s l" are two, "sl" is one with two addresses.
 * The name of "400sl" is resolved after 400 ms, that of "?" never.
 */
enum {
    LIVE = 'l',
    FAR = 'f',
    SWALLOWS = 's',
    REFUSES = 'r',
    SILENT = 'q',
    CLOSES = 'c',
    BROKEN_NAME = '!',
    SILENT_NAME = '?'
};

static struct {
    char kinds[MOST_SERVERS][MOST_ADDRESSES + 1];
    struct {
        int64_t takes; /* ZKL_NEVER: it is never resolved */
        bool asked;    /* It is being resolved. */
        int64_t asked_at;
    } names[MOST_SERVERS];
    int32_t count;
    int64_t round_trip; /* of LIVE; of FAR 1.5 s */
    zkl_race race;
    int64_t now;
    struct {
        bool pending;
        int64_t begun_at;
    } attempts[MOST_SERVERS][MOST_ADDRESSES];
    int32_t questions; /* for names that are not resolved at once */
    int32_t begun;     /* connections */
    int32_t accepted;  /* of them, by a server */
    int32_t steps;     /* of the loop */
    int32_t server;    /* the one that answered */
    int64_t timeout;   /* that it grants */
} world;

static void build(const char *servers, uint64_t random)
{
    memset(&world, 0, sizeof world);
    world.round_trip = MS;
    world.timeout = TIMEOUT;
    world.now = 1000 * ZKL_SECOND;
    for (const char *at = servers; *at != '\0'; at += *at == ' ') {
        char *kinds = (char *)(uintptr_t)at;
        world.names[world.count].takes = *at == SILENT_NAME ? ZKL_NEVER : strtol(at, &kinds, 10) * MS;
        at += strcspn(at, " ");
        memcpy(world.kinds[world.count++], kinds, (size_t)(at - kinds));
    }
    assert_true(zkl_race_init(&world.race, world.count, TIMEOUT, random));
}

static void end(void)
{
    zkl_race_free(&world.race);
    assert_int_equal(0, zkl_memory_in_use());
}

static int32_t addresses_of(int32_t server)
{
    char first = world.kinds[server][0];
    return first == BROKEN_NAME || first == SILENT_NAME ? 0 : (int32_t)strlen(world.kinds[server]);
}

/* When the name that is being resolved is answered. */
static int64_t resolved_at(int32_t server)
{
    int64_t takes = world.names[server].takes;
    return takes == ZKL_NEVER ? ZKL_NEVER : world.names[server].asked_at + takes;
}

/* A question for a name outlives the race, as its thread does. */
static void resolve(int32_t server)
{
    if (!world.names[server].asked) {
        world.names[server].asked = true;
        world.names[server].asked_at = world.now;
        world.questions += world.names[server].takes > 0;
    }
    if (resolved_at(server) > world.now) {
        zkl_race_resolving(&world.race, server, world.now);
        return;
    }
    world.names[server].asked = false;
    zkl_race_resolved(&world.race, server, addresses_of(server), world.now);
}

static bool is_resolving(int32_t server)
{
    return world.race.servers[server].name == ZKL_RACE_RESOLVING;
}

static char kind_of(int32_t server, int32_t address)
{
    return world.kinds[server][address];
}

static int64_t round_trip(char kind)
{
    return kind == FAR ? ZKL_SECOND * 3 / 2 : world.round_trip;
}

/* When the attempt is established or refused; ZKL_NEVER: it is not. */
static int64_t decided_at(int32_t server, int32_t address)
{
    char kind = kind_of(server, address);
    bool never = kind == SWALLOWS || !world.attempts[server][address].pending;
    return never ? ZKL_NEVER : world.attempts[server][address].begun_at + round_trip(kind);
}

static void begin_attempts(void)
{
    zkl_race_turn turn;
    while (zkl_race_next(&world.race, world.now, &turn)) {
        if (turn.address < 0) {
            resolve(turn.server);
            continue;
        }
        if (world.attempts[turn.server][turn.address].pending) {
            zkl_race_not_begun(&world.race, false, world.now);
            continue;
        }
        world.attempts[turn.server][turn.address].pending = true;
        world.attempts[turn.server][turn.address].begun_at = world.now;
        world.begun++;
        zkl_race_begun(&world.race, world.now);
    }
}

static void end_attempts(void)
{
    for (int32_t s = 0; s < world.count; s++) {
        bool silent = world.names[s].asked && world.now - world.names[s].asked_at >= ZKL_SECOND;
        int32_t late = 0;
        for (int32_t a = 0; a < addresses_of(s); a++) {
            late += world.attempts[s][a].pending && world.now - world.attempts[s][a].begun_at >= ZKL_SECOND;
            world.attempts[s][a].pending = false;
        }
        if (silent || (late > 0 && late == addresses_of(s))) {
            zkl_race_late(&world.race, s, world.now);
        }
    }
}

/* Handles names that are resolved now, and the attempt that is decided now, if there is one. Returns whether a server is reached. */
static bool collect(int64_t *took)
{
    for (int32_t s = 0; s < world.count; s++) {
        if (is_resolving(s) && resolved_at(s) <= world.now) {
            world.names[s].asked = false;
            zkl_race_resolved(&world.race, s, addresses_of(s), world.now);
        }
        for (int32_t a = 0; a < addresses_of(s); a++) {
            if (decided_at(s, a) > world.now) {
                continue;
            }
            world.attempts[s][a].pending = false;
            if (kind_of(s, a) == REFUSES) {
                zkl_race_failed(&world.race, world.now);
                continue;
            }
            *took = round_trip(kind_of(s, a));
            world.accepted++;
            world.server = s;
            zkl_race_reached(&world.race, s);
            end_attempts();
            return true;
        }
    }
    return false;
}

static int64_t next_event(void)
{
    int64_t next = zkl_race_wake_at(&world.race);
    for (int32_t s = 0; s < world.count; s++) {
        int64_t resolved = world.race.state == ZKL_RACE_RACING && is_resolving(s) ? resolved_at(s) : ZKL_NEVER;
        next = resolved < next ? resolved : next;
        for (int32_t a = 0; a < addresses_of(s); a++) {
            int64_t at = decided_at(s, a);
            next = at < next ? at : next;
        }
    }
    return next;
}

/* The handshake with the server that was reached. Returns whether it was answered. `kind`: of the address that was reached. */
static bool shake_hands(char kind, int64_t took)
{
    zkl_race_try(&world.race, world.now, took);
    int64_t answered = world.now + round_trip(kind);
    if (kind == CLOSES) {
        world.now = answered;
        return false;
    }
    if (kind == SILENT || answered >= world.race.answer_by) {
        world.now = world.race.answer_by;
        zkl_race_late(&world.race, world.race.current, world.now);
        return false;
    }
    world.now = answered;
    zkl_race_answered(&world.race, world.now, world.timeout);
    return true;
}

/* Plays until a server has answered, or until `limit`. Returns how long it took, or -1. */
static int64_t connect_within(int64_t limit)
{
    int64_t began = world.now, until = world.now + limit;
    while (world.now < until) {
        int64_t took = 0;
        world.steps++;
        zkl_race_want(&world.race, world.now);
        if (world.race.state == ZKL_RACE_RACING) {
            bool reached = collect(&took);
            begin_attempts();
            if (reached) {
                const char *kinds = world.kinds[world.server];
                char kind = kinds[1] != '\0' && kinds[0] == SWALLOWS ? kinds[1] : kinds[0];
                if (shake_hands(kind, took)) {
                    return world.now - began;
                }
                continue;
            }
            if (zkl_race_over(&world.race, world.now)) {
                end_attempts();
            }
        }
        int64_t next = next_event();
        assert_true(next != ZKL_NEVER);
        world.now = next > world.now ? next : world.now;
    }
    return -1;
}

static void connects_past_what_does_not_answer(void **state)
{
    (void)state;
    static const struct {
        const char *servers;
        int64_t within; /* ms */
    } rows[] = {
        {"l", 2},           {"s l l", 252},
        {"s s l", 502},     {"s s s s s l", 840},
        {"sl", 252},                         /* a name with a dead and a live address */
        {"sl sl sl", 760},                   /* each name's first address has its turn before any second one */
        {"r r l", 10},                       /* a refusal costs a round trip */
        {"! ! l", 10},                       /* a name that does not resolve costs nothing else */
        {"! s r l", 300},   {"q l l", 1010}, /* accepts, and says nothing */
        {"q q l", 2020},    {"c c c l", 20}, /* accepts and closes: the next one has its turn at once */
        {"s f", 3260},                       /* far away: two round trips of 1.5 s, and nobody gives up before */
        {"f", 3010},        {"? l", 252},
        {"? ? l", 502},                      /* a name that is not answered counts as an address that swallows */
        {"? s r l", 504},   {"400l s", 403}, /* its answer joins the race */
        {"400l 400l", 403}, {"400l l", 252},
        {"400! l", 252},    {"400! s l", 402}, /* if it fails, the next one has its turn at once */
        {"400sl", 653},     {"1900l s", 1903},
        {"5200l", 5203}, /* longer than a race: the next one has the answer */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (uint64_t random = 1; random < 20; random++) {
            build(rows[i].servers, random * 7919);
            int64_t took = connect_within(60 * ZKL_SECOND);
            if (took < 0 || took > rows[i].within * MS) {
                fail_msg("'%s' took %.3f s", rows[i].servers, (double)took / 1e9);
            }
            end();
        }
    }
}

static void begins_with_the_server_that_answered_last(void **state)
{
    (void)state;
    build("s l l", 1);
    assert_true(connect_within(ZKL_SECOND) > 0);
    assert_int_equal(1, world.server);
    world.now += 60 * ZKL_SECOND;
    int64_t took = connect_within(ZKL_SECOND);
    assert_true(took >= 0 && took <= 2 * MS);
    assert_int_equal(1, world.server);
    end();
}

static void has_a_dead_server_last_for_a_while(void **state)
{
    (void)state;
    build("s q l", 1);
    assert_true(connect_within(10 * ZKL_SECOND) > 0);
    assert_true(world.race.servers[1].late_until > world.now);
    memcpy(world.kinds[2], "r", 2); /* the server is down, and the silent one is back */
    memcpy(world.kinds[1], "l", 2);
    world.now += 2 * ZKL_SECOND;
    int64_t took = connect_within(10 * ZKL_SECOND);
    assert_true(took >= 0 && took <= ZKL_SECOND);
    assert_int_equal(1, world.server);
    assert_int_equal(0, world.race.servers[1].late_until); /* it has answered */
    end();
}

/* A name that is not answered costs its moment once, and not again before the others have failed. */
static void has_a_silent_name_last_for_a_while(void **state)
{
    (void)state;
    build("? q l", 1);
    assert_true(connect_within(10 * ZKL_SECOND) > 0);
    memcpy(world.kinds[2], "r", 2);
    memcpy(world.kinds[1], "l", 2);
    world.race.servers[1].late_until = 0;
    world.now += 2 * ZKL_SECOND;
    int64_t took = connect_within(10 * ZKL_SECOND);
    assert_int_in_range(took, 0, 10 * MS);
    end();
}

/* An answer that comes after the others were exhausted has time for its connection. */
static void gives_a_late_answer_the_time_of_others(void **state)
{
    (void)state;
    build("2200f s", 1); /* a race without it would end after 2.5 s */
    assert_int_in_range(connect_within(10 * ZKL_SECOND), 5200 * MS, 5203 * MS);
    end();
}

/* Returns how many connections are begun in a time in which none succeeds. */
static int32_t begun_in(const char *servers, int64_t time)
{
    build(servers, 12345);
    assert_int_equal(-1, connect_within(time));
    int32_t begun = world.begun;
    assert_true(world.steps < 20 * begun + 100); /* no busy loop */
    end();
    return begun;
}

static void causes_no_storm(void **state)
{
    (void)state;
    /* In the first minute, and the rest of an hour: a pause of a second between races, or a race of seconds. */
    assert_int_in_range(begun_in("r", 60 * ZKL_SECOND), 40, 140);
    assert_int_in_range(begun_in("r r r", 60 * ZKL_SECOND), 120, 400);
    assert_int_in_range(begun_in("s s s", 60 * ZKL_SECOND), 20, 90);
    assert_int_in_range(begun_in("c", 60 * ZKL_SECOND), 40, 140);
    assert_int_in_range(begun_in("c c c", 60 * ZKL_SECOND), 40, 300);
    assert_int_in_range(begun_in("q q", 60 * ZKL_SECOND), 8, 40);
    assert_int_in_range(begun_in("!", 60 * ZKL_SECOND), 0, 0);
    assert_int_in_range(begun_in("?", 60 * ZKL_SECOND), 0, 0);
    assert_int_equal(1, world.questions); /* a thread waits for the answer to each of them */
    assert_int_in_range(begun_in("? r", 60 * ZKL_SECOND), 40, 140);
    assert_int_equal(1, world.questions);
}

/* A server that takes every session and closes, or lets every session that comes back expire. */
static void pauses_longer_and_longer_if_connections_do_not_last(void **state)
{
    (void)state;
    build("l", 3);
    int64_t until = world.now + 60 * ZKL_SECOND;
    int32_t connections = 0;
    while (world.now < until) {
        assert_true(connect_within(10 * ZKL_SECOND) >= 0);
        connections++;
    }
    assert_int_in_range(connections, 40, 140);
    world.now += 2 * ZKL_SECOND; /* this one lasts */
    assert_true(connect_within(ZKL_SECOND) <= 2 * MS);
    end();
}

/* One connection at the server for each that is used, however far away it is. */
static void makes_no_more_connections_than_it_uses(void **state)
{
    (void)state;
    static const int64_t round_trips[] = {1, 100, 400, 800};
    for (size_t i = 0; i < sizeof round_trips / sizeof *round_trips; i++) {
        build("l l l", 1);
        world.round_trip = round_trips[i] * MS;
        assert_true(connect_within(10 * ZKL_SECOND) >= 0);
        assert_int_equal(1, world.accepted);
        end();
    }
}

/* Servers that are restarted refuse until they are back, which the race finds, although it still waits for another one. */
static void tries_again_what_refused_while_others_are_pending(void **state)
{
    (void)state;
    build("s r r", 1);
    for (int outage = 0; outage < 10; outage++) {
        world.kinds[1][0] = outage % 2 == 0 ? REFUSES : BROKEN_NAME; /* a name may be registered again soon, too */
        world.kinds[2][0] = REFUSES;
        assert_int_equal(-1, connect_within((9 + 7 * outage) * ZKL_SECOND / 3));
        world.kinds[1][0] = LIVE;
        int64_t took = connect_within(10 * ZKL_SECOND);
        assert_int_in_range(took, 0, 2 * ZKL_SECOND + 300 * MS);
        world.now += 10 * ZKL_SECOND;
    }
    end();
}

/* One server closes each connection, as one does that is behind; the others hung, and are back. */
static void asks_late_servers_when_all_others_have_failed(void **state)
{
    (void)state;
    build("q c q", 1);
    assert_int_equal(-1, connect_within(10 * ZKL_SECOND));
    world.kinds[0][0] = world.kinds[2][0] = LIVE;
    assert_int_in_range(connect_within(60 * ZKL_SECOND), 0, 3 * ZKL_SECOND);
    end();
}

/* A long outage does not make a server that says nothing cost more than before: no handshake has been slow. */
static void gives_a_handshake_more_time_only_after_slow_ones(void **state)
{
    (void)state;
    build("r r", 1);
    assert_int_equal(-1, connect_within(120 * ZKL_SECOND));
    world.kinds[0][0] = SILENT;
    world.kinds[1][0] = LIVE;
    assert_int_in_range(connect_within(60 * ZKL_SECOND), 0, 3 * ZKL_SECOND);
    end();
    build("q q", 1);
    assert_int_equal(-1, connect_within(120 * ZKL_SECOND));
    world.kinds[0][0] = world.kinds[1][0] = LIVE;
    world.round_trip = 3 * ZKL_SECOND; /* they are slow, and that is found out */
    assert_true(connect_within(120 * ZKL_SECOND) >= 0);
    end();
}

/* Servers may grant less than the client asks for: a lock is lost by that. */
static void waits_for_handshakes_by_the_granted_timeout(void **state)
{
    (void)state;
    build("l q q", 1);
    world.timeout = 2 * ZKL_SECOND;
    assert_true(connect_within(ZKL_SECOND) >= 0);
    world.now += 10 * ZKL_SECOND;
    world.kinds[0][0] = SILENT;
    assert_int_equal(-1, connect_within(60 * ZKL_SECOND));
    world.kinds[0][0] = LIVE;
    assert_int_in_range(connect_within(60 * ZKL_SECOND), 0, 3 * ZKL_SECOND + 600 * MS); /* a pause, and two of them */
    end();
}

/* After a long outage as before it: a pause follows when all servers have failed, and not each of them. */
static void pauses_once_in_a_pass_over_all_servers(void **state)
{
    (void)state;
    for (int outage = 0; outage < 9; outage++) {
        build("c c c", (uint64_t)outage);
        assert_int_equal(-1, connect_within((60 + outage) * ZKL_SECOND / 2));
        memcpy(world.kinds, (char[MOST_SERVERS][MOST_ADDRESSES + 1]){"q", "q", "l"}, sizeof world.kinds);
        assert_int_in_range(connect_within(60 * ZKL_SECOND), 0,
                            3 * ZKL_SECOND + 600 * MS); /* 1.5 s is the longest pause */
        end();
    }
}

/* Whatever the others do, a live server is found; the time is bounded by what each of them may cost. */
static void finds_a_live_server_among_any_others(void **state)
{
    (void)state;
    static const char kinds[] = {LIVE, SWALLOWS, REFUSES, SILENT, CLOSES, BROKEN_NAME, SILENT_NAME};
    uint64_t random = 88172645463325252ULL;
    for (int round = 0; round < 20000; round++) {
        char servers[4 * MOST_SERVERS] = "";
        size_t length = 0;
        int64_t bound = ZKL_SECOND + 100 * MS;
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint32_t count = 1 + (uint32_t)(random % MOST_SERVERS), live = (uint32_t)((random >> 8) % count);
        for (uint32_t i = 0; i < count; i++) {
            char kind = i == live ? LIVE : kinds[(random >> (8 + 6 * i)) % sizeof kinds];
            length += (size_t)snprintf(servers + length, sizeof servers - length, i > 0 ? " %c" : "%c", kind);
            bound += kind == SILENT ? ZKL_SECOND + 300 * MS : 0; /* its handshake, and a race of those behind it */
        }
        build(servers, random);
        int64_t took = connect_within(60 * ZKL_SECOND);
        if (took < 0 || took > bound) {
            fail_msg("'%s' took %.3f s", servers, (double)took / 1e9);
        }
        end();
    }
}

/* Of 150 clients, each of which has shuffled the list, those of a server that goes down spread over both others. */
static void spreads_clients_over_the_servers(void **state)
{
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int down = 0; down < 3; down++) {
        int clients[3] = {0, 0, 0};
        for (int client = 0; client < 150; client++) {
            const int *order = orders[client % 6];
            build("l l l", (uint64_t)client);
            assert_true(connect_within(ZKL_SECOND) >= 0);
            for (int position = 0; position < 3; position++) {
                world.kinds[position][0] = order[position] == down ? REFUSES : LIVE;
            }
            world.now += 10 * ZKL_SECOND;
            if (order[world.server] == down) {
                assert_int_in_range(connect_within(ZKL_SECOND), 0, 10 * MS);
            }
            clients[order[world.server]]++;
            end();
        }
        for (int server = 0; server < 3; server++) {
            assert_int_equal(server == down ? 0 : 75, clients[server]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects_past_what_does_not_answer),
        cmocka_unit_test(begins_with_the_server_that_answered_last),
        cmocka_unit_test(has_a_dead_server_last_for_a_while),
        cmocka_unit_test(has_a_silent_name_last_for_a_while),
        cmocka_unit_test(gives_a_late_answer_the_time_of_others),
        cmocka_unit_test(causes_no_storm),
        cmocka_unit_test(tries_again_what_refused_while_others_are_pending),
        cmocka_unit_test(asks_late_servers_when_all_others_have_failed),
        cmocka_unit_test(gives_a_handshake_more_time_only_after_slow_ones),
        cmocka_unit_test(waits_for_handshakes_by_the_granted_timeout),
        cmocka_unit_test(pauses_once_in_a_pass_over_all_servers),
        cmocka_unit_test(pauses_longer_and_longer_if_connections_do_not_last),
        cmocka_unit_test(makes_no_more_connections_than_it_uses),
        cmocka_unit_test(finds_a_live_server_among_any_others),
        cmocka_unit_test(spreads_clients_over_the_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

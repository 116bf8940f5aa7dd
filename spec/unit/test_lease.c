/*
 * The lease as a value: what answers prove, and when it ends. A row of the table is a history. The C client is not needed.
 *
 * Instants are tenths of a second, the session timeout T is 100 of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "zk/lease.h"

#define TENTH (ZKL_SECOND / 10)
#define MOST_STEPS 24
#define MOST_FLYING 10

/* What may happen. A request is named by a digit. */
typedef enum {
    END,
    NEW,     /* a connection with a new session: `at` is when its handshake was sent */
    AGAIN,   /* a connection with the same session; `value`: its timeout */
    READ,    /* sends a request that proves nothing of its way: `value` is its number */
    LEADER,  /* one that the leader answers */
    WRITE,   /* one that a quorum acknowledges */
    ANSWER,  /* the request of this number is answered, with ZOK */
    TURN,    /* the driver's turn: answers are dated */
    PROVEN,  /* the lease can be extended until `value` */
    UNPROVEN /* it cannot be extended beyond `value` */
} what;

typedef struct {
    what what;
    int64_t at;
    int64_t value;
} event;

static const struct {
    const char *title;
    event steps[MOST_STEPS];
} histories[] = {
    {"a new session alone gives no lease", {{NEW, 10, 100}, {TURN, 11, 0}, {UNPROVEN, 12, 0}}},
    {"a read proves nothing", {{NEW, 10, 100}, {READ, 20, 1}, {ANSWER, 21, 1}, {TURN, 21, 0}, {UNPROVEN, 22, 0}}},
    {"a quorum write gives T/2 from when it was sent",
     {{NEW, 10, 100}, {WRITE, 20, 1}, {ANSWER, 30, 1}, {PROVEN, 30, 70}}},
    {"the session's creation restarted its timer: 9T/10 from its handshake are the most",
     {{NEW, 10, 100}, {WRITE, 80, 1}, {ANSWER, 81, 1}, {TURN, 81, 0}, {PROVEN, 82, 100}}},
    {"four answers in a row, the third sent 3T/10 after the second, prove a restart at the first",
     {{NEW, 10, 100},
      {READ, 20, 1},
      {ANSWER, 21, 1},
      {READ, 25, 2},
      {ANSWER, 26, 2},
      {TURN, 26, 0},
      {LEADER, 56, 3},
      {ANSWER, 57, 3},
      {WRITE, 90, 4},
      {ANSWER, 91, 4},
      {TURN, 91, 0},
      {PROVEN, 91, 110}}},
    {"a third that was sent earlier may have overtaken the leader's ping",
     {{NEW, 10, 100},
      {READ, 20, 1},
      {ANSWER, 21, 1},
      {READ, 25, 2},
      {ANSWER, 26, 2},
      {TURN, 26, 0},
      {LEADER, 55, 3},
      {ANSWER, 57, 3},
      {WRITE, 90, 4},
      {ANSWER, 91, 4},
      {TURN, 91, 0},
      {UNPROVEN, 91, 100}}},
    {"answers that were not dated may have come later than they seem",
     {{NEW, 10, 100},
      {READ, 20, 1},
      {ANSWER, 21, 1},
      {READ, 25, 2},
      {ANSWER, 26, 2},
      {TURN, 40, 0},
      {LEADER, 56, 3},
      {ANSWER, 57, 3},
      {WRITE, 90, 4},
      {ANSWER, 91, 4},
      {TURN, 91, 0},
      {UNPROVEN, 91, 100}}},
    {"a follower's leader may have been replaced: without a quorum write nothing is proven",
     {{NEW, 10, 100},

      {READ, 20, 1},
      {ANSWER, 21, 1},
      {READ, 25, 2},
      {ANSWER, 26, 2},
      {TURN, 26, 0},
      {WRITE, 52, 0},
      {ANSWER, 53, 0},
      {LEADER, 56, 3},
      {ANSWER, 57, 3},
      {LEADER, 90, 4},
      {ANSWER, 91, 4},
      {TURN, 91, 0},
      {UNPROVEN, 91, 100}}},
    {"a restart that becomes known too late breaks the chain",
     {{NEW, 10, 100},
      {READ, 20, 1},
      {ANSWER, 21, 1},
      {READ, 25, 2},
      {ANSWER, 26, 2},
      {TURN, 26, 0},
      {LEADER, 56, 3},
      {ANSWER, 57, 3},
      {WRITE, 98, 4},
      {ANSWER, 101, 4},
      {TURN, 101, 0},
      {UNPROVEN, 101, 100}}},
    {"a broken chain is sound again after a quorum write that was sent T/2 later",
     {{NEW, 10, 100},
      {READ, 20, 1},
      {ANSWER, 21, 1},
      {READ, 25, 2},
      {ANSWER, 26, 2},
      {TURN, 26, 0},
      {LEADER, 56, 3},
      {ANSWER, 57, 3},
      {WRITE, 98, 4},
      {ANSWER, 101, 4},
      {TURN, 101, 0},
      {WRITE, 151, 5},
      {ANSWER, 152, 5},
      {TURN, 152, 0},
      {PROVEN, 152, 110}}},
    {"a connection in time goes on with the chain",
     {{NEW, 10, 100},
      {WRITE, 20, 1},
      {ANSWER, 21, 1},
      {AGAIN, 60, 100},
      {TURN, 61, 0},
      {WRITE, 62, 2},
      {ANSWER, 63, 2},
      {TURN, 63, 0},
      {PROVEN, 63, 112}}},
    {"a connection that comes too late does not",
     {{NEW, 10, 100},
      {WRITE, 20, 1},
      {ANSWER, 21, 1},
      {AGAIN, 101, 100},
      {TURN, 102, 0},
      {WRITE, 103, 2},
      {ANSWER, 104, 2},
      {TURN, 104, 0},
      {UNPROVEN, 104, 100}}},
    {"a shorter timeout on a later connection counts",
     {{NEW, 10, 100},
      {WRITE, 20, 1},
      {ANSWER, 21, 1},
      {AGAIN, 30, 40},
      {TURN, 31, 0},
      {WRITE, 32, 2},
      {ANSWER, 33, 2},
      {TURN, 33, 0},
      {PROVEN, 33, 52}}},
    {"evidence ends with its connection",
     {{NEW, 10, 100},
      {READ, 20, 1},
      {ANSWER, 21, 1},
      {READ, 25, 2},
      {ANSWER, 26, 2},
      {TURN, 26, 0},
      {AGAIN, 30, 100},
      {TURN, 31, 0},
      {LEADER, 62, 3},
      {ANSWER, 63, 3},
      {WRITE, 90, 4},
      {ANSWER, 91, 4},
      {TURN, 91, 0},
      {PROVEN, 91, 120}}},
};

static struct {
    zkl_lease lease;
    struct {
        zkl_proof proof;
        int64_t sent_at;
        zkl_evidence evidence;
    } flying[MOST_FLYING];
} world;

static void sent(zkl_proof proof, const event *step)
{
    world.flying[step->value].proof = proof;
    world.flying[step->value].sent_at = step->at * TENTH;
    world.flying[step->value].evidence = zkl_lease_evidence(&world.lease, proof, step->at * TENTH);
}

static void answered(const event *step)
{
    zkl_proof proof = world.flying[step->value].proof;
    int64_t sent_at = world.flying[step->value].sent_at;
    zkl_lease_answered(&world.lease, proof, sent_at, &world.flying[step->value].evidence);
    if (proof >= ZKL_PROOF_QUORUM) {
        zkl_lease_prove(&world.lease, sent_at);
    }
}

static void play(const char *title, const event *step)
{
    int64_t now = step->at * TENTH;
    int64_t until = zkl_lease_proven_until(&world.lease);
    switch (step->what) {
    case NEW:
        zkl_lease_init(&world.lease, true);
        zkl_lease_connected(&world.lease, step->value * TENTH, now, true, now);
        break;
    case AGAIN:
        zkl_lease_connected(&world.lease, step->value * TENTH, now, false, now);
        break;
    case READ:
        sent(ZKL_PROOF_NONE, step);
        break;
    case LEADER:
        sent(ZKL_PROOF_LEADER, step);
        break;
    case WRITE:
        sent(ZKL_PROOF_QUORUM, step);
        break;
    case ANSWER:
        answered(step);
        break;
    case TURN:
        zkl_lease_date_answers(&world.lease, now);
        break;
    case PROVEN:
    case UNPROVEN:
        if (step->what == PROVEN ? until != step->value * TENTH : until > step->value * TENTH) {
            fail_msg("%s: until %g, not %lld", title, (double)until / (double)TENTH, (long long)step->value);
        }
        break;
    case END:
        break;
    }
}

static void answers_prove_what_the_servers_promise(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof histories / sizeof histories[0]; i++) {
        for (size_t at = 0; at < MOST_STEPS && histories[i].steps[at].what != END; at++) {
            play(histories[i].title, &histories[i].steps[at]);
        }
    }
}

static void a_lease_is_valid_until_its_end(void **state)
{
    (void)state;
    zkl_lease lease;
    zkl_lease_init(&lease, true);
    assert_false(zkl_lease_valid(&lease, 0));
    assert_false(zkl_lease_lapsed(&lease, 0));
    lease.until = 7;
    assert_true(zkl_lease_valid(&lease, 6));
    assert_false(zkl_lease_valid(&lease, 7));
    assert_false(zkl_lease_lapsed(&lease, 6));
    assert_true(zkl_lease_lapsed(&lease, 7));
    zkl_lease_init(&lease, false);
    assert_true(zkl_lease_valid(&lease, INT64_MAX - 1));
}

/* The server has restarted its timer with the timeout of this connection, which may end before the lease did. */
static void a_connection_can_only_shorten_a_lease(void **state)
{
    (void)state;
    zkl_lease lease;
    zkl_lease_init(&lease, true);
    assert_int_equal(0, zkl_lease_connected(&lease, 100, 1000, true, 1000));
    lease.until = 1050;
    assert_int_equal(1050, zkl_lease_connected(&lease, 100, 1010, false, 1010));
    assert_int_equal(1020 + 27, zkl_lease_connected(&lease, 30, 1020, false, 1020));
}

/* From when an item wants a lease until another session should be tried: 3T/2, from the latest connection on. */
static void who_waits_for_a_lease_gives_way(void **state)
{
    (void)state;
    zkl_lease lease;
    zkl_lease_init(&lease, true);
    zkl_lease_connected(&lease, 100, 0, true, 0);
    assert_true(zkl_lease_waits_until(&lease) == ZKL_NEVER);
    zkl_lease_await(&lease, 20);
    zkl_lease_await(&lease, 30);
    assert_int_equal(170, zkl_lease_waits_until(&lease));
    zkl_lease_connected(&lease, 100, 40, false, 40);
    assert_int_equal(190, zkl_lease_waits_until(&lease));
    zkl_lease_await_no_more(&lease);
    assert_true(zkl_lease_waits_until(&lease) == ZKL_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_prove_what_the_servers_promise),
        cmocka_unit_test(a_lease_is_valid_until_its_end),
        cmocka_unit_test(a_connection_can_only_shorten_a_lease),
        cmocka_unit_test(who_waits_for_a_lease_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * turn: what the engine does when its driver gives it time.
 *
 * Everything that is due at an instant is one row of a table. A turn goes through the rows, and the driver sleeps until the
 * earliest of their instants.
 */
#include "engine_private.h"

static int64_t never(const zkl_engine *engine)
{
    (void)engine;
    return ZKL_NEVER;
}

static void end_lingering(zkl_engine *engine)
{
    zkl_share_expire(engine, false);
}

static const struct {
    int64_t (*at)(const zkl_engine *engine); /* the instant at which there is something to do */
    void (*run)(zkl_engine *engine);         /* NULL: it is done before or after these rows */
    bool each_turn; /* it is tried in each turn, since a turn may find something to do earlier */
} due[] = {
    {never, zkl_session_notice_loss, true},
    {zkl_lease_lapses_at, zkl_lease_lapse, true},
    {zkl_session_given_up_at, zkl_session_give_up, false},
    {zkl_session_tries_end_at, zkl_session_end_tries, false},
    {zkl_acquisitions_expire_at, zkl_acquisitions_expire, false},
    {zkl_share_expires_at, end_lingering, false},
    {zkl_session_probe_at, zkl_session_probe_again, false},
    {zkl_session_retry_at, zkl_session_retry, false},
    {zkl_entries_run_at, zkl_entries_run, true},
    {zkl_operations_send_at, zkl_operations_send, true},
    {zkl_lease_beat_at, zkl_lease_beat, false},
    {zkl_lease_decides_at, NULL, false}, /* zkl_lease_date_answers, zkl_session_renew */
};

#define ROWS (sizeof due / sizeof *due)

static void run_due(zkl_engine *engine)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (due[i].run != NULL && (due[i].each_turn || engine->now >= due[i].at(engine))) {
            due[i].run(engine);
        }
    }
}

static int64_t next_due(const zkl_engine *engine)
{
    int64_t next = ZKL_NEVER;
    for (size_t i = 0; i < ROWS; i++) {
        int64_t at = due[i].at(engine);
        next = at < next ? at : next;
    }
    return next;
}

bool zkl_engine_may_call(const zkl_engine *engine)
{
    return zkl_session_in_order(engine);
}

bool zkl_engine_wants_turn(const zkl_engine *engine, int64_t sleeping_until)
{
    return zkl_session_silently_lost(engine) || next_due(engine) < sleeping_until;
}

void zkl_engine_prepare(zkl_engine *engine, int64_t now, zkl_poll *poll)
{
    engine->now = now;
    engine->sent_bytes = 0;
    zkl_lease_date_answers(engine);
    *poll = (zkl_poll){.fd = -1, .events = 0, .wake_at = ZKL_NEVER};
    run_due(engine);
    zkl_session_prepare(engine, poll);
    int64_t next = next_due(engine);
    poll->wake_at = next < poll->wake_at ? next : poll->wake_at;
}

void zkl_engine_process(zkl_engine *engine, int64_t now, short revents)
{
    engine->now = now;
    zkl_lease_lapse(engine);
    zkl_session_process(engine, revents);
    run_due(engine);
    /* Not in zkl_engine_prepare: that opens handles, and a caller's thread that runs it must not wait for name resolution. */
    zkl_session_renew(engine);
}

void zkl_engine_shut_down(zkl_engine *engine, int64_t now)
{
    engine->now = now;
    zkl_session_shut_down(engine);
    zkl_queries_fail(engine, ZKL_CLOSED, "the client is closed");
    zkl_operations_fail(engine, ZKL_CLOSED, "the client is closed");
}

/*
 * workload: what clients and foreigners do. Claims are made, held, released, cancelled, forgotten and asked about, at random.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule.h"

#define MAX_OPEN_CLAIMS 3

#define MAX_QUESTIONS 4096
static bool pending[MAX_QUESTIONS]; /* zkl_engine_contenders not answered yet */
static int asked, questions;

static bool ready(const client *of)
{
    return of->engine != NULL && of->paused_until <= sim_now();
}

/* ---- claims ---- */

static void make_claim(client *of)
{
    claim_record *record = calloc(1, sizeof(*record));
    if (record == NULL)
        abort();
    record->number = ++run.claim_count;
    record->client = of->index;
    record->path = (int)sim_below(run.path_count);
    record->try_only = sim_chance(1, 4);
    record->asked_at = sim_now();
    record->next = run.claims;
    run.claims = record;
    char identity[32];
    snprintf(identity, sizeof(identity), "client-%d", of->index);
    zkl_claim_request request = {.path = run.paths[record->path],
                                 .mode = ZKL_MODE_MUTEX,
                                 .identity = identity,
                                 .acl = &ZOO_OPEN_ACL_UNSAFE,
                                 .try_only = record->try_only};
    sim_trace("client %d: claim %d on %s%s", of->index, record->number, request.path,
              record->try_only ? ", a try" : "");
    totals.claims++;
    totals.tries += record->try_only;
    check_asked(record);
    begin_call(of);
    zkl_claim *claim = zkl_engine_claim(of->engine, &request, record, read_clock(of));
    if (claim == NULL)
        abort();
    record->claim = claim;
    end_call(of);
}

static void forget(claim_record *record)
{
    client *of = &run.clients[record->client];
    sim_trace("client %d: forgets claim %d", of->index, record->number);
    record->ended = true;
    begin_call(of);
    record->end_code = ZKL_CANCELLED;
    zkl_claim_forget(record->claim, read_clock(of));
    record->claim = NULL;
    end_call(of);
}

void end_claim(claim_record *record)
{
    client *of = &run.clients[record->client];
    if (sim_chance(1, 6)) {
        forget(record);
        return;
    }
    bool waiting = record->phase == ZKL_CLAIM_WAITING;
    sim_trace("client %d: ends claim %d", of->index, record->number);
    record->ended = true;
    record->end_code = waiting ? ZKL_CANCELLED : ZKL_OK;
    totals.cancelled += waiting;
    begin_call(of);
    zkl_claim_end(record->claim, record->end_code, read_clock(of));
    end_call(of);
    if (record->claim != NULL && sim_chance(1, 2))
        forget(record);
}

static void release_event(void *context, int64_t number)
{
    claim_record *record = context;
    const client *of = &run.clients[record->client];
    if (record->number != number || record->claim == NULL || record->ended || run.failed)
        return;
    if (of->paused_until > sim_now())
        sim_schedule(of->paused_until + sim_below(run.timeout / 10), release_event, record, number);
    else
        end_claim(record);
}

void claim_granted(claim_record *record)
{
    int64_t hold = sim_below(run.draining ? run.timeout / 20 : run.timeout);
    if (!run.draining && sim_chance(1, 6))
        hold *= 4;
    if (sim_chance(1, 3))
        hold /= 50;
    sim_schedule(sim_now() + hold, release_event, record, record->number);
}

/* ---- what one client does now ---- */

static claim_record *random_claim(const client *of, int phase)
{
    claim_record *chosen = NULL;
    int64_t seen = 0;
    for (claim_record *each = run.claims; each != NULL; each = each->next) {
        if (each->client == of->index && each->claim != NULL && (int)each->phase == phase && !each->ended &&
            sim_below(++seen) == 0)
            chosen = each;
    }
    return chosen;
}

static int open_claims(const client *of)
{
    int count = 0;
    for (const claim_record *each = run.claims; each != NULL; each = each->next)
        count += each->client == of->index && each->claim != NULL &&
                 (each->phase == ZKL_CLAIM_WAITING || each->phase == ZKL_CLAIM_GRANTED);
    return count;
}

/* Claims that are over are given back; some stay until their client is closed. */
static void tidy(client *of)
{
    for (claim_record *each = run.claims; each != NULL; each = each->next) {
        if (each->client != of->index || each->claim == NULL)
            continue;
        bool over = each->phase != ZKL_CLAIM_WAITING && each->phase != ZKL_CLAIM_GRANTED;
        if (over && (each->settled || sim_chance(1, 4)) && sim_chance(3, 4)) {
            forget(each);
            return;
        }
    }
}

static void contenders_listed(void *user, zkl_code code, const char *message, const zkl_contender *contenders,
                              int32_t count)
{
    bool *mine = user;
    sim_trace("contenders: %s %s, %d", zkl_code_name(code), message, (int)count);
    if (!*mine)
        fail("final", "a question for contenders was answered twice");
    *mine = false;
    questions--;
    for (int32_t i = 0; i < count; i++) {
        if (contenders[i].holder != (i == 0) && contenders[i].kind == ZKL_NODE_EXCLUSIVE && i > 0)
            fail("final", "contender %s is said to hold, and is not first", contenders[i].node);
        if (i > 0 && contenders[i].sequence < contenders[i - 1].sequence)
            fail("final", "contenders are out of order");
    }
}

static void ask_contenders(client *of)
{
    if (asked == MAX_QUESTIONS)
        return;
    bool *mine = &pending[asked++];
    *mine = true;
    questions++;
    totals.contenders++;
    begin_call(of);
    if (!zkl_engine_contenders(of->engine, run.paths[sim_below(run.path_count)], true, contenders_listed, mine,
                               read_clock(of))) {
        *mine = false;
        questions--;
    }
    end_call(of);
}

/* Somebody on another thread asked whether a grant still holds, and saw that its lease has run out. */
static void notice_lapse(client *of)
{
    claim_record *record = random_claim(of, ZKL_CLAIM_GRANTED);
    if (record == NULL || grant_valid(record))
        return;
    begin_call(of);
    zkl_claim_lapsed(record->claim, read_clock(of));
    end_call(of);
}

static void rush(void *context, int64_t argument)
{
    client *of = context;
    (void)argument;
    if (ready(of) && !of->closing && !run.draining && !run.failed && open_claims(of) < MAX_OPEN_CLAIMS)
        make_claim(of);
}

/* Everybody wants something at nearly the same time. */
void start_rush(void)
{
    int64_t begin = sim_now() + sim_below(run.options.delay * 40);
    for (int i = 0; i < run.client_count; i++)
        sim_schedule(begin + sim_below(run.options.delay * 4), rush, &run.clients[i], 0);
}

static void act(void *context, int64_t argument)
{
    client *of = context;
    if (run.failed)
        return;
    sim_schedule(sim_now() + run.timeout / 40 + sim_below(run.timeout / 2), act, of, argument);
    if (!ready(of) || of->closing)
        return;
    int64_t choice = sim_below(20);
    claim_record *record = NULL;
    if (choice < 9) {
        if (!run.draining && open_claims(of) < MAX_OPEN_CLAIMS)
            make_claim(of);
    } else if (choice < 11) {
        if (!run.draining && (record = random_claim(of, ZKL_CLAIM_WAITING)) != NULL)
            end_claim(record);
    } else if (choice < 13) {
        if (!run.draining)
            ask_contenders(of);
    } else if (choice < 16) {
        notice_lapse(of);
    } else {
        tidy(of);
    }
}

/* ---- foreigners: what Curator does, seen from the leader ---- */

static const char *foreign_directory(const foreigner *who, char *buffer, size_t size)
{
    server_path_of(run.paths[who->path], buffer, size);
    return buffer;
}

static void make_directory(const char *directory)
{
    char above[64];
    for (const char *slash = strchr(directory + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(above, sizeof(above), "%.*s", (int)(slash - directory), directory);
        if (!sim_exists(above))
            sim_foreign_create(0, above, "", ZOO_CONTAINER);
    }
    sim_foreign_create(0, directory, "", ZOO_CONTAINER);
}

/* True when the foreigner's node is the first of its directory. */
static bool foreign_first(const foreigner *who, const char *directory)
{
    int32_t own = 0, number;
    contender_name(strrchr(who->node, '/') + 1, &own);
    int count = sim_child_count(directory);
    for (int i = 0; i < count; i++) {
        if (contender_name(sim_child(directory, i), &number) && number < own)
            return false;
    }
    return true;
}

static void foreign_join(foreigner *who)
{
    char directory[64], path[160];
    if (who->session == 0)
        who->session = sim_foreign_session();
    if (who->session == 0)
        return;
    who->path = (int)sim_below(run.path_count);
    foreign_directory(who, directory, sizeof(directory));
    if (!sim_exists(directory))
        make_directory(directory);
    snprintf(path, sizeof(path), "%s/_c_f0000000-0000-4000-800%d-%012d-lock-", directory, who->index, ++who->serial);
    snprintf(who->node, sizeof(who->node), "%s", path);
    if (sim_foreign_create(who->session, path, "10.1.1.1", ZOO_EPHEMERAL_SEQUENTIAL)) {
        who->state = FOREIGNER_JOINING;
        who->hold_until = sim_now() + run.timeout;
    }
}

static void foreign_find(foreigner *who)
{
    char directory[64], path[320];
    foreign_directory(who, directory, sizeof(directory));
    int count = sim_child_count(directory);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, sim_child(directory, i));
        if (strncmp(path, who->node, strlen(who->node)) == 0) {
            snprintf(who->node, sizeof(who->node), "%.159s", path);
            who->state = FOREIGNER_WAITING;
            return;
        }
    }
    if (sim_now() > who->hold_until && sim_foreign_expire(who->session)) {
        who->session = 0;
        who->state = FOREIGNER_IDLE;
    }
}

static void foreign_act(void *context, int64_t argument)
{
    foreigner *who = context;
    char directory[64];
    if (run.failed)
        return;
    sim_schedule(sim_now() + 1 + sim_below(run.timeout / 20), foreign_act, who, argument);
    foreign_directory(who, directory, sizeof(directory));
    if (who->state > FOREIGNER_JOINING && !sim_exists(who->node))
        who->state = FOREIGNER_IDLE;
    switch (who->state) {
    case FOREIGNER_IDLE:
        if (!run.draining && sim_chance(1, 30))
            foreign_join(who);
        break;
    case FOREIGNER_JOINING:
        foreign_find(who);
        break;
    case FOREIGNER_WAITING:
        if (!foreign_first(who, directory))
            break;
        who->state = FOREIGNER_HOLDING;
        who->hold_until = sim_now() + sim_below(run.timeout / 2);
        sim_trace("foreigner %d: holds by %s", who->index, who->node);
        check_foreign_grant(who);
        break;
    case FOREIGNER_HOLDING:
        if (sim_now() > who->hold_until)
            who->state = FOREIGNER_LEAVING;
        break;
    case FOREIGNER_LEAVING:
        sim_foreign_delete(who->session, who->node);
        break;
    }
}

void foreign_crash(void)
{
    if (run.foreigner_count == 0)
        return;
    foreigner *who = &run.foreigners[sim_below(run.foreigner_count)];
    if (who->session != 0 && sim_foreign_expire(who->session)) {
        who->session = 0;
        who->state = FOREIGNER_IDLE;
    }
}

/* ---- beginning and end ---- */

void start_workload(void)
{
    asked = questions = 0;
    if (sim_chance(1, 3))
        start_rush();
    for (int i = 0; i < run.client_count; i++)
        sim_schedule(sim_now() + sim_below(run.timeout / 2), act, &run.clients[i], 0);
    for (int i = 0; i < run.foreigner_count; i++) {
        run.foreigners[i].index = i;
        sim_schedule(sim_now() + sim_below(run.timeout), foreign_act, &run.foreigners[i], 0);
    }
}

bool workload_busy(const char **what, const claim_record **who)
{
    *who = NULL;
    for (const claim_record *each = run.claims; each != NULL; each = each->next) {
        if (each->claim == NULL)
            continue;
        *who = each;
        if (each->phase == ZKL_CLAIM_WAITING) {
            *what = each->try_only ? "a try was not answered" : "a claim still waits";
            return true;
        }
        if (each->phase == ZKL_CLAIM_GRANTED) {
            *what = "a claim still holds";
            return true;
        }
        if (!each->settled && !run.unreadable) {
            *what = "a claim that is over has not settled";
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
        if (run.foreigners[i].state != FOREIGNER_IDLE) {
            *what = "a foreigner still waits";
            return true;
        }
    }
    *what = "a question for contenders was not answered";
    return questions != 0;
}

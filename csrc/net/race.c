/* race: when to begin a connection with which server, which of them wins, and how long to wait after a failure. */
#include "race.h"

#include <assert.h>

#include "base/base.h"

/* The longest and the shortest time between two turns. Between them, all addresses have their turn within ALL_WITHIN. */
#define LONGEST_STAGGER (ZKL_SECOND / 4)
#define SHORTEST_STAGGER (ZKL_SECOND / 20)
#define ALL_WITHIN ZKL_SECOND

/* How long the connection of the last turn may take, and the handshake; doubled after all servers have failed, up to the longest. */
#define FIRST_CONNECTION (2 * ZKL_SECOND)
#define LONGEST_CONNECTION (4 * ZKL_SECOND)
#define FIRST_HANDSHAKE ZKL_SECOND
#define LONGEST_HANDSHAKE (20 * ZKL_SECOND)

/* The handshake may take so many times as long as the TCP connection took. */
#define ROUND_TRIPS 4

/* The first pause after all servers have failed, doubled each time they do so again, and the longest. */
#define FIRST_PAUSE (ZKL_SECOND / 10)
#define LONGEST_PAUSE ZKL_SECOND

/* A connection that has lasted for less counts as one that has failed: it shall not be repeated without a pause. */
#define LASTS ZKL_SECOND

bool zkl_race_init(zkl_race *race, int32_t count, int64_t timeout, uint64_t random)
{
    assert(count > 0);
    *race = (zkl_race){.count = count, .timeout = timeout, .random = random | 1, .next_at = ZKL_NEVER};
    race->servers = zkl_alloc((size_t)count * sizeof *race->servers);
    for (int32_t i = 0; i < count && race->servers != NULL; i++) {
        race->servers[i] = (zkl_race_server){.addresses = 1};
    }
    return race->servers != NULL;
}

void zkl_race_free(zkl_race *race)
{
    zkl_free(race->servers);
    race->servers = NULL;
}

bool zkl_race_renew(zkl_race *race, int32_t count, int32_t current)
{
    zkl_race renewed;
    if (!zkl_race_init(&renewed, count, race->timeout, race->random)) {
        return false;
    }
    if (current >= 0) {
        assert(race->state == ZKL_RACE_TRYING || race->state == ZKL_RACE_ANSWERED);
        renewed.state = race->state;
        renewed.current = renewed.first = current;
        renewed.begun_at = race->begun_at;
        renewed.answer_by = race->answer_by;
    }
    zkl_race_free(race);
    *race = renewed;
    return true;
}

static void enter_race(zkl_race *race, zkl_race_state next)
{
#define TO(state) (1U << ZKL_RACE_##state)
    static const uint32_t legal[] = {
        [ZKL_RACE_IDLE] = TO(RACING),
        [ZKL_RACE_RACING] = TO(REACHED) | TO(PAUSED),
        [ZKL_RACE_REACHED] = TO(TRYING) | TO(PAUSED),
        [ZKL_RACE_TRYING] = TO(ANSWERED) | TO(PAUSED),
        [ZKL_RACE_ANSWERED] = TO(RACING) | TO(PAUSED),
        [ZKL_RACE_PAUSED] = TO(RACING),
    };
#undef TO
    assert((legal[race->state] & 1U << next) != 0);
    race->state = next;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

/* Returns `first`, doubled each time that as many have failed as there are servers, and at most `longest`. */
static int64_t doubled(const zkl_race *race, int32_t failed, int64_t first, int64_t longest)
{
    int32_t times = failed / race->count;
    return at_most(first * (INT64_C(1) << (times < 10 ? times : 10)), longest);
}

/* Between half and one and a half of `pause`: clients that fail together shall not come back together. */
static int64_t scattered(zkl_race *race, int64_t pause)
{
    race->random ^= race->random << 13;
    race->random ^= race->random >> 7;
    race->random ^= race->random << 17;
    return pause / 2 + (int64_t)(race->random % 1024) * (pause / 1024);
}

/* `servers` more have failed. A pause follows when each of them has failed once more; until then, the next one has its turn at once. */
static void pause_after(zkl_race *race, int32_t servers, int64_t now)
{
    int32_t passes = race->failures / race->count;
    race->failures += race->failures < INT32_MAX / 2 ? servers : 0;
    bool all = race->failures / race->count > passes;
    int64_t pause = all ? doubled(race, race->failures, FIRST_PAUSE / 2, LONGEST_PAUSE) : 0;
    race->first = (race->current + 1) % race->count;
    race->next_at = now + scattered(race, pause);
    enter_race(race, ZKL_RACE_PAUSED);
}

static void begin_race(zkl_race *race, int64_t now)
{
    int32_t prompt = 0;
    for (int32_t i = 0; i < race->count; i++) {
        prompt += race->servers[i].late_until <= now;
    }
    for (int32_t i = 0; i < race->count; i++) {
        race->servers[i].name = ZKL_RACE_UNRESOLVED;
        race->servers[i].tried = 0;
        race->servers[i].late = race->servers[i].late_until > now && race->failures < prompt;
    }
    race->current = race->first; /* if none is reached, the next race begins with the one behind it */
    race->pending = 0;
    race->exhausted = race->refused = false;
    race->next_at = now;
    race->ends_at = ZKL_NEVER;
    enter_race(race, ZKL_RACE_RACING);
}

void zkl_race_want(zkl_race *race, int64_t now)
{
    switch (race->state) {
    case ZKL_RACE_IDLE:
        begin_race(race, now);
        break;
    case ZKL_RACE_ANSWERED:
        if (now - race->begun_at < LASTS) {
            pause_after(race, 1, now);
            break;
        }
        race->failures = 0;
        race->first = race->current;
        begin_race(race, now);
        break;
    case ZKL_RACE_TRYING:
        race->unanswered += now >= race->answer_by && race->unanswered < INT32_MAX;
        pause_after(race, 1, now);
        break;
    case ZKL_RACE_REACHED:
        pause_after(race, 1, now);
        break;
    case ZKL_RACE_PAUSED:
    case ZKL_RACE_RACING:
        break;
    }
    if (race->state == ZKL_RACE_PAUSED && now >= race->next_at) {
        begin_race(race, now);
    }
}

static bool server_has_turn(const zkl_race_server *server)
{
    return server->name == ZKL_RACE_UNRESOLVED ||
           (server->name == ZKL_RACE_RESOLVED && server->tried < server->addresses);
}

/* Each server's first address has its turn before any second one. Of those that have had as many, late ones are behind. */
static bool is_before(const zkl_race_server *one, const zkl_race_server *other)
{
    return one->tried < other->tried || (one->tried == other->tried && !one->late && other->late);
}

/* Finds the next turn of this round; false: there is none. */
static bool find_turn(zkl_race *race, zkl_race_turn *turn)
{
    zkl_race_server *next = NULL;
    for (int32_t i = 0; i < race->count; i++) {
        zkl_race_server *server = &race->servers[(race->first + i) % race->count];
        if (server_has_turn(server) && (next == NULL || is_before(server, next))) {
            next = server;
        }
    }
    if (next == NULL) {
        return false;
    }
    *turn = (zkl_race_turn){.server = (int32_t)(next - race->servers), .address = -1};
    if (next->name == ZKL_RACE_RESOLVED) {
        turn->address = next->tried++;
    }
    return true;
}

static void begin_round(zkl_race *race)
{
    race->exhausted = race->refused = false;
    for (int32_t i = 0; i < race->count; i++) {
        zkl_race_server *server = &race->servers[i];
        server->tried = 0;
        if (server->name == ZKL_RACE_RESOLVED && server->addresses == 0) {
            server->name = ZKL_RACE_UNRESOLVED;
        }
    }
}

/* All addresses shall have their turn within ALL_WITHIN. */
static int64_t stagger(const zkl_race *race)
{
    int32_t addresses = 0;
    for (int32_t i = 0; i < race->count; i++) {
        addresses += race->servers[i].addresses > 0 ? race->servers[i].addresses : 1;
    }
    assert(addresses > 0);
    int64_t each = at_most(ALL_WITHIN / addresses, LONGEST_STAGGER);
    return each > SHORTEST_STAGGER ? each : SHORTEST_STAGGER;
}

bool zkl_race_next(zkl_race *race, int64_t now, zkl_race_turn *turn)
{
    if (race->state != ZKL_RACE_RACING || now < race->next_at || (ZKL_BROKEN(ZKL_BREAK_RACE) && race->pending > 0)) {
        return false;
    }
    if (race->exhausted) {
        begin_round(race);
    }
    if (race->pending < ZKL_RACE_MOST_PENDING && find_turn(race, turn)) {
        return true;
    }
    race->exhausted = true;
    race->next_at = race->refused ? now + scattered(race, LONGEST_PAUSE) : ZKL_NEVER;
    if (race->ends_at == ZKL_NEVER) {
        int64_t connection = doubled(race, race->failures, FIRST_CONNECTION, LONGEST_CONNECTION);
        race->ends_at = now + at_most(connection, race->timeout / 3);
    }
    return false;
}

void zkl_race_begun(zkl_race *race, int64_t now)
{
    race->pending++;
    race->next_at = now + stagger(race);
}

/* One of these has failed: the next turn is due now, or the next round in a while. */
static void fail_race(zkl_race *race, int64_t now)
{
    race->refused = true;
    race->next_at = at_most(race->next_at, race->exhausted ? now + scattered(race, LONGEST_PAUSE) : now);
}

void zkl_race_resolving(zkl_race *race, int32_t server, int64_t now)
{
    race->servers[server].name = ZKL_RACE_RESOLVING;
    zkl_race_begun(race, now);
}

void zkl_race_resolved(zkl_race *race, int32_t server, int32_t addresses, int64_t now)
{
    race->pending -= race->servers[server].name == ZKL_RACE_RESOLVING;
    race->servers[server].name = ZKL_RACE_RESOLVED;
    race->servers[server].addresses = addresses;
    if (addresses == 0) {
        fail_race(race, now);
        return;
    }
    race->exhausted = false;
    race->next_at = now;
    race->ends_at = ZKL_NEVER; /* the addresses have as much time as others */
}

void zkl_race_not_begun(zkl_race *race, bool failed, int64_t now)
{
    race->refused = race->refused || failed;
    race->next_at = now;
}

void zkl_race_failed(zkl_race *race, int64_t now)
{
    race->pending--;
    fail_race(race, now);
}

void zkl_race_reached(zkl_race *race, int32_t server)
{
    race->current = server;
    race->pending = 0;
    enter_race(race, ZKL_RACE_REACHED);
}

void zkl_race_try(zkl_race *race, int64_t now, int64_t took)
{
    int64_t longest = at_most(race->timeout / 2, LONGEST_HANDSHAKE); /* the C client gives up after two thirds */
    int64_t limit = took * ROUND_TRIPS > FIRST_HANDSHAKE ? took * ROUND_TRIPS : FIRST_HANDSHAKE;
    bool alone = race->count == 1 && race->servers[0].addresses == 1; /* there is nothing to try instead */
    race->answer_by = now + (alone ? longest : doubled(race, race->unanswered, limit, longest));
    enter_race(race, ZKL_RACE_TRYING);
}

void zkl_race_answered(zkl_race *race, int64_t now, int64_t timeout)
{
    race->timeout = timeout;
    race->servers[race->current].late_until = 0;
    race->unanswered = 0;
    race->begun_at = now;
    enter_race(race, ZKL_RACE_ANSWERED);
}

void zkl_race_late(zkl_race *race, int32_t server, int64_t now)
{
    race->servers[server].late_until = now + ZKL_RACE_LATE_FOR;
}

bool zkl_race_over(zkl_race *race, int64_t now)
{
    if (now < race->ends_at && (!race->exhausted || race->pending > 0)) {
        return false;
    }
    zkl_race_give_up(race, now);
    return true;
}

void zkl_race_give_up(zkl_race *race, int64_t now)
{
    pause_after(race, race->count, now);
}

int64_t zkl_race_wake_at(const zkl_race *race)
{
    switch (race->state) {
    case ZKL_RACE_RACING:
        return at_most(race->next_at, race->ends_at);
    case ZKL_RACE_PAUSED:
        return race->next_at;
    case ZKL_RACE_TRYING:
        return race->answer_by;
    default:
        return ZKL_NEVER;
    }
}

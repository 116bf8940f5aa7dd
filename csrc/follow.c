/*
 * follow: who comes after himself needs no list.
 *
 * A directory numbers its nodes one by one. A client that held by number n knows that nobody is left before n, and once it has
 * deleted that node, that nobody is left up to n. Should its next node get n + 1, nobody stands before that: the reply to the create
 * alone proves it.
 *
 * The number could be a coincidence only if the directory had been deleted and made anew since, and n + 1 nodes created in it. Each of
 * those creates takes a zxid, and the czxids of our two nodes tell how many have been given in between: where it is fewer, under
 * one leader, that cannot be. (One transaction could make many nodes; no lock recipe does that in its line.) Zxids that our own
 * writes elsewhere took do not count: what is acknowledged between two of a session's replies was executed between the two.
 *
 * Servers that are wiped, or restored from a backup, number nodes and transactions anew. Both numbers may then be as if nothing had
 * happened in between. So a cleared number counts on the same connection only: a server that begins anew does not keep one. It counts
 * for a second only: data can be replaced under living connections too. And what follows from it counts for no longer than itself: a
 * client that comes again and again lists the line once a second.
 */
#include "engine_private.h"

/* For so long after a release it is likely that no other client has come. A cleared number is proof for no longer. */
#define SOON ZKL_SECOND

void zkl_seat_clears(const zkl_seat *seat, const zkl_request *request)
{
    zkl_line *line = seat->line;
    if (seat->foremost && (seat->czxid > line->cleared_czxid || request->connection != line->cleared_on)) {
        line->cleared_czxid = seat->czxid;
        line->cleared_writes = seat->writes;
        line->cleared_sequence = seat->sequence;
        if (!seat->unlisted || ZKL_BROKEN(ZKL_BREAK_AGE)) {
            line->cleared_at = request->sent_at;
        }
        line->cleared_on = request->connection;
        zkl_line_keep(line);
    }
}

void zkl_line_unclear(zkl_line *line)
{
    line->cleared_czxid = 0;
    line->follows = false;
}

/* Whether what was cleared still counts when `seat` has heard of its node. */
static bool is_known(const zkl_seat *seat)
{
    const zkl_line *line = seat->line;
    bool same = line->cleared_on == seat->connection || ZKL_BROKEN(ZKL_BREAK_OUTLIVED);
    bool recent = seat->engine->now - line->cleared_at <= SOON || ZKL_BROKEN(ZKL_BREAK_AGE);
    return line->cleared_czxid != 0 && same && recent;
}

int32_t zkl_seat_most_ahead(const zkl_seat *seat, int64_t created, int64_t elsewhere)
{
    const zkl_line *line = seat->line;
    int64_t between = (int64_t)seat->sequence - line->cleared_sequence - 1;
    bool too_few = created > line->cleared_czxid && created >> 32 == line->cleared_czxid >> 32 &&
                   created - line->cleared_czxid - elsewhere <= seat->sequence;
    bool stands = !seat->beside && seat->role != ZKL_ROLE_PERMIT;
    bool known = stands && is_known(seat) && between >= 0 && (too_few || ZKL_BROKEN(ZKL_BREAK_FOLLOW));
    return known && between < INT32_MAX ? (int32_t)between : INT32_MAX;
}

bool zkl_seat_likely_follows(const zkl_seat *seat)
{
    const zkl_line *line = seat->line;
    bool same = line->cleared_on == seat->engine->connection || ZKL_BROKEN(ZKL_BREAK_OUTLIVED);
    if (!line->follows || !same || seat->engine->now - line->cleared_at > SOON) {
        return false;
    }
    const zkl_seat *other = TAILQ_FIRST(&line->seats);
    while (other != NULL && (other == seat || other->state == ZKL_SEAT_LEAVING)) {
        other = TAILQ_NEXT(other, in_line);
    }
    return other == NULL;
}

/*
 * adjacent: an adjacent sequence number proves that no node is ahead, without a list.
 *
 * A directory numbers its nodes one by one. If a client has held by node number n, no node before n is left. Once the
 * client has deleted that node, no node up to n is left. If its next node gets n + 1, no node is before it: the reply
 * to the create alone proves it.
 *
 * The number could be a coincidence only if the directory was deleted and created again since, and n + 1 nodes were
 * created in it. Each of those creates takes a zxid. The czxids of our two nodes tell how many zxids were given out
 * between them. If there were fewer, under one leader, the number is no coincidence. One transaction could create
 * several nodes, but no lock recipe does that in its queue. Zxids of our own writes elsewhere do not count: if a write
 * is acknowledged between two replies of a session, it was executed between the two requests.
 *
 * If servers are wiped, or restored from a backup, they give out the same numbers and zxids again. Both may then look
 * as if nothing had happened in between. So a cleared number counts on the same connection only: a server that starts
 * over does not keep a connection. It also counts for one second only: data can be replaced while connections stay. The
 * second begins with the latest of our nodes that a list has shown: a number that proved its place by adjacency counts
 * no longer than the number that it followed. So a client that acquires again and again lists the queue once a second.
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

/* Whether the cleared number still counts at the reply that shows the node of `seat`. */
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

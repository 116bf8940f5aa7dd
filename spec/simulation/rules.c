/*
 * rules: the names of the switches that break a rule of the protocol each.
 */
#include "schedule.h"

const broken_rule broken_rules[] = {
    {ZKL_BREAK_LEASE, "lease"},
    {ZKL_BREAK_AHEAD, "ahead"},
    {ZKL_BREAK_RECOVERY, "recovery"},
    {ZKL_BREAK_PAIRING, "pairing"},
    {ZKL_BREAK_CLEANUP, "cleanup"},
    {ZKL_BREAK_OWNER, "owner"},
    {ZKL_BREAK_WATCH, "watch"},
    {ZKL_BREAK_REARM, "rearm"},
    {ZKL_BREAK_TOKEN, "token"},
    {ZKL_BREAK_LISTED, "listed"},
    {ZKL_BREAK_RESTART, "restart"},
    {ZKL_BREAK_TRY, "try"},
    {ZKL_BREAK_LAPSE, "lapse"},
    {ZKL_BREAK_ARRIVAL, "arrival"},
    {ZKL_BREAK_READERS, "readers"},
    {ZKL_BREAK_DOWNGRADE, "downgrade"},
    {ZKL_BREAK_WRITER, "writer"},
    {ZKL_BREAK_PERMITS, "permits"},
    {ZKL_BREAK_TURN, "turn"},
    {ZKL_BREAK_LIMIT, "limit"},
    {ZKL_BREAK_HOLD, "hold"},
    {ZKL_BREAK_SHARE, "share"},
    {ZKL_BREAK_RELEASED, "released"},
    {ZKL_BREAK_LINGER, "linger"},
    {ZKL_BREAK_HANDOFF, "handoff"},
    {ZKL_BREAK_ALONE, "alone"},
    {ZKL_BREAK_FOLLOW, "follow"},
    {ZKL_BREAK_IMPOSTOR, "impostor"},
    {ZKL_BREAK_REPEATED, "repeated"}, /* which keeps one a line */
    {0, NULL},
};

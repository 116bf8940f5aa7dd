/*
 * rules: the names of the switches that break a rule of the protocol each.
 */
#include "schedule.h"

const broken_rule broken_rules[] = {
    {ZKL_BREAK_LEASE, 0, "lease"},
    {ZKL_BREAK_AHEAD, 0, "ahead"},
    {ZKL_BREAK_RECOVERY, 0, "recovery"},
    {ZKL_BREAK_PAIRING, 0, "pairing"},
    {ZKL_BREAK_CLEANUP, 0, "cleanup"},
    {ZKL_BREAK_OWNER, 0, "owner"},
    {ZKL_BREAK_WATCH, 0, "watch"},
    {ZKL_BREAK_REARM, 0, "rearm"},
    {ZKL_BREAK_TOKEN, 0, "token"},
    {ZKL_BREAK_LISTED, 0, "listed"},
    {ZKL_BREAK_RESTART, 0, "restart"},
    {ZKL_BREAK_TRY, 0, "try"},
    {ZKL_BREAK_LAPSE, 0, "lapse"},
    {ZKL_BREAK_ARRIVAL, UINT32_C(1) << FAULT_STALL, "arrival"},
    {ZKL_BREAK_READERS, 0, "readers"},
    {ZKL_BREAK_DOWNGRADE, 0, "downgrade"},
    {ZKL_BREAK_WRITER, UINT32_C(1) << FAULT_ADMIN_DELETE, "writer"},
    {ZKL_BREAK_PERMITS, 0, "permits"},
    {ZKL_BREAK_TURN, 0, "turn"},
    {ZKL_BREAK_LIMIT, 0, "limit"},
    {ZKL_BREAK_HOLD, 0, "hold"},
    {ZKL_BREAK_SHARE, 0, "share"},
    {ZKL_BREAK_RELEASED, 0, "released"},
    {ZKL_BREAK_LINGER, 0, "linger"},
    {ZKL_BREAK_HANDOFF, 0, "handoff"},
    {ZKL_BREAK_ALONE, UINT32_C(1) << FAULT_NAMES, "alone"},
    {ZKL_BREAK_FOLLOW, 0, "follow"},
    {ZKL_BREAK_REPEATED, 0, "repeated"},
    {ZKL_BREAK_LEFTOVERS, 0, "leftovers"},
    {ZKL_BREAK_FORESEE, 0, "foresee"},
    {ZKL_BREAK_IMPOSTOR, 0, "impostor"},
    {ZKL_BREAK_STRAYS, 0, "strays"},
    {ZKL_BREAK_SEARCH, 0, "search"},
    {ZKL_BREAK_ONCE, 0, "once"},
    {ZKL_BREAK_EVICTED, 0, "evicted"},
    {ZKL_BREAK_TOGETHER, 0, "together"},
    {ZKL_BREAK_OUTLIVED, UINT32_C(1) << FAULT_WIPE | UINT32_C(1) << FAULT_RESTORE, "outlived"},
    {ZKL_BREAK_AGE, UINT32_C(1) << FAULT_RESTORE_LIVE, "age"},
    {0, 0, NULL},
};

uint32_t forced_faults;

void break_rule(const broken_rule *rule)
{
    zkl_broken_rules = rule != NULL ? UINT64_C(1) << rule->rule : 0;
}

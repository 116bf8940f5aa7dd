/* rules: the names of the switches, each of which breaks one rule of the protocol. */
#include "schedule.h"

/* One rule a line, so that two branches that each add a rule change different lines. */
/* clang-format off */
const broken_rule broken_rules[] = {
    {ZKL_BREAK_LEASE, 0, "lease", false, 1},
    {ZKL_BREAK_AHEAD, 0, "ahead", false, 1},
    {ZKL_BREAK_RECOVERY, 0, "recovery", false, 231},
    {ZKL_BREAK_PAIRING, 0, "pairing", false, 34},
    {ZKL_BREAK_CLEANUP, 0, "cleanup", false, 49},
    {ZKL_BREAK_OWNER, 0, "owner", false, 400},
    {ZKL_BREAK_WATCH, 0, "watch", false, 415},
    {ZKL_BREAK_REARM, 0, "rearm", false, 1},
    {ZKL_BREAK_TOKEN, 0, "token", false, 1},
    {ZKL_BREAK_LISTED, 0, "listed", false, 172},
    {ZKL_BREAK_RESTART, 0, "restart", false, 1},
    {ZKL_BREAK_TRY, 0, "try", false, 1},
    {ZKL_BREAK_LAPSE, 0, "lapse", false, 1},
    {ZKL_BREAK_ARRIVAL, UINT32_C(1) << FAULT_STALL, "arrival", false, 874},
    {ZKL_BREAK_TWICE, 0, "twice", false, 202},
    {ZKL_BREAK_PINGED, UINT32_C(1) << FAULT_ONE_WAY, "pinged", true, 320},
    {ZKL_BREAK_REPORTED, UINT32_C(1) << FAULT_ONE_WAY, "reported", true, 1149},
    {ZKL_BREAK_REACHED, UINT32_C(1) << FAULT_ONE_WAY, "reached", true, 1149},
    {ZKL_BREAK_CHAIN, UINT32_C(1) << FAULT_ONE_WAY, "chain", true, 378},
    {ZKL_BREAK_ENDED, UINT32_C(1) << FAULT_ONE_WAY, "ended", true, 536},
    {ZKL_BREAK_THROTTLED, UINT32_C(1) << FAULT_THROTTLE | UINT32_C(1) << FAULT_ONE_WAY, "throttled", true, 909747},
    {ZKL_BREAK_LEAST, UINT32_C(1) << FAULT_RESET, "least", false, 51},
    {ZKL_BREAK_READERS, 0, "readers", false, 1},
    {ZKL_BREAK_DOWNGRADE, 0, "downgrade", false, 67},
    {ZKL_BREAK_WRITER, UINT32_C(1) << FAULT_ADMIN_DELETE, "writer", false, 51},
    {ZKL_BREAK_PERMITS, 0, "permits", false, 1},
    {ZKL_BREAK_TURN, 0, "turn", false, 1},
    {ZKL_BREAK_LIMIT, 0, "limit", false, 1},
    {ZKL_BREAK_HOLD, 0, "hold", false, 1},
    {ZKL_BREAK_SHARE, 0, "share", false, 1},
    {ZKL_BREAK_RELEASED, 0, "released", false, 35},
    {ZKL_BREAK_LINGER, 0, "linger", false, 1},
    {ZKL_BREAK_HANDOFF, 0, "handoff", false, 1},
    {ZKL_BREAK_ALONE, UINT32_C(1) << FAULT_FOREIGN_CRASH, "alone", false, 1895},
    {ZKL_BREAK_ADJACENT, UINT32_C(1) << FAULT_REAP, "adjacent", false, 258},
    {ZKL_BREAK_REPEATED, 0, "repeated", false, 43},
    {ZKL_BREAK_LEFTOVERS, 0, "leftovers", false, 417},
    {ZKL_BREAK_PREDICTED, 0, "predicted", false, 828},
    {ZKL_BREAK_BETWEEN, 0, "between", false, 34},
    {ZKL_BREAK_IMPOSTOR, UINT32_C(1) << FAULT_IMPOSTOR, "impostor", false, 511},
    {ZKL_BREAK_STRAYS, 0, "strays", false, 40},
    {ZKL_BREAK_SEARCH, 0, "search", false, 1193},
    {ZKL_BREAK_ONCE, 0, "once", false, 325},
    {ZKL_BREAK_EVICTED, 0, "evicted", false, 1},
    {ZKL_BREAK_TOGETHER, 0, "together", false, 5614},
    {ZKL_BREAK_GRANTS, 0, "grants", false, 99},
    {ZKL_BREAK_REFUSAL, 0, "refusal", false, 216},
    {ZKL_BREAK_UNREADABLE, 0, "unreadable", false, 1056},
    {ZKL_BREAK_OUTLIVED, UINT32_C(1) << FAULT_WIPE | UINT32_C(1) << FAULT_RESTORE, "outlived", false, 3960},
    {ZKL_BREAK_AGE, UINT32_C(1) << FAULT_RESTORE_LIVE, "age", false, 4843},
    {ZKL_BREAK_COUNTED, 0, "counted", false, 1228},
    {ZKL_BREAK_GATE, 0, "gate", false, 1},
    {ZKL_BREAK_OPENED, 0, "opened", false, 82},
    {ZKL_BREAK_UNCHECKED, 0, "unchecked", false, 3400},
    {ZKL_BREAK_GUARD, UINT32_C(1) << FAULT_ADMIN_DELETE, "guard", false, 720},
    {ZKL_BREAK_GUARDS, UINT32_C(1) << FAULT_ADMIN_DELETE | UINT32_C(1) << FAULT_RESET, "guards", false, 506800},
    {ZKL_BREAK_NEWEST, 0, "newest", false, 0},
    {ZKL_BREAK_PASS, 0, "pass", false, 1},
    {ZKL_BREAK_RESIZED, 0, "resized", false, 1},
    {ZKL_BREAK_RACE, UINT32_C(1) << FAULT_SERVER_SILENCE, "race", false, 1},
    {0, 0, NULL, false, 0},
};
/* clang-format on */

uint32_t forced_faults;
bool one_lock;
bool few_checks;
bool untraced;

void break_rule(const broken_rule *rule)
{
    zkl_broken_rules = rule != NULL ? UINT64_C(1) << rule->rule : 0;
}

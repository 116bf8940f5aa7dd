/*
 * rules: the names of the switches that break a rule of the protocol each.
 */
#include "schedule.h"

const broken_rule broken_rules[] = {
    {ZKL_BREAK_LEASE, "lease", 0},         {ZKL_BREAK_AHEAD, "ahead", 0},
    {ZKL_BREAK_RECOVERY, "recovery", 0},   {ZKL_BREAK_PAIRING, "pairing", 0},
    {ZKL_BREAK_CLEANUP, "cleanup", 0},     {ZKL_BREAK_OWNER, "owner", 0},
    {ZKL_BREAK_WATCH, "watch", 0},         {ZKL_BREAK_REARM, "rearm", 0},
    {ZKL_BREAK_TOKEN, "token", 0},         {ZKL_BREAK_LISTED, "listed", 0},
    {ZKL_BREAK_RESTART, "restart", 0},     {ZKL_BREAK_TRY, "try", 0},
    {ZKL_BREAK_LAPSE, "lapse", 0},         {ZKL_BREAK_ARRIVAL, "arrival", UINT32_C(1) << FAULT_STALL},
    {ZKL_BREAK_READERS, "readers", 0},     {ZKL_BREAK_DOWNGRADE, "downgrade", 0},
    {ZKL_BREAK_WRITER, "writer", 0},       {ZKL_BREAK_PERMITS, "permits", 0},
    {ZKL_BREAK_TURN, "turn", 0},           {ZKL_BREAK_LIMIT, "limit", 0},
    {ZKL_BREAK_HOLD, "hold", 0},           {ZKL_BREAK_SHARE, "share", 0},
    {ZKL_BREAK_RELEASED, "released", 0},   {ZKL_BREAK_LINGER, "linger", 0},
    {ZKL_BREAK_HANDOFF, "handoff", 0},     {ZKL_BREAK_ALONE, "alone", 0},
    {ZKL_BREAK_FOLLOW, "follow", 0},       {ZKL_BREAK_REPEATED, "repeated", 0},
    {ZKL_BREAK_LEFTOVERS, "leftovers", 0}, {ZKL_BREAK_FORESEE, "foresee", 0},
    {ZKL_BREAK_IMPOSTOR, "impostor", 0},   {ZKL_BREAK_STRAYS, "strays", 0},
    {ZKL_BREAK_SEARCH, "search", 0},       {ZKL_BREAK_ONCE, "once", 0},
    {ZKL_BREAK_EVICTED, "evicted", 0},     {0, NULL, 0},
};

uint32_t forced_faults;

void break_rule(const broken_rule *rule)
{
    zkl_broken_rules = rule != NULL ? UINT64_C(1) << rule->rule : 0;
}

/*
 * simulate: runs the lock engine against a simulated ZooKeeper, through many schedules.
 *
 *   simulate --seed N [--trace]      one schedule, with its trace on stdout if asked for
 *   simulate --seeds FROM COUNT      COUNT schedules
 *   simulate --seconds S [--seed N]  schedules from N (1) on, for S seconds
 *   simulate --fresh [--seconds S]   from a seed that was never used before, which is printed
 *   simulate --breaks [--limit N]    breaks each rule of zkl_broken_rule in turn: some check must notice within N schedules. The
 *                                    first schedule is the rule's own (rules.c), or that of --seed
 *   simulate --breaks RULE           the same with one rule
 *   simulate --like RULE ...         the schedules in which that rule is broken, without breaking it
 *   simulate --read-on ...           the same, but clients read packet after packet without a poll in between
 *   simulate --replay-check [COUNT]  runs seeds twice: the traces must be the same
 *   simulate --memory COUNT [POINTS] [--seed N]
 *                                    COUNT schedules, over and over: each time another allocation of the engines fails, or several
 *                                    from there on; at POINTS allocations of each schedule, at all without POINTS
 *   simulate --memory-fault SEED FIRST FAILURES [--trace]
 *                                    one of these
 *
 * For each schedule that fails, the program prints the check that failed and the command that replays the schedule. The last
 * line counts the schedules that passed and failed. The exit status is 1 if any failed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "schedule.h"

typedef enum {
    MODE_COUNT = 0,
    MODE_SECONDS,
    MODE_BREAKS,
    MODE_REPLAY,
    MODE_MEMORY,
    MODE_MEMORY_FAULT
} run_mode;

typedef struct {
    run_mode mode;
    uint64_t seed;
    int64_t count;
    double seconds;
    int64_t limit;
    int64_t points;          /* MODE_MEMORY: points of each schedule, 0 for all */
    int64_t first, failures; /* MODE_MEMORY_FAULT */
    bool trace;
    bool fresh;
    const char *rule; /* MODE_BREAKS: the only rule, NULL for all */
    const char *program;
} arguments;

/* Used for --seconds and --fresh only: nothing inside a schedule reads the real time. */
static double wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print_totals(double seconds)
{
    const sim_statistics *world = &totals.world;
    printf("schedules %" PRId64 ", steps %" PRId64 ", turns %" PRId64 " and %" PRId64
           " without a poll, %.1f s, %.0f schedules/s\n",
           totals.schedules, totals.steps, totals.turns, totals.read_on, seconds,
           seconds > 0 ? (double)totals.schedules / seconds : 0);
    printf("acquisitions %" PRId64 " (%" PRId64 " tries), grants %" PRId64 " (%" PRId64 " contended), losses %" PRId64
           " and %" PRId64 " found at a release, refused tries %" PRId64 " (%" PRId64
           " proved to write nothing), cancelled %" PRId64 "\n",
           totals.acquisitions, totals.tries, totals.grants, totals.contended_grants, totals.losses,
           totals.deleted_externally, totals.refused_tries, totals.checked_tries, totals.cancelled);
    printf("mutex %" PRId64 "/%" PRId64 ", read %" PRId64 "/%" PRId64 ", write %" PRId64 "/%" PRId64
           ", permits %" PRId64 "/%" PRId64 " (grants/acquisitions), downgrades %" PRId64 "/%" PRId64 ", sets %" PRId64
           "/%" PRId64 ", mismatches %" PRId64 ", held too long %" PRId64 ", asked to let go %" PRId64 "/%" PRId64 "\n",
           totals.grants_by_mode[0], totals.modes[0], totals.grants_by_mode[1], totals.modes[1],
           totals.grants_by_mode[2], totals.modes[2], totals.grants_by_mode[3], totals.modes[3], totals.handed_over,
           totals.downgrades, totals.whole_sets, totals.sets, totals.mismatches, totals.held_too_long, totals.told,
           totals.asked_to_let_go);
    printf("waits for latches %" PRId64 "/%" PRId64 ", count-downs %" PRId64 "/%" PRId64 " (grants/acquisitions)\n",
           totals.grants_by_mode[ZKL_MODE_LATCH], totals.modes[ZKL_MODE_LATCH], totals.grants_by_mode[ZKL_MODE_COUNT],
           totals.modes[ZKL_MODE_COUNT]);
    printf("by a node that was there %" PRId64 ", by one that lingered %" PRId64 ", by permits that were there %" PRId64
           ", beyond the bound %" PRId64 "\n",
           totals.shared, totals.lingered, totals.inherited, totals.beyond);
    printf("foreign grants %" PRId64 ", lists %" PRId64 ", clients killed %" PRId64 ", closed %" PRId64
           ", excused overlaps seen %" PRId64 ", events to those not next %" PRId64 ", quiet ends %" PRId64 "\n",
           totals.foreign_grants, totals.listings, totals.kills, totals.closes, totals.excused_overlaps,
           totals.wasted_wakes, totals.final_checks);
    printf("longest time without a connection while one server could be reached %" PRId64 " ms\n",
           totals.longest_reach / SIM_MILLISECOND);
    printf("engines: requests %" PRId64 ", heartbeats %" PRId64 ", notifications %" PRId64 ", passes %" PRId64
           ", unknown outcomes %" PRId64 ", connections %" PRId64 ", sessions %" PRId64 "\n",
           totals.engines.requests, totals.engines.heartbeats, totals.engines.notifications, totals.engines.passes,
           totals.engines.unknown_outcomes, totals.engines.connections, totals.engines.sessions);
    printf("world: transactions %" PRId64 ", lost requests %" PRId64 ", lost replies %" PRId64 ", expiries %" PRId64
           ", elections %" PRId64 ", forgotten proposals %" PRId64 ", sessions moved %" PRId64 "\n",
           world->transactions, world->lost_requests, world->lost_replies, world->expiries, world->elections,
           world->truncated, world->moved);
    printf("       failed sends %" PRId64 ", mismatched replies %" PRId64 ", failed names %" PRId64
           ", refused by stale servers %" PRId64 ", credentials refused %" PRId64
           ", reads from cut off servers %" PRId64 ", reaped %" PRId64 "\n",
           world->send_failures, world->inconsistencies, world->name_failures, world->stale_refusals, world->refusals,
           world->deposed_reads, world->reaped);
    printf("       replies lost of creates %" PRId64 ", of deletes %" PRId64 ", late creates %" PRId64
           ", strays %" PRId64 ", visits to them %" PRId64 ", turns without room for a watch %" PRId64 "\n",
           world->lost_creates, world->lost_deletes, world->late_creates, totals.strays, totals.visits,
           totals.over_watch_budget);
    printf("       wiped %" PRId64 ", restored %" PRId64 ", restored live %" PRId64 ", nodes there again %" PRId64
           ", misled by numbers %" PRId64 "\n",
           world->wiped, world->restored, world->restored_live, world->revived, totals.misled);
    printf("faults:");
    for (int i = 0; i < FAULT_KINDS; i++)
        printf("%s %s %" PRId64, i > 0 ? "," : "", fault_names[i], totals.faults[i]);
    printf("\n");
}

static bool run_one(const arguments *args, uint64_t seed)
{
    if (run_schedule(seed, args->trace))
        return true;
    printf("seed %" PRIu64 " FAILED, check '%s': %s\n  replay: %s%s --seed %" PRIu64 " --trace\n", seed, run.check,
           run.problem, args->program, reads_on ? " --read-on" : "", seed);
    fflush(stdout);
    return false;
}

static int finish(int64_t passed, int64_t failed)
{
    printf("%" PRId64 " passed, %" PRId64 " failed\n", passed, failed);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_many(const arguments *args)
{
    double started = wall_clock();
    int64_t passed = 0, failed = 0;
    uint64_t seed = args->seed;
    for (int64_t i = 0;; i++, seed++) {
        if (args->mode == MODE_COUNT ? i >= args->count : wall_clock() - started >= args->seconds)
            break;
        if (run_one(args, seed))
            passed++;
        else
            failed++;
        if (failed >= 20) {
            printf("stopped after %" PRId64 " failures\n", failed);
            break;
        }
    }
    print_totals(wall_clock() - started);
    return finish(passed, failed);
}

static int run_replays(const arguments *args)
{
    int64_t passed = 0, failed = 0;
    for (int64_t i = 0; i < args->count; i++) {
        uint64_t seed = args->seed + (uint64_t)i;
        run_schedule(seed, false);
        uint64_t first = sim_trace_hash();
        run_schedule(seed, false);
        uint64_t second = sim_trace_hash();
        if (first == second) {
            passed++;
            continue;
        }
        failed++;
        printf("seed %" PRIu64 " FAILED, its trace differs: %016" PRIx64 " and %016" PRIx64 "\n", seed, first, second);
    }
    return finish(passed, failed);
}

/*
 * Runs one schedule in which `failures` allocations fail. Returns the number of all allocations, -1 if the schedule
 * failed.
 */
static int64_t run_memory_fault(const arguments *args, uint64_t seed, int64_t first, int64_t failures)
{
    int64_t attempts;
    if (run_short_of_memory(seed, args->trace, first, failures, &attempts))
        return attempts;
    printf("seed %" PRIu64 " FAILED, check '%s': %s\n  replay: %s --memory-fault %" PRIu64 " %" PRId64 " %" PRId64
           " --trace\n",
           seed, run.check, run.problem, args->program, seed, first, failures);
    fflush(stdout);
    return -1;
}

/*
 * An error may need several failures in a row, or a single one. So each point begins a number of failures: one of these
 * lengths in turn, most often 1. The points are spread over the allocations that the schedule makes when none fails.
 */
static int run_memory(const arguments *args)
{
    static const int64_t lengths[] = {1, 1, 1, 5, 40, 400};
    double started = wall_clock();
    int64_t passed = 0, failed = 0, most = 0;
    for (int64_t i = 0; i < args->count && failed < 20; i++) {
        uint64_t seed = args->seed + (uint64_t)i;
        int64_t attempts = run_memory_fault(args, seed, INT64_MAX, 0);
        most += attempts;
        int64_t points = args->points > 0 && args->points < attempts ? args->points : attempts;
        for (int64_t point = 0; point < points && failed < 20; point++) {
            /* If not all points are used, each schedule uses others. */
            int64_t first = (point * attempts + i * 7919 % attempts) / points;
            int64_t failures = lengths[(point + i) % (int64_t)(sizeof lengths / sizeof *lengths)];
            if (run_memory_fault(args, seed, first, failures) >= 0)
                passed++;
            else
                failed++;
        }
    }
    printf("%" PRId64 " schedules with %" PRId64 " allocations; refused for want of memory %" PRId64
           " acquisitions, in %" PRId64 " runs\n",
           args->count, most, totals.refused_for_memory, passed + failed);
    print_totals(wall_clock() - started);
    return finish(passed, failed);
}

/* Sets the faults that must happen for a broken rule to be noticed. */
static void set_stage(const broken_rule *rule)
{
    forced_faults = rule != NULL ? rule->fault_mask : 0;
    one_lock = rule != NULL && rule->one_lock;
    few_checks = rule != NULL && (rule->rule == ZKL_BREAK_GUARD || rule->rule == ZKL_BREAK_GUARDS);
}

static bool set_stage_for(const char *name)
{
    for (const broken_rule *each = broken_rules; each->name != NULL; each++) {
        if (strcmp(each->name, name) == 0) {
            set_stage(each);
            return true;
        }
    }
    return false;
}

static int run_breaks(const arguments *args)
{
    int64_t passed = 0, failed = 0;
    char check[sizeof(run.check)], problem[sizeof(run.problem)];
    for (const broken_rule *each = broken_rules; each->name != NULL; each++) {
        if (args->rule != NULL && strcmp(args->rule, each->name) != 0)
            continue;
        if (each->seed == 0) {
            printf("rule %-9s is left to scenes.c\n", each->name);
            continue;
        }
        break_rule(each);
        set_stage(each);
        int64_t ran = 0;
        bool noticed = false;
        while (!noticed && ran < args->limit) {
            uint64_t seed = (args->seed != 0 ? args->seed : each->seed) + (uint64_t)ran++;
            if (run_schedule(seed, false))
                continue;
            /* The same schedule must pass when nothing is broken. Otherwise the broken rule is not the cause. */
            snprintf(check, sizeof(check), "%s", run.check);
            snprintf(problem, sizeof(problem), "%s", run.problem);
            break_rule(NULL);
            noticed = run_schedule(seed, false);
            break_rule(each);
        }
        if (noticed) {
            passed++;
            printf("rule %-9s noticed after %4" PRId64 " schedules by '%s': %s\n", each->name, ran, check, problem);
        } else {
            failed++;
            printf("rule %-9s NOT noticed within %" PRId64 " schedules\n", each->name, ran);
        }
        fflush(stdout);
    }
    break_rule(NULL);
    set_stage(NULL);
    return finish(passed, failed);
}

static void usage(void)
{
    fputs("usage: simulate --seed N [--trace] | --seeds FROM COUNT | --seconds S [--seed N] | --fresh [--seconds S]\n"
          "                | --breaks [RULE] [--limit N] | --like RULE ... | --read-on ... | --replay-check [COUNT]\n"
          "                | --memory COUNT [POINTS] [--seed N] | --memory-fault SEED FIRST FAILURES [--trace]\n",
          stderr);
    exit(2);
}

static arguments parse(int argc, char **argv)
{
    arguments args = {.mode = MODE_COUNT, .count = 1, .limit = 10000, .program = argv[0]};
    if (argc < 2)
        usage();
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc && argv[i + 1][0] != '-' ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--trace") == 0) {
            args.trace = true;
        } else if (strcmp(argv[i], "--breaks") == 0) {
            args.mode = MODE_BREAKS;
            if (next != NULL)
                args.rule = argv[++i];
        } else if (strcmp(argv[i], "--fresh") == 0) {
            args.fresh = true;
        } else if (strcmp(argv[i], "--replay-check") == 0) {
            args.mode = MODE_REPLAY;
            args.count = 50;
            if (next != NULL)
                args.count = strtoll(argv[++i], NULL, 10);
        } else if (next != NULL && strcmp(argv[i], "--like") == 0) {
            if (!set_stage_for(argv[++i]))
                usage();
        } else if (strcmp(argv[i], "--read-on") == 0) {
            reads_on = true;
        } else if (next != NULL && strcmp(argv[i], "--seed") == 0) {
            args.seed = strtoull(argv[++i], NULL, 10);
        } else if (next != NULL && strcmp(argv[i], "--limit") == 0) {
            args.limit = strtoll(argv[++i], NULL, 10);
        } else if (next != NULL && strcmp(argv[i], "--seconds") == 0) {
            args.mode = MODE_SECONDS;
            args.seconds = strtod(argv[++i], NULL);
        } else if (next != NULL && strcmp(argv[i], "--seeds") == 0 && i + 2 < argc) {
            args.seed = strtoull(argv[++i], NULL, 10);
            args.count = strtoll(argv[++i], NULL, 10);
        } else if (next != NULL && strcmp(argv[i], "--memory") == 0) {
            args.mode = MODE_MEMORY;
            args.count = strtoll(argv[++i], NULL, 10);
            if (i + 1 < argc && argv[i + 1][0] != '-')
                args.points = strtoll(argv[++i], NULL, 10);
        } else if (next != NULL && strcmp(argv[i], "--memory-fault") == 0 && i + 3 < argc) {
            args.mode = MODE_MEMORY_FAULT;
            args.seed = strtoull(argv[++i], NULL, 10);
            args.first = strtoll(argv[++i], NULL, 10);
            args.failures = strtoll(argv[++i], NULL, 10);
        } else {
            usage();
        }
    }
    if (args.seed == 0 && args.mode != MODE_BREAKS)
        args.seed = 1;
    if (args.fresh) {
        if (getrandom(&args.seed, sizeof(args.seed), 0) != (ssize_t)sizeof(args.seed))
            args.seed = (uint64_t)time(NULL);
        args.seed >>= 16;
        printf("seeds from %" PRIu64 "\n", args.seed);
        if (args.mode == MODE_COUNT) {
            args.mode = MODE_SECONDS;
            args.seconds = 10;
        }
    }
    return args;
}

int main(int argc, char **argv)
{
    arguments args = parse(argc, argv);
    untraced = args.mode != MODE_REPLAY;
    switch (args.mode) {
    case MODE_BREAKS:
        return run_breaks(&args);
    case MODE_REPLAY:
        return run_replays(&args);
    case MODE_MEMORY:
        return run_memory(&args);
    case MODE_MEMORY_FAULT:
        return run_memory_fault(&args, args.seed, args.first, args.failures) >= 0 ? finish(1, 0) : finish(0, 1);
    case MODE_COUNT:
    case MODE_SECONDS:
        break;
    }
    return run_many(&args);
}

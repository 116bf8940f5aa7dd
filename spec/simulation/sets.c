/*
 * sets: several locks of any kinds that are acquired together, as a multi does it: in the order of their paths, each
 * after the previous one is granted. All are released when one of them is refused or lost. Whatever order the program
 * names them in, no two sets wait for each other for ever.
 */
#include <stdlib.h>

#include "schedule.h"

static void go_on(void *context, int64_t argument);

/* Continues soon, outside of the engine's callback: the engine must not be called inside it. */
void set_changed(lock_set *set)
{
    if (!set->over)
        sim_schedule(sim_now() + 1 + sim_below(run.options.delay), go_on, set, 0);
}

static bool still_wanted(const acquisition_record *record)
{
    return record->acquisition != NULL && !record->ended &&
           (record->phase == ZKL_ACQUISITION_WAITING || record->phase == ZKL_ACQUISITION_GRANTED);
}

static void give_up(lock_set *set)
{
    set->over = true;
    for (int i = set->made - 1; i >= 0; i--) {
        if (still_wanted(set->acquisitions[i]))
            end_acquisition(set->acquisitions[i]);
    }
}

static void give_back(void *context, int64_t argument)
{
    lock_set *set = context;
    client *of = &run.clients[set->client];
    if (run.failed || set->over)
        return;
    if (of->paused_until > sim_now())
        sim_schedule(of->paused_until + sim_below(run.timeout / 10), give_back, set, argument);
    else
        give_up(set);
}

static void take_next(lock_set *set)
{
    if (run.clients[set->client].closing)
        return;
    acquisition_record *record = new_record(&run.clients[set->client], set->paths[set->made]);
    record->set = set;
    set->acquisitions[set->made++] = record;
    submit_acquisition(record);
}

static void go_on(void *context, int64_t argument)
{
    lock_set *set = context;
    const client *of = &run.clients[set->client];
    if (run.failed || set->over)
        return;
    if (of->paused_until > sim_now()) {
        sim_schedule(of->paused_until + sim_below(run.timeout / 10), go_on, set, argument);
        return;
    }
    for (int i = 0; i < set->made; i++) {
        if (!still_wanted(set->acquisitions[i])) {
            give_up(set);
            return;
        }
    }
    if (set->made > 0 && set->acquisitions[set->made - 1]->phase != ZKL_ACQUISITION_GRANTED)
        return;
    if (set->made < set->count) {
        take_next(set);
    } else if (!set->holding) {
        set->holding = true;
        totals.whole_sets++;
        sim_schedule(sim_now() + sim_below(run.timeout / 2), give_back, set, 0);
    }
}

void make_set(client *of)
{
    if (run.path_count < 2 || run.few_watches)
        return;
    lock_set *set = calloc(1, sizeof(*set));
    if (set == NULL)
        abort();
    set->next = run.sets;
    run.sets = set;
    set->client = of->index;
    int wanted = 2 + (int)sim_below(2);
    for (int path = 0; path < run.path_count && set->count < wanted; path++) {
        int left = run.path_count - path;
        if (sim_below(left) < wanted - set->count)
            set->paths[set->count++] = path;
    }
    totals.sets++;
    take_next(set);
}

void free_sets(void)
{
    while (run.sets != NULL) {
        lock_set *next = run.sets->next;
        free(run.sets);
        run.sets = next;
    }
}

/*
 * latches: the countdown latches of a run, and what must hold of them.
 *
 *   counted   A count-down counts exactly once: it is granted if it has counted, or if the latch was open. No node shows a
 *             count-down twice, and no more have counted than the latch's count. The data of a latch say how many are left.
 *   latch     A wait is granted only if the latch was open after it began: as many distinct count-downs had counted as its
 *             count. After a deletion this may be on a server that lags. A wait that asks once is refused only if the latch was
 *             not open before, on all servers.
 *   gate      A latch that is open has no gate. One that is not has the gate that its data say, unless that was deleted.
 *             Then nobody counts any more.
 *
 * After the faults have ended, clients count down until each latch for which an acquisition waits is open. Then all waits are
 * granted ("forgotten" in checks.c), and nothing is left but the count-downs, the directory, and the gate of a latch that is
 * not open.
 *
 * A latch that is open stays open. So clients go on to another path when none of them waits for it any more.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule.h"

#define MOST_COUNTS 4

bool is_latch(int path)
{
    return path >= run.path_count && path < run.path_count + run.latch_count;
}

static latch_state *state_of(int path)
{
    return &run.latches[path - run.path_count];
}

static void directory_of(int path, char *out)
{
    /* Not snprintf: the checks after each step ask for it, and would spend a tenth of all time there. */
    size_t length = strlen(run.prefix), rest = strlen(run.paths[path]) + 1;
    assert(length + rest <= MAX_DIRECTORY);
    memcpy(out, run.prefix, length);
    memcpy(out + length, run.paths[path], rest);
}

/* Returns the latch that is at a path, or has it as a child, and stores the child's name, "" if there is none. -1: none. */
static int latch_at(const char *server_path, const char **name)
{
    for (int path = run.path_count; path < run.path_count + run.latch_count; path++) {
        char directory[MAX_DIRECTORY];
        directory_of(path, directory);
        size_t length = strlen(directory);
        if (strncmp(server_path, directory, length) != 0 || (server_path[length] != '\0' && server_path[length] != '/'))
            continue;
        *name = server_path + length + (server_path[length] == '/');
        return path;
    }
    return -1;
}

bool is_of_latch(const char *server_path)
{
    const char *name;
    return latch_at(server_path, &name) >= 0;
}

static bool is_count_down(const char *name)
{
    return name[0] == 'c';
}

/* Returns how many count-downs have counted. */
static int32_t counted(int path)
{
    char directory[MAX_DIRECTORY];
    directory_of(path, directory);
    int32_t count = 0;
    int children = sim_child_count(directory);
    for (int i = 0; i < children; i++)
        count += is_count_down(sim_child(directory, i));
    return count;
}

/* Stores what the data of the latch say. Returns false if there are none. */
static bool written(int path, int32_t *left, int32_t *count)
{
    char directory[MAX_DIRECTORY], text[32], *end;
    directory_of(path, directory);
    int length;
    const char *data = sim_data(directory, &length);
    if (data == NULL || length <= 0)
        return false;
    size_t size = (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    *left = (int32_t)strtol(text, &end, 10);
    *count = *end == '/' ? (int32_t)strtol(end + 1, NULL, 10) : -1;
    return true;
}

static int32_t count_of(int path)
{
    int32_t left, count;
    return written(path, &left, &count) ? count : state_of(path)->count;
}

static bool is_open(int path)
{
    return counted(path) >= count_of(path);
}

/* Returns the gate's name that the data of the latch say, or "". */
static const char *gate_of(int path, char *out, size_t size)
{
    char directory[MAX_DIRECTORY], text[80];
    directory_of(path, directory);
    int length;
    const char *data = sim_data(directory, &length);
    snprintf(text, sizeof(text), "%.*s", data != NULL && length > 0 ? length : 0, data != NULL ? data : "");
    const char *name = strchr(text, ' ');
    snprintf(out, size, "%s", name != NULL ? name + 1 : "");
    return out;
}

/* Returns how many gates a latch has. */
static int32_t gates(int path)
{
    char directory[MAX_DIRECTORY];
    directory_of(path, directory);
    int32_t count = 0;
    int children = sim_child_count(directory);
    for (int i = 0; i < children; i++)
        count += !is_count_down(sim_child(directory, i));
    return count;
}

/* Returns whether the latch has the gate that its data say. */
static bool has_gate(int path)
{
    char directory[MAX_DIRECTORY], name[64], gate[MAX_DIRECTORY + 64];
    directory_of(path, directory);
    gate_of(path, name, sizeof(name));
    snprintf(gate, sizeof(gate), "%s/%s", directory, name);
    return name[0] != '\0' && sim_exists(gate);
}

/* ---- what happens to a latch's nodes ---- */

static acquisition_record *count_down_of(int path, const char *node)
{
    int length, owner, number = 0;
    const char *data = sim_data(node, &length);
    char text[32];
    snprintf(text, sizeof(text), "%.*s", length > 0 ? length : 0, data != NULL ? data : "");
    if (sscanf(text, "client-%d/%d", &owner, &number) != 2) /* NOLINT(cert-err34-c) */
        number = 0;
    acquisition_record *record = run.acquisitions;
    while (record != NULL && record->number != number)
        record = record->next;
    return record != NULL && record->path == path && record->mode == ZKL_MODE_COUNT ? record : NULL;
}

/* Returns how many nodes show that the acquisition has counted. */
static int times_counted(const acquisition_record *record)
{
    char directory[MAX_DIRECTORY], node[160];
    directory_of(record->path, directory);
    int times = 0, children = sim_child_count(directory);
    for (int i = 0; i < children; i++) {
        snprintf(node, sizeof(node), "%s/%s", directory, sim_child(directory, i));
        times += is_count_down(sim_child(directory, i)) && count_down_of(record->path, node) == record;
    }
    return times;
}

void note_latch_created(const char *server_path)
{
    const char *name;
    int path = latch_at(server_path, &name);
    if (path >= 0)
        state_of(path)->replaced = state_of(path)->replaced || sim_replacing();
    if (path < 0 || !is_count_down(name)) {
        if (path >= 0 && name[0] != '\0')
            state_of(path)->broken = false; /* a new gate */
        return;
    }
    acquisition_record *record = count_down_of(path, server_path);
    if (record == NULL) {
        fail("counted", "%s has counted, and no count-down has asked for it", server_path);
        return;
    }
    if (record->counted && !state_of(path)->replaced && state_of(path)->gone_at >= record->asked_at &&
        record->asked_at > 0)
        fail("counted", "acquisition %d of client %d has counted before the latch was deleted, and again by %s",
             record->number, record->client, server_path);
    record->counted = true;
    if (times_counted(record) > 1)
        fail("counted", "acquisition %d of client %d has counted twice, the second time by %s", record->number,
             record->client, server_path);
    if (is_open(path))
        state_of(path)->open_at = sim_now();
    else if (!has_gate(path) && !state_of(path)->replaced)
        fail("gate", "acquisition %d of client %d has counted by %s, behind a gate that is gone", record->number,
             record->client, server_path);
}

void note_latch_deleted(const char *server_path)
{
    const char *name;
    int path = latch_at(server_path, &name);
    if (path < 0)
        return;
    state_of(path)->replaced = state_of(path)->replaced || sim_replacing();
    if (name[0] == '\0') {
        state_of(path)->gone_at = sim_now();
        state_of(path)->broken = false;
        if (state_of(path)->ends_open)
            state_of(path)->open_at = sim_now();
        state_of(path)->ends_open = false;
    } else if (!is_count_down(name) && !is_open(path)) {
        state_of(path)->gone_at = sim_now();
        state_of(path)->broken = true;
    } else if (is_count_down(name) && counted(path) + 1 >= count_of(path))
        state_of(path)->open_at = sim_now();
}

/* ---- checks ---- */

void check_latches(void)
{
    for (int path = run.path_count; path < run.path_count + run.latch_count; path++) {
        char directory[MAX_DIRECTORY];
        directory_of(path, directory);
        if (sim_is_outdated_somewhere(directory, state_of(path)->replaced))
            state_of(path)->outdated_at = sim_now();
        int32_t left, count, done = counted(path);
        bool says = written(path, &left, &count), open = is_open(path);
        if (open)
            state_of(path)->open_at = sim_now();
        if (state_of(path)->broken)
            continue;
        if (says ? left + done != count : done > 0)
            fail("counted", "%d have counted at %s, which says %d of %d are left", (int)done, run.paths[path],
                 says ? (int)left : -1, says ? (int)count : -1);
        bool whole = says && !open;
        if (whole && state_of(path)->replaced && gates(path) == 0)
            state_of(path)->broken = true; /* restored as it was after its gate had been deleted */
        else if (gates(path) != (whole ? 1 : 0) || (whole && !has_gate(path)))
            fail("gate", "%s is %s, and has %d gates", run.paths[path], open ? "open" : "not open", (int)gates(path));
    }
}

/* Returns whether the acquisition may have read a latch that was deleted: from a server that lagged. */
static bool may_be_outdated(const acquisition_record *record)
{
    return state_of(record->path)->outdated_at >= record->asked_at && record->asked_at > 0;
}

/* Returns whether the latch was open at an instant since the acquisition began, or on a server that lagged. */
static bool was_open(const acquisition_record *record)
{
    const latch_state *state = state_of(record->path);
    int32_t left, count;
    bool says_open = state->broken && written(record->path, &left, &count) && left == 0; /* while it is being deleted */
    return is_open(record->path) || says_open || (state->open_at >= record->asked_at && record->asked_at > 0) ||
           (state->open_at > 0 && may_be_outdated(record));
}

void check_latch_granted(const acquisition_record *record)
{
    bool open = was_open(record);
    if (record->mode == ZKL_MODE_LATCH && !open)
        fail("latch", "acquisition %d of client %d need not wait for %s any more, and %d of %d have counted",
             record->number, record->client, run.paths[record->path], (int)counted(record->path),
             (int)count_of(record->path));
    if (record->mode == ZKL_MODE_COUNT && !open && !record->counted)
        fail("counted", "acquisition %d of client %d is said to have counted, and has not", record->number,
             record->client);
    if (count_of(record->path) != record->limit && state_of(record->path)->gone_at < record->asked_at &&
        !may_be_outdated(record))
        fail("latch", "acquisition %d of client %d meant a count of %d, and %s has %d", record->number, record->client,
             (int)record->limit, run.paths[record->path], (int)count_of(record->path));
}

bool latch_refusal_explained(const acquisition_record *record, zkl_code code)
{
    bool gone = state_of(record->path)->gone_at >= record->asked_at || may_be_outdated(record);
    if (code == ZKL_MISMATCH)
        totals.mismatches++;
    return code == ZKL_MISMATCH
               ? gone || (run.mismatch && count_of(record->path) != record->limit)
               : code == ZKL_NO_NODE && (gone || state_of(record->path)->broken || state_of(record->path)->replaced);
}

void check_latch_try(const acquisition_record *record, zkl_code code)
{
    if (code != ZKL_TIMEOUT)
        return;
    totals.refused_tries++;
    totals.checked_tries += record->open_when_asked;
    if (record->open_when_asked && is_open(record->path))
        fail("latch", "acquisition %d of client %d found %s not open, which it was", record->number, record->client,
             run.paths[record->path]);
}

/* Remembers whether the latch is open on all servers. */
void note_latch_asked(acquisition_record *record)
{
    char directory[MAX_DIRECTORY], node[160];
    directory_of(record->path, directory);
    record->open_when_asked = record->try_only && is_open(record->path);
    int children = sim_child_count(directory);
    for (int i = 0; i < children; i++) {
        snprintf(node, sizeof(node), "%s/%s", directory, sim_child(directory, i));
        record->open_when_asked = record->open_when_asked && sim_exists_everywhere(node);
    }
}

uint64_t hash_latches(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < run.latch_count; i++) {
        /* While it is open, the instant at which it was last open is the present one. */
        uint64_t open = is_open(run.path_count + i) ? 1 : (uint64_t)(run.latches[i].open_at / SIM_MILLISECOND);
        uint64_t outdated = (uint64_t)(run.latches[i].outdated_at / SIM_MILLISECOND);
        uint64_t ends_open = (uint64_t)run.latches[i].ends_open << 63;
        sum += sim_mix((uint64_t)i,
                       open ^ (uint64_t)(run.latches[i].gone_at / SIM_MILLISECOND) << 32 ^ outdated << 16 ^ ends_open);
    }
    return sum;
}

/* ---- what there is, and what clients do ---- */

/*
 * Every third seed has latches. The seed decides it without drawing, so that the others draw what they drew before there were
 * latches. These include the rare seeds of rules.c, by the choice of the constant.
 */
void choose_latches(void)
{
    uint64_t bits = sim_mix(run.seed, 46);
    if (bits % 3 != 0 || one_lock)
        return;
    run.latch_count = 1 + (int)(bits >> 8 & 1);
    for (int i = 0; i < run.latch_count; i++) {
        run.latches[i].count = 1 + (int32_t)((bits >> (16 + 8 * i)) % MOST_COUNTS);
        snprintf(run.paths[run.path_count + i], sizeof(run.paths[0]), "/latches/l%d/0", i);
    }
}

bool delete_latch(void)
{
    int path = run.path_count + (int)sim_below(run.latch_count);
    char directory[MAX_DIRECTORY], node[160];
    directory_of(path, directory);
    bool whole = sim_chance(1, 2);
    if (!sim_exists(directory) || (!whole && !has_gate(path)))
        return false;
    sim_trace("fault: an administrator deletes %s %s", whole ? "the latch" : "the gate of", directory);
    for (int i = sim_child_count(directory) - 1; i >= 0; i--) {
        snprintf(node, sizeof(node), "%s/%s", directory, sim_child(directory, i));
        if (whole || !is_count_down(sim_child(directory, i)))
            sim_foreign_delete(0, node);
    }
    if (whole) {
        int32_t left, count;
        state_of(path)->ends_open = written(path, &left, &count) && left == 0;
        sim_foreign_delete(0, directory);
        state_of(path)->gone_at = sim_now();
        state_of(path)->broken = true; /* until the last of these is executed, which may be never */
    }
    return true;
}

void describe_latch_record(acquisition_record *record)
{
    record->mode = sim_chance(1, 3) ? ZKL_MODE_LATCH : ZKL_MODE_COUNT;
    record->limit = state_of(record->path)->count;
    if (run.mismatch && sim_chance(1, 12))
        record->limit = 1 + (int32_t)sim_below(MOST_COUNTS);
    record->count = 1;
    record->max_hold = record->linger = 0;
    record->revocable = false;
    snprintf(record->identity, sizeof(record->identity), "client-%d/%d", record->client, record->number);
}

static bool has_waits(int path, zkl_mode mode)
{
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->path == path && each->mode == mode && each->acquisition != NULL &&
            each->phase == ZKL_ACQUISITION_WAITING && client_ready(&run.clients[each->client]))
            return true;
    }
    return false;
}

/* Another latch takes the place of one that is open, and for which no acquisition waits. */
static void replace_latch(int path)
{
    for (const acquisition_record *each = run.acquisitions; each != NULL; each = each->next) {
        if (each->path == path && each->acquisition != NULL && each->phase == ZKL_ACQUISITION_WAITING)
            return;
    }
    latch_state *state = state_of(path);
    int round = state->round + 1;
    *state = (latch_state){.count = 1 + (int32_t)sim_below(MOST_COUNTS), .round = round};
    snprintf(run.paths[path], sizeof(run.paths[0]), "/latches/l%d/%d", path - run.path_count, round);
}

void use_latch(client *of)
{
    int path = run.path_count + (int)sim_below(run.latch_count);
    if ((is_open(path) || state_of(path)->broken) && sim_chance(1, 2))
        replace_latch(path);
    acquisition_record *record = new_record(of, path);
    record->try_only = record->mode == ZKL_MODE_LATCH && sim_chance(1, 5);
    submit_acquisition(record);
}

void finish_latches(void)
{
    for (int path = run.path_count; path < run.path_count + run.latch_count; path++) {
        client *by = NULL;
        for (int i = 0; i < run.client_count && by == NULL; i++) {
            client *of = &run.clients[i];
            by = client_ready(of) && !of->closing && of->state == ZKL_STATE_CONNECTED ? of : NULL;
        }
        if (by == NULL || run.failed || is_open(path) || !has_waits(path, ZKL_MODE_LATCH) ||
            has_waits(path, ZKL_MODE_COUNT))
            continue;
        acquisition_record *record = new_record(by, path);
        record->mode = ZKL_MODE_COUNT;
        record->limit = count_of(path);
        submit_acquisition(record);
    }
}

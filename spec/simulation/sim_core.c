/*
 * sim_core: the simulated world's clock, its queue of events, its random numbers, its memory and its trace.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"
#include "versions.h"

sim_state sim;

typedef struct {
    int64_t at;
    uint64_t order;
    sim_event_fn run;
    void *context;
    int64_t argument;
} event;

/*
 * A binary heap ordered by (at, order). It is kept between worlds, like the chunks of memory, because beginning worlds
 * takes most of a run's time.
 */
static event *events;
static size_t event_count, event_capacity;
static uint64_t event_order;

static uint64_t generator[4];
static uint64_t trace_hash;

#define CHUNK_SIZE ((size_t)256 * 1024)
typedef struct chunk {
    struct chunk *next;
    _Alignas(16) unsigned char bytes[CHUNK_SIZE];
} chunk;
static chunk *chunks, *spare_chunks;
static size_t chunk_used;
static void **large;
static size_t large_count, large_capacity;

typedef struct {
    const char *text;
    int parent;
    uint32_t hash;
    uint64_t long_hash;
} path_entry;
static path_entry *paths;
static int path_count, path_capacity;
/*
 * A hash table of the paths' texts. It contains indexes + 1, and 0 in empty slots. It stays as large as any world has
 * needed it.
 */
static int *path_slots;
static uint32_t slot_count;

static void *must(void *memory)
{
    if (memory == NULL) {
        fputs("simulation: out of memory\n", stderr);
        abort();
    }
    return memory;
}

/* ---- memory ---- */

void *sim_alloc(size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size > CHUNK_SIZE) {
        if (large_count == large_capacity) {
            large_capacity = large_capacity ? large_capacity * 2 : 16;
            large = must(realloc(large, large_capacity * sizeof(*large)));
        }
        return large[large_count++] = must(calloc(1, size));
    }
    if (chunks == NULL || chunk_used + size > CHUNK_SIZE) {
        chunk *fresh = spare_chunks;
        if (fresh != NULL)
            spare_chunks = fresh->next;
        else
            fresh = must(malloc(sizeof(*fresh)));
        fresh->next = chunks;
        chunks = fresh;
        chunk_used = 0;
    }
    void *memory = chunks->bytes + chunk_used;
    chunk_used += size;
    return memset(memory, 0, size);
}

char *sim_copy(const char *text, size_t length)
{
    char *copy = sim_alloc(length + 1);
    if (length > 0)
        memcpy(copy, text, length);
    return copy;
}

static void release_memory(void)
{
    while (chunks != NULL) {
        chunk *next = chunks->next;
        chunks->next = spare_chunks;
        spare_chunks = chunks;
        chunks = next;
    }
    chunk_used = 0;
    while (large_count > 0)
        free(large[--large_count]);
}

/* ---- random numbers: xoshiro256**, seeded by splitmix64 (Blackman and Vigna) ---- */

static uint64_t rotate(uint64_t value, int by)
{
    return (value << by) | (value >> (64 - by));
}

static void seed_generator(uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t mixed = seed;
        mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
        generator[i] = mixed ^ (mixed >> 31);
    }
}

uint64_t sim_random(void)
{
    uint64_t result = rotate(generator[1] * 5, 7) * 9;
    uint64_t shifted = generator[1] << 17;
    generator[2] ^= generator[0];
    generator[3] ^= generator[1];
    generator[1] ^= generator[2];
    generator[0] ^= generator[3];
    generator[2] ^= shifted;
    generator[3] = rotate(generator[3], 45);
    return result;
}

int64_t sim_below(int64_t bound)
{
    assert(bound > 0);
    if (sim.options.by_hand)
        return 0;
    return (int64_t)(sim_random() % (uint64_t)bound);
}

bool sim_chance(int64_t numerator, int64_t denominator)
{
    return !sim.options.by_hand && sim_below(denominator) < numerator;
}

int64_t sim_delay(void)
{
    if (sim.options.by_hand)
        return 0;
    int64_t usual = sim.options.delay;
    if (sim.options.even)
        return usual;
    int64_t delay = usual / 2 + sim_below(usual + 1);
    if (sim_chance(1, 40))
        delay += sim_below(usual * 30 + 1);
    return delay;
}

/* ---- events ---- */

int64_t sim_now(void)
{
    return sim.now;
}

int64_t sim_clock(void)
{
    return sim.options.by_hand ? sim.now - sim.now % SIM_MILLISECOND : sim.now;
}

static bool sooner(const event *one, const event *other)
{
    return one->at < other->at || (one->at == other->at && one->order < other->order);
}

void sim_schedule(int64_t at, sim_event_fn run, void *context, int64_t argument)
{
    if (event_count == event_capacity) {
        event_capacity = event_capacity ? event_capacity * 2 : 256;
        events = must(realloc(events, event_capacity * sizeof(*events)));
    }
    event fresh = {at < sim.now ? sim.now : at, event_order++, run, context, argument};
    size_t place = event_count++;
    while (place > 0 && sooner(&fresh, &events[(place - 1) / 2])) {
        events[place] = events[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    events[place] = fresh;
}

bool sim_step(void)
{
    if (event_count == 0)
        return false;
    event first = events[0];
    event last = events[--event_count];
    size_t place = 0;
    for (;;) {
        size_t child = place * 2 + 1;
        if (child >= event_count)
            break;
        if (child + 1 < event_count && sooner(&events[child + 1], &events[child]))
            child++;
        if (!sooner(&events[child], &last))
            break;
        events[place] = events[child];
        place = child;
    }
    if (event_count > 0)
        events[place] = last;
    sim.now = first.at;
    sim.statistics.events++;
    first.run(first.context, first.argument);
    return true;
}

void sim_run_until(int64_t at)
{
    while (event_count > 0 && events[0].at <= at)
        sim_step();
    if (sim.now < at)
        sim.now = at;
}

int64_t sim_next_event(sim_counts_fn counts)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < event_count; i++) {
        if (events[i].at < next && counts(events[i].run, events[i].context, events[i].argument))
            next = events[i].at;
    }
    return next;
}

/*
 * The events' contexts are not hashed, since addresses differ between runs. The state of a context is hashed where it
 * is kept.
 */
uint64_t sim_events_hash(sim_counts_fn counts)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < event_count; i++) {
        const event *each = &events[i];
        if (!counts(each->run, each->context, each->argument))
            continue;
        uint64_t hash = sim_mix((uint64_t)(each->at / SIM_MILLISECOND), (uint64_t)each->argument);
        sum += sim_mix(hash, (uint64_t)(uintptr_t)each->run);
    }
    return sum;
}

/* ---- paths ---- */

static uint32_t hash_text(const char *text)
{
    uint32_t hash = UINT32_C(2166136261);
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT32_C(16777619);
    return hash;
}

static uint32_t free_slot(uint32_t hash)
{
    uint32_t slot = hash % slot_count;
    while (path_slots[slot] != 0)
        slot = (slot + 1) % slot_count;
    return slot;
}

/* Makes room for one more path. */
static void grow_slots(void)
{
    if (slot_count > 0 && (uint32_t)path_count < slot_count / 2)
        return;
    slot_count = slot_count > 0 ? slot_count * 2 : 16384;
    free(path_slots);
    path_slots = must(calloc(slot_count, sizeof(*path_slots)));
    for (int i = 0; i < path_count; i++)
        path_slots[free_slot(paths[i].hash)] = i + 1;
}

int sim_path(const char *text)
{
    uint32_t hash = hash_text(text);
    grow_slots();
    for (uint32_t slot = hash % slot_count; path_slots[slot] != 0; slot = (slot + 1) % slot_count) {
        const path_entry *entry = &paths[path_slots[slot] - 1];
        if (entry->hash == hash && strcmp(entry->text, text) == 0)
            return path_slots[slot] - 1;
    }
    int parent = 0;
    const char *slash = strrchr(text, '/');
    if (slash != NULL && slash != text) {
        char *above = sim_copy(text, (size_t)(slash - text));
        parent = sim_path(above);
    }
    if (path_count == path_capacity) {
        path_capacity = path_capacity ? path_capacity * 2 : 256;
        paths = must(realloc(paths, (size_t)path_capacity * sizeof(*paths)));
    }
    paths[path_count] =
        (path_entry){sim_copy(text, strlen(text)), path_count == 0 ? -1 : parent, hash, sim_hash_text(text)};
    path_slots[free_slot(hash)] = ++path_count;
    return path_count - 1;
}

const char *sim_path_text(int path)
{
    return paths[path].text;
}

uint64_t sim_path_hash(int path)
{
    return path < 0 ? 1 : paths[path].long_hash;
}

const char *sim_path_name(int path)
{
    return strrchr(paths[path].text, '/') + 1;
}

int sim_path_parent(int path)
{
    return paths[path].parent;
}

/* ---- trace ---- */

void sim_trace(const char *format, ...)
{
    if ((sim.options.by_hand || sim.options.untraced) && !sim.options.trace)
        return; /* there are hundreds of thousands of worlds whose traces are not compared */
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof(line))
        length = (int)sizeof(line) - 1;
    uint64_t hash = trace_hash ^ (uint64_t)sim.now;
    for (int i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)line[i]) * UINT64_C(1099511628211);
    trace_hash = hash;
    if (sim.options.trace)
        printf("%11.6f %s\n", (double)sim.now / 1e9, line);
}

uint64_t sim_trace_hash(void)
{
    return trace_hash;
}

sim_statistics sim_stats(void)
{
    return sim.statistics;
}

/* ---- the world ---- */

static const char *version_in(const char *variable)
{
    const char *version = getenv(variable);
    return version != NULL && version[0] != '\0' ? version : "3.8.0";
}

static void choose_versions(void)
{
    if (sim.options.server_version == NULL)
        sim.options.server_version = version_in("ZKLOCK_SIMULATED_VERSION");
    if (sim.options.client_version == NULL)
        sim.options.client_version = version_in("ZKLOCK_SIMULATED_CLIENT");
    sim.exists_needs_read = version_has(sim.options.server_version, "exists_needs_read");
    sim.events_need_read = version_has(sim.options.server_version, "events_need_read");
    sim.failed_send_closes = version_has(sim.options.client_version, "failed_send_closes");
}

const char *sim_server_version(void)
{
    return sim.options.server_version;
}

const char *sim_client_version(void)
{
    return sim.options.client_version;
}

void sim_begin(const sim_options *options, const sim_hooks *hooks)
{
    memset(&sim, 0, sizeof(sim));
    sim.options = *options;
    if (hooks != NULL)
        sim.hooks = *hooks;
    if (sim.options.delay <= 0)
        sim.options.delay = SIM_MILLISECOND;
    if (sim.options.tick_ms <= 0)
        sim.options.tick_ms = sim.options.min_session_timeout_ms / 2;
    choose_versions();
    event_count = 0;
    event_order = 0;
    trace_hash = UINT64_C(14695981039346656037);
    path_count = 0;
    if (slot_count > 0)
        memset(path_slots, 0, slot_count * sizeof(*path_slots));
    seed_generator(options->seed);
    sim.now = SIM_SECOND + sim_below(SIM_SECOND);
    sim_path("/");
    sim_links_begin();
    sim_clients_begin();
    sim_ensemble_begin();
}

void sim_end(void)
{
    sim_clients_end();
    sim_ensemble_end();
    release_memory();
}

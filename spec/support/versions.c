/*
 * versions: how ZooKeeper's servers and its C client differ by version. The simulation and the cases of spec/conformance use this
 * file; versions.lua reads its table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "versions.h"

/* For each feature: the first releases that have it, one for each series in which some releases lack it. */
static const struct {
    const char *name, *releases;
} features[] = {
    /* Servers: `exists` needs the permission READ (ZOOKEEPER-2590). */
    {"exists_needs_read", "3.8.4 3.9.2"},
    /* Servers: an event of a node is not sent to a watcher that may not read it (CVE-2024-23944). Debian's 3.8.0 has it, too. */
    {"events_need_read", "3.8.0 3.9.2"},
    /* Servers: a snapshot has the ACL of each node (ZOOKEEPER-4846). */
    {"keeps_acls", "3.8.5 3.9.4"},
    /* Servers: the option enforceQuota, and the answer "quota exceeded". */
    {"quotas", "3.7.0"},
    /* Servers: mntr tells zk_throttled_ops. */
    {"throttled_ops", "3.6.0"},
    /* The C client: a send that fails inside zoo_a* closes the connection (ZOOKEEPER-4210). */
    {"failed_send_closes", "3.8.0"},
};

/* Reads a version: the number of its series and that of the release in it. Returns what follows. */
static const char *read_version(const char *text, long *series, long *release)
{
    char *end = NULL;
    *series = 1000 * strtol(text, &end, 10);
    if (*end == '.')
        *series += strtol(end + 1, &end, 10);
    *release = *end == '.' ? strtol(end + 1, &end, 10) : 0;
    return end;
}

bool version_has(const char *version, const char *feature)
{
    long series, release, first_series, first_release;
    read_version(version, &series, &release);
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        if (strcmp(features[i].name, feature) != 0)
            continue;
        bool has = false;
        for (const char *at = features[i].releases; *at != '\0';) {
            at = read_version(at, &first_series, &first_release);
            if (series == first_series)
                return release >= first_release;
            has = has || series > first_series;
        }
        return has;
    }
    fprintf(stderr, "versions: no such feature: %s\n", feature);
    abort();
}

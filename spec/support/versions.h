/* versions: how ZooKeeper's servers and its C client differ by version. */
#ifndef ZKLOCK_VERSIONS_H
#define ZKLOCK_VERSIONS_H

#include <stdbool.h>

/* Returns whether a version such as "3.8.0" has a feature of the table in versions.c. Ends the program if there is no such feature. */
bool version_has(const char *version, const char *feature);

#endif

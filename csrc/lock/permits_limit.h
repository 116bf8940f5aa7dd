/*
 * permits_limit: for how many permits a semaphore was made.
 */
#ifndef ZKLOCK_PERMITS_LIMIT_H
#define ZKLOCK_PERMITS_LIMIT_H

#include "acquisition.h"

/* Returns the data with which the directory of the leases is made. `data` has room for ZKL_DIRECTORY_DATA_SIZE. */
const char *zkl_permits_data(const zkl_entry *entry, char *data);
/* Whether it is known, on this connection, for how many permits the semaphore was made. */
bool zkl_permits_know_limit(const zkl_queue *leases);
/* Requests the semaphore's limit if it is not known. */
void zkl_permits_want_limit(zkl_acquisition *acquisition);
/*
 * Whether the acquisition's limit is the semaphore's, according to a list of its permits; `stat` is NULL if their directory does not
 * exist. Sets the acquisition's limit. Returns false if the semaphore's is not known yet; it is then requested, and the acquisition is
 * stepped with the answer. Returns false, too, if the limit differs; the acquisition is then refused. A try that has written nothing
 * does not wait for the answer: it gets the answer when it has taken its permits. But if the semaphore was resized, the try must list
 * again.
 */
bool zkl_permits_limit_fits(zkl_acquisition *acquisition, const struct Stat *stat, const struct String_vector *names);

#endif

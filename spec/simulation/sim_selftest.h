/* sim_selftest: the parts of the program, each in a file of its own. Each runs its tests, and prints those that fail. */
#ifndef ZKLOCK_SIM_SELFTEST_H
#define ZKLOCK_SIM_SELFTEST_H

void sim_selftest_requests(void);
void sim_selftest_watches(void);
void sim_selftest_faults(void);
void sim_selftest_multi(void);
void sim_selftest_links(void);
void sim_selftest_traps(void);
void sim_selftest_hosts(void);
void sim_selftest_nodes(void);

#endif

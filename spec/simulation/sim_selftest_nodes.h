/*
 * sim_selftest_nodes: the part of sim_selftest about what servers permit and refuse to make.
 */
#ifndef ZKLOCK_SIM_SELFTEST_NODES_H
#define ZKLOCK_SIM_SELFTEST_NODES_H

/* Runs the tests, prints those that fail, and adds to the counts of checks. */
void sim_selftest_nodes(int *checks_passed, int *checks_failed);

#endif

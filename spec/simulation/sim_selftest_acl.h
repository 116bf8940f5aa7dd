/*
 * sim_selftest_acl: the part of sim_selftest about access control lists.
 */
#ifndef ZKLOCK_SIM_SELFTEST_ACL_H
#define ZKLOCK_SIM_SELFTEST_ACL_H

/* Runs the tests, prints those that fail, and adds to the counts of checks. */
void sim_selftest_acl(int *checks_passed, int *checks_failed);

#endif

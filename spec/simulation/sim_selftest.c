/*
 * sim_selftest: checks the simulated ZooKeeper itself, without the engine, so that a failing schedule can be attributed
 * to the right side. Each test checks a promise of the real client or server on which the engine relies, or a trap that
 * the engine must survive.
 */
#include "sim_selftest.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

int passed, failed;
const char *test_name;

int main(void)
{
    sim_selftest_requests();
    sim_selftest_watches();
    sim_selftest_faults();
    sim_selftest_multi();
    sim_selftest_links();
    sim_selftest_traps();
    sim_selftest_hosts();
    sim_selftest_nodes();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

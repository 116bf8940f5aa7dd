/*
 * check: how programs of single tests count: CHECK(condition) prints a condition that does not hold, with the name of its test. To be
 * included by each file of such a program; each file counts for itself.
 */
#ifndef ZKLOCK_SIMULATION_CHECK_H
#define ZKLOCK_SIMULATION_CHECK_H

#include <stdio.h>

static int passed, failed;
static const char *test_name;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            passed++;                                                                                                  \
        } else {                                                                                                       \
            failed++;                                                                                                  \
            printf("%s, line %d: not so: %s\n", test_name, __LINE__, #condition);                                      \
        }                                                                                                              \
    } while (0)

#endif

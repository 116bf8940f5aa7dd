/*
 * check: counts the checks in programs of single tests. CHECK(condition) prints a condition that does not hold, with
 * the name of its test. The main file of such a program defines the variables.
 */
#ifndef ZKLOCK_SIMULATION_CHECK_H
#define ZKLOCK_SIMULATION_CHECK_H

#include <stdio.h>

extern int passed, failed;
extern const char *test_name;

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

/*
 * spawn: what a command costs from its start to its end, together with all processes that it starts and waits for.
 *
 * spawn COUNT STATUS COMMAND [ARG...]
 *     Runs the command COUNT times, one run after the other. Standard input is a pipe that ends when the command has
 *     written something to standard output, or has closed it; what it writes is dropped. If STATUS, the expected exit code,
 *     is not 0, standard error is /dev/null. Prints the medians:
 *       - wall_us: from before the fork until the command has ended; least_us: the same, of the quickest run;
 *       - cpu_us: processor time, user and system;
 *       - rss_kb: the resident memory of the largest process, at its largest.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    WALL,
    CPU,
    RSS,
    MEASURES
};

static void die(const char *what, int error)
{
    fprintf(stderr, "spawn: %s: %s\n", what, strerror(error));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double microseconds(struct timeval time)
{
    return (double)time.tv_sec * 1e6 + (double)time.tv_usec;
}

/* Runs the command once, and fills in what that has cost. Ends the program if the command does not exit with `status`. */
static void run(char **command, int status, double *values)
{
    int input[2];
    int output[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) {
        die("pipe2", errno);
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], 0);
    posix_spawn_file_actions_adddup2(&actions, output[1], 1);
    if (status != 0) {
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    }
    pid_t pid;
    int64_t began = now_ns();
    int error = posix_spawnp(&pid, command[0], &actions, NULL, command, environ);
    if (error != 0) {
        die(command[0], error);
    }
    close(input[0]);
    close(output[1]);
    char text[4096];
    ssize_t length = read(output[0], text, sizeof text);
    close(input[1]);
    while (length > 0) {
        length = read(output[0], text, sizeof text);
    }
    close(output[0]);
    posix_spawn_file_actions_destroy(&actions);
    int outcome;
    struct rusage usage;
    while (wait4(pid, &outcome, 0, &usage) < 0) {
        if (errno != EINTR) {
            die("wait4", errno);
        }
    }
    values[WALL] = (double)(now_ns() - began) / 1000;
    if (!WIFEXITED(outcome) || WEXITSTATUS(outcome) != status) {
        fprintf(stderr, "spawn: %s: %s %d, not exit code %d\n", command[0],
                WIFEXITED(outcome) ? "exit code" : "killed by signal",
                WIFEXITED(outcome) ? WEXITSTATUS(outcome) : WTERMSIG(outcome), status);
        exit(1);
    }
    values[CPU] = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    values[RSS] = (double)usage.ru_maxrss;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int count = argc > 3 ? atoi(argv[1]) : 0;
    if (count < 1) {
        fprintf(stderr, "Usage: spawn COUNT STATUS COMMAND [ARG...]\n");
        return 2;
    }
    int status = atoi(argv[2]);
    char **command = argv + 3;
    static const char *const names[MEASURES] = {"wall_us", "cpu_us", "rss_kb"};
    double *values[MEASURES];
    for (int i = 0; i < MEASURES; i++) {
        values[i] = calloc((size_t)count, sizeof *values[i]);
        if (values[i] == NULL) {
            die("calloc", errno);
        }
    }
    for (int i = 0; i < count; i++) {
        double its[MEASURES];
        run(command, status, its);
        for (int measure = 0; measure < MEASURES; measure++) {
            values[measure][i] = its[measure];
        }
    }
    printf("name=spawn count=%d", count);
    for (int i = 0; i < MEASURES; i++) {
        qsort(values[i], (size_t)count, sizeof *values[i], compare);
        printf(" %s=%.1f", names[i], values[i][count / 2]);
    }
    printf(" least_us=%.1f", values[WALL][0]);
    for (int i = 0; i < MEASURES; i++) {
        free(values[i]);
    }
    putchar('\n');
    return 0;
}

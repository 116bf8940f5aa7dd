/*
 * test_process: signals from a descriptor, commands in groups of their own, and the guardian, without Lua and without a lock.
 *
 * Ends of processes are events: every process of a command has the write end of a pipe, and nothing else has. So the pipe's end says
 * that all of them are dead. No test waits for an instant: deadlines are over from the beginning, or never come.
 */
#include "process/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Over for long, on the clock of deadlines. */
static const int64_t OVER = 1;

/* Far away. */
static int64_t in_an_hour(void)
{
    return zkl_guard_clock() + INT64_C(3600) * 1000000000;
}

/* A command that runs: its process id, and the end of the pipe to read what it writes to descriptor 3. */
typedef struct {
    pid_t pid;
    int output;
} command;

/* The anchor of the next group is killed as soon as it has joined the group, as a guardian may kill it with the group. */
static bool kills_anchor;

int __real_setpgid(pid_t process, pid_t group);
int __wrap_setpgid(pid_t process, pid_t group);

int __wrap_setpgid(pid_t process, pid_t group)
{
    int result = __real_setpgid(process, group);
    if (kills_anchor && process == 0 && group != 0 && result == 0) {
        raise(SIGKILL);
    }
    return result;
}

/* Starts a script of /bin/sh. */
static command start(char *script, const zkl_guard *guard)
{
    int ends[2];
    int error;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    char *arguments[] = {"sh", "-c", script, NULL};
    zkl_spawn spawn = {.arguments = arguments,
                       .environment = environ,
                       .guard = guard,
                       .terminal = -1,
                       .pass_from = ends[1],
                       .pass_to = 3};
    command started = {.pid = zkl_spawn_start(&spawn, &error), .output = ends[0]};
    close(ends[1]);
    assert_int_equal(error, 0);
    assert_true(started.pid > 1);
    return started;
}

/* Reads what a command writes next. */
static void assert_writes(const command *running, const char *expected)
{
    char text[32] = "";
    ssize_t length = read(running->output, text, strlen(expected));
    assert_int_equal(length, strlen(expected));
    assert_string_equal(text, expected);
}

/* Waits until no process of the command has the pipe. */
static void await_death(const command *running)
{
    char text[64];
    ssize_t length;
    while ((length = read(running->output, text, sizeof text)) > 0 || (length < 0 && errno == EINTR)) {
    }
    assert_int_equal(length, 0);
    close(running->output);
}

/* Waits until the first process has ended, and returns how. It stays a zombie. */
static zkl_child_state await_end(const command *running, int *detail)
{
    siginfo_t info;
    while (waitid(P_PID, (id_t)running->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    return zkl_child_look(running->pid, detail);
}

static void assert_killed_by(const command *running, int number)
{
    int detail;
    assert_int_equal(await_end(running, &detail), ZKL_CHILD_KILLED);
    assert_int_equal(detail, number);
}

/* --- signals ----------------------------------------------------------------------------------------------------------- */

static void knows_the_names_of_signals(void **state)
{
    (void)state;
    assert_int_equal(zkl_signal_number("TERM"), SIGTERM);
    assert_int_equal(zkl_signal_number("sigusr1"), SIGUSR1);
    assert_int_equal(zkl_signal_number("9"), SIGKILL);
    const char *wrong[] = {"", "SIG", "NOSIG", "0", "-9", "9x", "65536"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(zkl_signal_number(wrong[i]), 0);
    }
    for (int number = 1; number < SIGRTMIN; number++) {
        const char *name = zkl_signal_name(number);
        assert_true(name == NULL || zkl_signal_number(name) == number);
    }
    assert_null(zkl_signal_name(0));
}

static void reads_signals_from_a_descriptor(void **state)
{
    (void)state;
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    sigaddset(&wanted, SIGTERM);
    int fd = zkl_signals_open(&wanted);
    assert_true(fd >= 100);
    assert_int_equal(zkl_signals_next(fd), 0);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGUSR1);
    int first = zkl_signals_next(fd);
    int second = zkl_signals_next(fd);
    assert_int_equal(first + second, SIGTERM + SIGUSR1);
    assert_int_not_equal(first, second);
    assert_int_equal(zkl_signals_next(fd), 0);
    close(fd);
    /* A command begins with the mask from before: a signal to itself is not blocked. */
    command running = start("kill -USR1 $$; exit 1", NULL);
    assert_killed_by(&running, SIGUSR1);
    zkl_child_reap(running.pid);
    close(running.output);
}

/* --- commands ---------------------------------------------------------------------------------------------------------- */

static void tells_how_a_command_ends(void **state)
{
    (void)state;
    int detail;
    command running = start("exit 7", NULL);
    assert_int_equal(await_end(&running, &detail), ZKL_CHILD_EXITED);
    assert_int_equal(detail, 7);
    assert_int_equal(zkl_child_look(running.pid, &detail), ZKL_CHILD_EXITED); /* until it is reaped */
    zkl_child_reap(running.pid);
    close(running.output);

    running = start("echo runs >&3; exec sleep 600", NULL);
    assert_writes(&running, "runs\n");
    assert_int_equal(zkl_child_look(running.pid, &detail), ZKL_CHILD_RUNS);
    assert_true(zkl_group_signal(running.pid, SIGKILL));
    assert_killed_by(&running, SIGKILL);
    zkl_child_reap(running.pid);
    close(running.output);
}

static void says_why_a_command_does_not_begin(void **state)
{
    (void)state;
    const struct {
        char *name;
        int error;
    } cases[] = {{"/nonexistent/zklock", ENOENT}, {"zklock-no-such-command", ENOENT}, {"/", EACCES}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int error;
        char *arguments[] = {cases[i].name, NULL};
        zkl_guard guard;
        assert_true(zkl_guard_start(&guard, SIGTERM, 0));
        zkl_spawn spawn = {
            .arguments = arguments, .environment = environ, .guard = &guard, .terminal = -1, .pass_from = -1};
        assert_int_equal(zkl_spawn_start(&spawn, &error), -1);
        assert_int_equal(error, cases[i].error);
        assert_int_equal(atomic_load(&guard.page->group), 0);
        zkl_guard_finish(&guard);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    assert_int_equal(errno, ECHILD);
}

static void looks_for_living_members_of_a_group(void **state)
{
    (void)state;
    command running = start("(echo child >&3; exec sleep 600) & exit 0", NULL);
    assert_writes(&running, "child\n");
    int detail;
    assert_int_equal(await_end(&running, &detail), ZKL_CHILD_EXITED);
    assert_true(zkl_group_lives(running.pid));
    assert_true(zkl_group_signal(running.pid, SIGKILL));
    await_death(&running);
    /* The pipe is closed a moment before the kernel calls the process a zombie. */
    while (zkl_group_lives(running.pid)) {
        sched_yield();
    }
    assert_false(zkl_group_lives(running.pid)); /* the leader is a zombie, and does not count */
    zkl_child_reap(running.pid);
    assert_false(zkl_group_lives(running.pid));
    assert_false(zkl_group_signal(0, SIGTERM));
    assert_false(zkl_group_signal(1, SIGTERM));
}

/* --- the guardian ------------------------------------------------------------------------------------------------------ */

/* A command of two processes that ignore TERM. */
static char *const STUBBORN = "trap '' TERM; (echo child >&3; exec sleep 600) & exec sleep 600";

static void does_nothing_before_the_time(void **state)
{
    (void)state;
    zkl_guard guard;
    assert_true(zkl_guard_start(&guard, SIGTERM, 0));
    zkl_guard_set(&guard, in_an_hour(), in_an_hour());
    command running = start("echo runs >&3; exec sleep 600", &guard);
    assert_writes(&running, "runs\n");
    assert_int_equal(atomic_load(&guard.page->sent), ZKL_GUARD_SENT_NOTHING);
    zkl_group_signal(running.pid, SIGKILL);
    assert_killed_by(&running, SIGKILL);
    assert_int_equal(kill(guard.pid, SIGSTOP), 0); /* also a guardian that was stopped ends */
    zkl_guard_finish(&guard);
    zkl_guard_finish(&guard);
    zkl_child_reap(running.pid);
    close(running.output);
}

static void asks_the_group_when_the_first_time_has_come(void **state)
{
    (void)state;
    zkl_guard guard;
    assert_true(zkl_guard_start(&guard, SIGUSR2, 0));
    zkl_guard_set(&guard, in_an_hour(), ZKL_GUARD_NEVER);
    command running =
        start("trap 'echo asked >&3; exit 3' USR2; echo runs >&3; while :; do sleep 600 & wait; done", &guard);
    assert_writes(&running, "runs\n");
    zkl_guard_set(&guard, OVER, ZKL_GUARD_NEVER);
    assert_writes(&running, "asked\n");
    int detail;
    assert_int_equal(await_end(&running, &detail), ZKL_CHILD_EXITED);
    assert_int_equal(detail, 3);
    assert_int_equal(atomic_load(&guard.page->sent), ZKL_GUARD_SENT_TERM);
    zkl_group_signal(running.pid, SIGKILL); /* its `sleep` */
    await_death(&running);
    zkl_guard_finish(&guard);
    zkl_child_reap(running.pid);
}

static void kills_the_group_when_the_second_time_has_come(void **state)
{
    (void)state;
    zkl_guard guard;
    assert_true(zkl_guard_start(&guard, SIGTERM, 0));
    zkl_guard_set(&guard, in_an_hour(), in_an_hour());
    command running = start(STUBBORN, &guard);
    assert_writes(&running, "child\n");
    zkl_guard_set(&guard, OVER, OVER);
    await_death(&running);
    assert_int_equal(atomic_load(&guard.page->sent), ZKL_GUARD_SENT_KILL);
    assert_killed_by(&running, SIGKILL);
    zkl_guard_finish(&guard);
    zkl_child_reap(running.pid);
}

static void kills_a_command_that_begins_after_the_time(void **state)
{
    (void)state;
    zkl_guard guard;
    assert_true(zkl_guard_start(&guard, SIGTERM, 0));
    zkl_guard_set(&guard, OVER, OVER);
    command running = start("exec sleep 600", &guard);
    await_death(&running);
    assert_killed_by(&running, SIGKILL);
    zkl_guard_finish(&guard);
    zkl_child_reap(running.pid);
}

static void starts_a_command_whose_anchor_is_killed(void **state)
{
    (void)state;
    kills_anchor = true;
    command running = start("exit 7", NULL);
    kills_anchor = false;
    await_death(&running);
    int detail;
    while (zkl_child_look(running.pid, &detail) == ZKL_CHILD_RUNS) {
    }
    assert_int_equal(detail, 7);
    zkl_child_reap(running.pid);
}

static void kills_the_group_when_the_wrapper_is_killed(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t wrapper = fork();
    if (wrapper == 0) {
        zkl_guard guard;
        int error;
        char *arguments[] = {"sh", "-c", STUBBORN, NULL};
        zkl_spawn spawn = {.arguments = arguments,
                           .environment = environ,
                           .guard = &guard,
                           .terminal = -1,
                           .pass_from = ends[1],
                           .pass_to = 3};
        if (zkl_guard_start(&guard, SIGTERM, 0) && zkl_spawn_start(&spawn, &error) > 0) {
            close(ends[1]);
            pause();
        }
        _exit(1);
    }
    close(ends[1]);
    command running = {.output = ends[0]};
    assert_writes(&running, "child\n");
    assert_int_equal(kill(wrapper, SIGKILL), 0);
    assert_int_equal(waitpid(wrapper, NULL, 0), wrapper);
    await_death(&running);
}

/* As under a PID 1 of a container that reaps nothing: what has ended stays in the group. */
static void ends_with_the_group_although_nobody_reaps_it(void **state)
{
    (void)state;
    int ends[2], told[2];
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    pid_t wrapper = fork();
    if (wrapper == 0) {
        zkl_guard guard;
        int error;
        char *arguments[] = {"sh", "-c", STUBBORN, NULL};
        zkl_spawn spawn = {.arguments = arguments,
                           .environment = environ,
                           .guard = &guard,
                           .terminal = -1,
                           .pass_from = ends[1],
                           .pass_to = 3};
        if (zkl_guard_start(&guard, SIGTERM, 0) && zkl_spawn_start(&spawn, &error) > 0 &&
            write(told[1], &guard.pid, sizeof guard.pid) == sizeof guard.pid) {
            close(ends[1]);
            pause();
        }
        _exit(1);
    }
    close(ends[1]);
    command running = {.output = ends[0]};
    assert_writes(&running, "child\n");
    pid_t guardian;
    assert_int_equal(read(told[0], &guardian, sizeof guardian), sizeof guardian);
    assert_int_equal(kill(wrapper, SIGKILL), 0);
    assert_int_equal(waitpid(wrapper, NULL, 0), wrapper);
    await_death(&running);
    alarm(120); /* ends a hang */
    int status;
    assert_int_equal(waitpid(guardian, &status, __WALL), guardian);
    alarm(0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    int members = 0;
    while (waitpid(-1, NULL, WNOHANG | (int)__WALL) > 0) {
        members++;
    }
    assert_true(members > 1);
    close(told[0]);
    close(told[1]);
}

static void tells_when_the_guardian_has_ended(void **state)
{
    (void)state;
    zkl_guard guard;
    assert_true(zkl_guard_start(&guard, SIGTERM, 0));
    struct pollfd end = {.fd = guard.socket, .events = POLLIN};
    assert_int_equal(poll(&end, 1, 0), 0);
    assert_int_equal(kill(guard.pid, SIGKILL), 0);
    assert_int_equal(poll(&end, 1, -1), 1);
    zkl_guard_set(&guard, OVER, OVER); /* without SIGPIPE */
    zkl_guard_finish(&guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_the_names_of_signals),
        cmocka_unit_test(tells_how_a_command_ends),
        cmocka_unit_test(says_why_a_command_does_not_begin),
        cmocka_unit_test(looks_for_living_members_of_a_group),
        cmocka_unit_test(does_nothing_before_the_time),
        cmocka_unit_test(asks_the_group_when_the_first_time_has_come),
        cmocka_unit_test(kills_the_group_when_the_second_time_has_come),
        cmocka_unit_test(kills_a_command_that_begins_after_the_time),
        cmocka_unit_test(starts_a_command_whose_anchor_is_killed),
        cmocka_unit_test(kills_the_group_when_the_wrapper_is_killed),
        cmocka_unit_test(ends_with_the_group_although_nobody_reaps_it),
        cmocka_unit_test(tells_when_the_guardian_has_ended),
        cmocka_unit_test(reads_signals_from_a_descriptor), /* last: signals stay caught */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

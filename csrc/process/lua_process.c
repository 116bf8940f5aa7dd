/*
 * zklock.process: the binding of this folder for the command `zklock`. It knows no lock.
 *
 * Run-time failures are nil and a message. All functions return at once, except poll, and spawn, which waits for exec. Descriptors are
 * numbers; those that a function opens are closed by exec. Times are seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <limits.h>
#include <lua.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "process.h"

#define LUA_PUBLIC __attribute__((visibility("default")))

static const char GUARD_TYPE[] = "zklock.guard";

static int push_errno(lua_State *L, int error)
{
    lua_pushnil(L);
    lua_pushstring(L, strerror(error));
    return 2;
}

static int push_status(lua_State *L, bool done)
{
    if (!done) {
        return push_errno(L, errno);
    }
    lua_pushboolean(L, 1);
    return 1;
}

/* Pushes a descriptor or a process id; if it is below 0, the failure that errno says. */
static int push_number(lua_State *L, int number)
{
    if (number < 0) {
        return push_errno(L, errno);
    }
    lua_pushinteger(L, number);
    return 1;
}

/* Pushes a table of these functions. */
static void push_functions(lua_State *L, const luaL_Reg *functions)
{
    lua_newtable(L);
    for (; functions->name != NULL; functions++) {
        lua_pushcfunction(L, functions->func);
        lua_setfield(L, -2, functions->name);
    }
}

/* Pushes an element of a list; or returns false, behind its last one. */
static bool push_element(lua_State *L, int list, int index)
{
    lua_rawgeti(L, list, index);
    bool there = !lua_isnil(L, -1);
    if (!there) {
        lua_pop(L, 1);
    }
    return there;
}

static int check_signal(lua_State *L, int index)
{
    int number = zkl_signal_number(luaL_checkstring(L, index));
    luaL_argcheck(L, number != 0, index, "no such signal");
    return number;
}

static void push_signal(lua_State *L, int number)
{
    const char *name = zkl_signal_name(number);
    if (name != NULL) {
        lua_pushstring(L, name);
    } else {
        lua_pushfstring(L, "%d", number);
    }
}

/* --- descriptors --------------------------------------------------------------------------------------------------- */

/* fill_standard(): opens /dev/null for each of standard input, output and error that is closed. */
static int process_fill_standard(lua_State *L)
{
    (void)L;
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            open("/dev/null", O_RDWR); /* the lowest number that is free */
        }
    }
    return 0;
}

/*
 * poll(list of descriptors, seconds) -> set of those that are readable, at their end or not open: {[fd] = true}. Negative
 * descriptors are skipped. Empty when the time is up or a signal arrives.
 */
static int process_poll(lua_State *L)
{
    enum {
        MOST = 256
    };
    struct pollfd fds[MOST];
    nfds_t count = 0;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Number seconds = luaL_checknumber(L, 2);
    for (int index = 1; push_element(L, 1, index); index++) {
        luaL_argcheck(L, count < MOST, 1, "too many descriptors");
        fds[count++] = (struct pollfd){.fd = (int)lua_tointeger(L, -1), .events = POLLIN};
        lua_pop(L, 1);
    }
    int ms = !(seconds > 0) ? 0 : seconds > 3600 ? 3600000 : (int)ceil(seconds * 1000);
    int ready = poll(fds, count, ms);
    lua_newtable(L);
    for (nfds_t i = 0; ready > 0 && i < count; i++) {
        if (fds[i].revents != 0) {
            lua_pushboolean(L, 1);
            lua_rawseti(L, -2, fds[i].fd);
        }
    }
    return 1;
}

/* read(fd) -> what is there, "" at the end | nil, message */
static int process_read(lua_State *L)
{
    char text[4096];
    ssize_t length = read((int)luaL_checkinteger(L, 1), text, sizeof text);
    if (length < 0) {
        return push_errno(L, errno);
    }
    lua_pushlstring(L, text, (size_t)length);
    return 1;
}

/* write(fd, text) -> true | nil, message */
static int process_write(lua_State *L)
{
    size_t length;
    int fd = (int)luaL_checkinteger(L, 1);
    const char *text = luaL_checklstring(L, 2, &length);
    ssize_t written = 0;
    while (length > 0 && ((written = write(fd, text, length)) > 0 || errno == EINTR)) {
        if (written > 0) {
            text += written;
            length -= (size_t)written;
        }
    }
    return push_status(L, length == 0);
}

/* notify(address, text) -> true | nil, message: sends a datagram to a unix socket, as sd_notify(3) does; "@…" is an abstract address */
static int process_notify(lua_State *L)
{
    size_t length;
    size_t size;
    const char *address = luaL_checklstring(L, 1, &length);
    const char *text = luaL_checklstring(L, 2, &size);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (length == 0 || length >= sizeof to.sun_path) {
        return push_errno(L, EINVAL);
    }
    memcpy(to.sun_path, address, length);
    to.sun_path[0] = *address == '@' ? '\0' : *address;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool sent = fd >= 0 && sendto(fd, text, size, MSG_NOSIGNAL, (struct sockaddr *)&to,
                                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) >= 0;
    int problem = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = problem;
    return push_status(L, sent);
}

/* pipe() -> end to read, end to write | nil, message */
static int process_pipe(lua_State *L)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return push_errno(L, errno);
    }
    lua_pushinteger(L, ends[0]);
    lua_pushinteger(L, ends[1]);
    return 2;
}

static int process_close(lua_State *L)
{
    close((int)luaL_checkinteger(L, 1));
    return 0;
}

/* keep(fd) -> true | nil, message: the descriptor is open, and commands do not get it */
static int process_keep(lua_State *L)
{
    return push_status(L, fcntl((int)luaL_checkinteger(L, 1), F_SETFD, FD_CLOEXEC) == 0);
}

static int process_is_terminal(lua_State *L)
{
    lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
    return 1;
}

/* window(fd) -> columns, rows of a terminal | nil, message */
static int process_window(lua_State *L)
{
    struct winsize size;
    if (ioctl((int)luaL_checkinteger(L, 1), TIOCGWINSZ, &size) != 0) {
        return push_errno(L, errno);
    }
    lua_pushinteger(L, size.ws_col);
    lua_pushinteger(L, size.ws_row);
    return 2;
}

/* now() -> seconds on CLOCK_BOOTTIME, the clock of leases */
static int process_now(lua_State *L)
{
    lua_pushnumber(L, (lua_Number)zkl_guard_clock() / 1e9);
    return 1;
}

/* --- signals ------------------------------------------------------------------------------------------------------- */

/* catch(list of names) -> descriptor that is readable while one of these signals is pending | nil, message */
static int process_catch(lua_State *L)
{
    sigset_t set;
    sigemptyset(&set);
    luaL_checktype(L, 1, LUA_TTABLE);
    for (int index = 1; push_element(L, 1, index); index++) {
        sigaddset(&set, check_signal(L, -1));
        lua_pop(L, 1);
    }
    return push_number(L, zkl_signals_open(&set));
}

/* next_signal(descriptor of catch) -> name | nil */
static int process_next_signal(lua_State *L)
{
    int number = zkl_signals_next((int)luaL_checkinteger(L, 1));
    if (number == 0) {
        return 0;
    }
    push_signal(L, number);
    return 1;
}

static int process_signal_number(lua_State *L)
{
    lua_pushinteger(L, zkl_signal_number(luaL_checkstring(L, 1)));
    return 1;
}

/* raise(name, group): sends the signal, with its default action, to this process, or to its group */
static int process_raise(lua_State *L)
{
    zkl_signals_raise(check_signal(L, 1), lua_toboolean(L, 2));
    return 0;
}

/* signal(process id, name) -> true | nil, message */
static int process_signal(lua_State *L)
{
    pid_t process = (pid_t)luaL_checkinteger(L, 1);
    luaL_argcheck(L, process > 0, 1, "no process id");
    return push_status(L, kill(process, check_signal(L, 2)) == 0);
}

/* --- a process in the background ----------------------------------------------------------------------------------- */

/* fork(name of a signal) -> process id; 0 in the child, which gets the signal when its parent ends | nil, message */
static int process_fork(lua_State *L)
{
    return push_number(L, zkl_background_fork(check_signal(L, 1)));
}

/* part(): in the child of fork: its parent may end, and a terminal closes without effect. */
static int process_part(lua_State *L)
{
    (void)L;
    zkl_background_part();
    return 0;
}

/* leave(keep_errors): does that, and closes what the child has inherited. See zkl_background_leave. */
static int process_leave(lua_State *L)
{
    zkl_background_leave(lua_toboolean(L, 1));
    return 0;
}

/* --- groups and the terminal --------------------------------------------------------------------------------------- */

/* signal_group(group, name) -> true | nil, message */
static int process_signal_group(lua_State *L)
{
    pid_t group = (pid_t)luaL_checkinteger(L, 1);
    errno = EINVAL;
    return push_status(L, zkl_group_signal(group, check_signal(L, 2)));
}

/* group_runs(group) -> whether it has a member that has not ended; for groups that spawn has not made */
static int process_group_runs(lua_State *L)
{
    lua_pushboolean(L, zkl_group_runs((pid_t)luaL_checkinteger(L, 1)));
    return 1;
}

/* open(process id) -> descriptor that is readable when the process has ended | nil, message */
static int process_open(lua_State *L)
{
    return push_number(L, zkl_process_open((pid_t)luaL_checkinteger(L, 1)));
}

/* group_lives(group) -> whether it has members; for the group that spawn has made. See zkl_group_lives. */
static int process_group_lives(lua_State *L)
{
    lua_pushboolean(L, zkl_group_lives((pid_t)luaL_checkinteger(L, 1)));
    return 1;
}

/* terminal() -> descriptor of this process's terminal | nil, message */
static int process_terminal(lua_State *L)
{
    return push_number(L, open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY));
}

/* terminal_group(terminal) -> its foreground group; -1 if there is none */
static int process_terminal_group(lua_State *L)
{
    int terminal = (int)luaL_checkinteger(L, 1);
    lua_pushinteger(L, terminal >= 0 ? tcgetpgrp(terminal) : -1);
    return 1;
}

/* give_terminal(terminal, group) -> true | nil, message */
static int process_give_terminal(lua_State *L)
{
    return push_status(L, zkl_terminal_give((int)luaL_checkinteger(L, 1), (pid_t)luaL_checkinteger(L, 2)));
}

static int process_own_group(lua_State *L)
{
    lua_pushinteger(L, getpgrp());
    return 1;
}

/* --- the guardian -------------------------------------------------------------------------------------------------- */

static zkl_guard *check_guard(lua_State *L, int index)
{
    zkl_guard *guard = luaL_checkudata(L, index, GUARD_TYPE);
    luaL_argcheck(L, guard->page != NULL, index, "the guardian has ended");
    return guard;
}

/* An instant on now()'s clock in nanoseconds. */
static int64_t check_instant(lua_State *L, int index)
{
    lua_Number seconds = luaL_checknumber(L, index);
    return !(seconds > 0) ? 0 : seconds < 9e9 ? (int64_t)(seconds * 1e9) : ZKL_GUARD_NEVER;
}

/* guard:set(term_at, kill_at): the guardian sends its signals at these instants of now()'s clock; math.huge: never */
static int guard_set(lua_State *L)
{
    const zkl_guard *guard = check_guard(L, 1);
    zkl_guard_set(guard, check_instant(L, 2), check_instant(L, 3));
    return 0;
}

/* guard:sent() -> "nothing" | "term" | "kill": the strongest signal that it has sent */
static int guard_sent(lua_State *L)
{
    static const char *const sent[] = {"nothing", "term", "kill"};
    lua_pushstring(L, sent[atomic_load(&check_guard(L, 1)->page->sent)]);
    return 1;
}

/* guard:adopt(group): from now on it is guarded. See zkl_guard_adopt. */
static int guard_adopt(lua_State *L)
{
    zkl_guard_adopt(check_guard(L, 1), (pid_t)luaL_checkinteger(L, 2));
    return 0;
}

/* guard:fd() -> descriptor that is readable when the guardian has ended */
static int guard_fd(lua_State *L)
{
    lua_pushinteger(L, check_guard(L, 1)->socket);
    return 1;
}

/* guard:finish(): the group is gone; ends the guardian and waits for it */
static int guard_finish(lua_State *L)
{
    zkl_guard_finish(luaL_checkudata(L, 1, GUARD_TYPE));
    return 0;
}

/*
 * guard(signal to send at term_in, shell or nil) -> guard | nil, message. To be called before this process has a second thread. With
 * the process id of a shell, guard:adopt says when its group is to be guarded. Otherwise spawn makes the group.
 */
static int process_guard(lua_State *L)
{
    static const luaL_Reg methods[] = {{"adopt", guard_adopt}, {"set", guard_set},       {"sent", guard_sent},
                                       {"fd", guard_fd},       {"finish", guard_finish}, {NULL, NULL}};
    int number = check_signal(L, 1);
    pid_t shell = (pid_t)luaL_optinteger(L, 2, 0);
    zkl_guard *guard = lua_newuserdata(L, sizeof *guard);
    *guard = (zkl_guard){.page = NULL};
    if (luaL_newmetatable(L, GUARD_TYPE)) {
        push_functions(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
    if (!zkl_guard_start(guard, number, shell)) {
        return push_errno(L, errno);
    }
    return 1;
}

/* --- commands ------------------------------------------------------------------------------------------------------ */

/* Returns the strings of the list at `index` as an array that ends with NULL, valid as long as the list and the stack. */
static char **check_strings(lua_State *L, int index)
{
    luaL_checktype(L, index, LUA_TTABLE);
    size_t count = 0;
    for (; push_element(L, index, (int)count + 1); count++) {
        luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, index, "must be a list of strings");
        lua_pop(L, 1);
    }
    char **strings = lua_newuserdata(L, (count + 1) * sizeof *strings);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, index, (int)i + 1);
        strings[i] = (char *)(uintptr_t)lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    strings[count] = NULL;
    return strings;
}

static bool same_name(const char *one, const char *other)
{
    size_t length = strcspn(one, "=");
    return strncmp(one, other, length) == 0 && other[length] == '=';
}

/* Returns this process's environment with other values for the names of `changes` ("NAME=value"), and without "NAME". */
static char **changed_environment(lua_State *L, char *const *changes)
{
    size_t count = 0;
    size_t more = 0;
    while (environ[count] != NULL) {
        count++;
    }
    while (changes[more] != NULL) {
        more++;
    }
    char **result = lua_newuserdata(L, (count + more + 1) * sizeof *result);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool changed = false;
        for (size_t j = 0; j < more; j++) {
            changed = changed || same_name(changes[j], environ[i]);
        }
        if (!changed) {
            result[kept++] = environ[i];
        }
    }
    for (size_t j = 0; j < more; j++) {
        if (strchr(changes[j], '=') != NULL) {
            result[kept++] = changes[j];
        }
    }
    result[kept] = NULL;
    return result;
}

static int integer_field(lua_State *L, int index, const char *name)
{
    lua_getfield(L, index, name);
    int value = lua_isnil(L, -1) ? -1 : (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

/*
 * spawn(arguments, changes, guard or nil, {terminal =, pass_from =, pass_to =}) -> process id | nil, message, "not_found" or
 * "not_executable"
 *
 * Starts a command: see zkl_spawn. `changes` is a list of "NAME=value", and of "NAME" for a variable that the
 * command does not get.
 */
static int process_spawn(lua_State *L)
{
    luaL_checktype(L, 4, LUA_TTABLE);
    zkl_spawn spawn = {
        .guard = lua_isnil(L, 3) ? NULL : check_guard(L, 3),
        .terminal = integer_field(L, 4, "terminal"),
        .pass_from = integer_field(L, 4, "pass_from"),
        .pass_to = integer_field(L, 4, "pass_to"),
    };
    spawn.arguments = check_strings(L, 1);
    luaL_argcheck(L, spawn.arguments[0] != NULL, 1, "there must be a command");
    spawn.environment = changed_environment(L, check_strings(L, 2));
    int error;
    pid_t child = zkl_spawn_start(&spawn, &error);
    if (child < 0) {
        push_errno(L, error);
        lua_pushstring(L, error == ENOENT ? "not_found" : "not_executable");
        return 3;
    }
    lua_pushinteger(L, child);
    return 1;
}

/* look(child) -> "runs" | "exited", code | "stopped", signal | "killed", signal */
static int process_look(lua_State *L)
{
    static const char *const states[] = {"runs", "stopped", "exited", "killed"};
    int detail;
    zkl_child_state state = zkl_child_look((pid_t)luaL_checkinteger(L, 1), &detail);
    lua_pushstring(L, states[state]);
    if (state == ZKL_CHILD_RUNS) {
        return 1;
    }
    if (state == ZKL_CHILD_EXITED) {
        lua_pushinteger(L, detail);
    } else {
        push_signal(L, detail);
    }
    return 2;
}

/* reap_others(child): all children that have ended but this one */
static int process_reap_others(lua_State *L)
{
    zkl_children_reap((pid_t)luaL_checkinteger(L, 1));
    return 0;
}

/* reap(child): after it has ended */
static int process_reap(lua_State *L)
{
    zkl_child_reap((pid_t)luaL_checkinteger(L, 1));
    return 0;
}

LUA_PUBLIC int luaopen_zklock_process(lua_State *L);

LUA_PUBLIC int luaopen_zklock_process(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"fill_standard", process_fill_standard},
        {"poll", process_poll},
        {"read", process_read},
        {"write", process_write},
        {"notify", process_notify},
        {"pipe", process_pipe},
        {"close", process_close},
        {"keep", process_keep},
        {"is_terminal", process_is_terminal},
        {"window", process_window},
        {"now", process_now},
        {"catch", process_catch},
        {"next_signal", process_next_signal},
        {"signal_number", process_signal_number},
        {"raise", process_raise},
        {"signal", process_signal},
        {"fork", process_fork},
        {"part", process_part},
        {"leave", process_leave},
        {"signal_group", process_signal_group},
        {"group_runs", process_group_runs},
        {"group_lives", process_group_lives},
        {"open", process_open},
        {"terminal", process_terminal},
        {"terminal_group", process_terminal_group},
        {"give_terminal", process_give_terminal},
        {"own_group", process_own_group},
        {"guard", process_guard},
        {"spawn", process_spawn},
        {"look", process_look},
        {"reap", process_reap},
        {"reap_others", process_reap_others},
        {NULL, NULL},
    };
    push_functions(L, functions);
    return 1;
}

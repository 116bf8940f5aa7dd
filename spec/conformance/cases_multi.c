/*
 * cases_multi: transactions.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"

#define OPEN (&ZOO_OPEN_ACL_UNSAFE)

static zoo_op_t ops[8];
static zoo_op_result_t results[8];
static char name[64], second_name[64];
static struct Stat first_stat, second_stat;

static void begin(void)
{
    memset(results, 0, sizeof(results));
    memset(name, 0, sizeof(name));
    memset(second_name, 0, sizeof(second_name));
}

static void open_with_directory(void)
{
    begin();
    open_client(0);
    CHECK_NUMBER(RESULT(ask_create(0, "/d", "x", ZOO_PERSISTENT)), ZOK);
    CHECK_NUMBER(RESULT(ask_create(0, "/d/old", "x", ZOO_PERSISTENT)), ZOK);
    told(0);
}

static int multi(int count)
{
    return RESULT(ask_multi(0, count, ops, results));
}

static void all_kinds(void)
{
    open_with_directory();
    char cut[6] = "";
    zoo_check_op_init(&ops[0], "/d/old", 0);
    zoo_create_op_init(&ops[1], "/d/n-", "ab", 2, OPEN, ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof(name));
    zoo_set_op_init(&ops[2], "/d/old", "abc", 3, 0, &first_stat);
    zoo_create_op_init(&ops[3], "/d/exact", NULL, -1, OPEN, ZOO_EPHEMERAL, cut, sizeof(cut));
    zoo_set_op_init(&ops[4], "/d/old", "abcd", 4, 1, &second_stat); /* in the version that the third part made */
    zoo_delete_op_init(&ops[5], "/d/old", 2);
    zoo_create_op_init(&ops[6], "/d/m", "", 0, OPEN, ZOO_PERSISTENT, NULL, 0);
    CHECK_NUMBER(multi(7), ZOK);
    for (int i = 0; i < 7; i++)
        CHECK_NUMBER(results[i].err, ZOK);
    CHECK(results[1].value == name);
    CHECK_TEXT(name, "/d/n-0000000001");
    CHECK(results[3].value == cut);
    CHECK_TEXT(cut, "/d/ex"); /* cut without an error */
    CHECK(results[6].value == NULL);
    CHECK(results[2].stat == &first_stat && results[4].stat == &second_stat);
    CHECK_NUMBER(first_stat.version, 1);
    CHECK_NUMBER(first_stat.dataLength, 3);
    CHECK_NUMBER(second_stat.version, 2);
    CHECK_NUMBER(second_stat.mzxid, first_stat.mzxid);
    answer *listed = ask_list(0, "/d", NULL);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK_TEXT(listed->text, "exact m n-0000000001");
    answer *found = ask_exists(0, name, NULL);
    CHECK_NUMBER(RESULT(found), ZOK);
    CHECK_NUMBER(found->stat.czxid, first_stat.mzxid); /* one transaction */
    CHECK_NUMBER(found->stat.ephemeralOwner, zoo_client_id(handles[0])->client_id);
}

static void one_fails(void)
{
    static watch w = {0, "w", false};
    open_with_directory();
    CHECK_NUMBER(RESULT(ask_list(0, "/d", &w)), ZOK);
    told(0);
    strcpy(name, "before");
    zoo_create_op_init(&ops[0], "/d/n-", "", 0, OPEN, ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof(name));
    zoo_delete_op_init(&ops[1], "/d/old", -1);
    zoo_create_op_init(&ops[2], "/d/n/none", "", 0, OPEN, ZOO_EPHEMERAL, second_name, sizeof(second_name));
    zoo_set_op_init(&ops[3], "/d/none", "", 0, -1, &first_stat);
    zoo_check_op_init(&ops[4], "/d", -1);
    CHECK_NUMBER(multi(5), ZNONODE);
    CHECK_NUMBER(results[0].err, ZOK);
    CHECK_NUMBER(results[1].err, ZOK);
    CHECK_NUMBER(results[2].err, ZNONODE);
    CHECK_NUMBER(results[3].err, ZRUNTIMEINCONSISTENCY);
    CHECK_NUMBER(results[4].err, ZRUNTIMEINCONSISTENCY);
    CHECK(results[0].value == NULL && results[2].value == NULL && results[3].stat == NULL);
    CHECK_TEXT(name, "before");
    CHECK_STORY(0, "multi=-101"); /* no watch has fired */
    answer *listed = ask_list(0, "/d", NULL);
    CHECK_NUMBER(RESULT(listed), ZOK);
    CHECK_TEXT(listed->text, "old");
    CHECK_NUMBER(multi(2), ZOK);
    CHECK_TEXT(name, "/d/n-0000000001"); /* the rollback restored the counter */
}

static void reasons(void)
{
    open_with_directory();
    zoo_check_op_init(&ops[0], "/d/old", 1);
    zoo_delete_op_init(&ops[1], "/d/old", -1);
    CHECK_NUMBER(multi(2), ZBADVERSION);
    CHECK_NUMBER(results[0].err, ZBADVERSION);
    CHECK_NUMBER(results[1].err, ZRUNTIMEINCONSISTENCY);
    zoo_check_op_init(&ops[0], "/d/none", -1);
    CHECK_NUMBER(multi(2), ZNONODE);
    zoo_delete_op_init(&ops[0], "/d", -1);
    CHECK_NUMBER(multi(2), ZNOTEMPTY);
    zoo_set_op_init(&ops[0], "/d", "", 0, 3, NULL);
    CHECK_NUMBER(multi(2), ZBADVERSION);
    zoo_create_op_init(&ops[0], "/d", "", 0, OPEN, ZOO_PERSISTENT, NULL, 0);
    CHECK_NUMBER(multi(2), ZNODEEXISTS);
    struct ACL_vector nobody = {0, NULL};
    zoo_create_op_init(&ops[0], "/n", "", 0, &nobody, ZOO_PERSISTENT, name, sizeof(name));
    CHECK_NUMBER(multi(2), ZINVALIDACL);
    CHECK(results[0].value == NULL);
    CHECK_NUMBER(RESULT(ask_exists(0, "/d/old", NULL)), ZOK);
}

static void forbidden(void)
{
    open_with_directory();
    world_forbid("/d", ZOO_PERM_DELETE);
    zoo_check_op_init(&ops[0], "/d", -1);
    zoo_delete_op_init(&ops[1], "/d/old", -1);
    CHECK_NUMBER(multi(2), ZNOAUTH);
    CHECK_NUMBER(results[0].err, ZOK);
    CHECK_NUMBER(results[1].err, ZNOAUTH);
    world_forbid("/d/old", ZOO_PERM_READ);
    zoo_check_op_init(&ops[0], "/d/old", -1);
    CHECK_NUMBER(multi(1), ZNOAUTH);
}

static void in_its_order(void)
{
    open_with_directory();
    zoo_delete_op_init(&ops[0], "/d/old", -1);
    zoo_delete_op_init(&ops[1], "/d", -1);
    zoo_create_op_init(&ops[2], "/d", "", 0, OPEN, ZOO_PERSISTENT, NULL, 0);
    zoo_create_op_init(&ops[3], "/d/n-", "", 0, OPEN, ZOO_PERSISTENT_SEQUENTIAL, name, sizeof(name));
    zoo_create_op_init(&ops[4], "/d/n-", "", 0, OPEN, ZOO_PERSISTENT_SEQUENTIAL, second_name, sizeof(second_name));
    zoo_check_op_init(&ops[5], "/d/n-0000000001", 0);
    CHECK_NUMBER(multi(6), ZOK);
    CHECK_TEXT(name, "/d/n-0000000000");
    CHECK_TEXT(second_name, "/d/n-0000000001");
}

static void rolled_back_anew(void)
{
    open_with_directory();
    /* A rollback of a directory that was deleted and made anew restores its counter. */
    zoo_delete_op_init(&ops[0], "/d/old", -1);
    zoo_delete_op_init(&ops[1], "/d", -1);
    zoo_create_op_init(&ops[2], "/d", "", 0, OPEN, ZOO_PERSISTENT, NULL, 0);
    zoo_check_op_init(&ops[3], "/none", -1);
    CHECK_NUMBER(multi(4), ZNONODE);
    answer *made = ask_create(0, "/d/n-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
    CHECK_NUMBER(RESULT(made), ZOK);
    CHECK_TEXT(made->text, "/d/n-0000000001");
}

static void several_at_once(void)
{
    open_with_directory();
    run_until_alone();
    zoo_create_op_init(&ops[0], "/d/n-", "", 0, OPEN, ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof(name));
    zoo_check_op_init(&ops[1], "/none", -1);
    answer *before = ask_create(0, "/d/n-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
    answer *failed = ask_multi(0, 2, ops, results);
    answer *behind = ask_create(0, "/d/n-", "x", ZOO_EPHEMERAL_SEQUENTIAL);
    CHECK_NUMBER(RESULT(behind), ZOK);
    CHECK_NUMBER(failed->rc, ZNONODE);
    CHECK_TEXT(before->text, "/d/n-0000000001");
    CHECK_TEXT(behind->text, "/d/n-0000000002");
    CHECK_NUMBER(behind->stat.czxid - before->stat.czxid, 2);
}

static void told_in_order(void)
{
    static watch list = {1, "list", false}, old = {1, "old", false}, made = {1, "made", false};
    open_with_directory();
    open_client(1);
    CHECK_NUMBER(RESULT(ask_list(1, "/d", &list)), ZOK);
    CHECK_NUMBER(RESULT(ask_get(1, "/d/old", &old)), ZOK);
    CHECK_NUMBER(RESULT(ask_exists(1, "/d/made", &made)), ZNONODE);
    told(1);
    zoo_set_op_init(&ops[0], "/d/old", "y", 1, -1, NULL);
    zoo_create_op_init(&ops[1], "/d/made", "", 0, OPEN, ZOO_PERSISTENT, NULL, 0);
    zoo_delete_op_init(&ops[2], "/d/old", -1);
    CHECK_NUMBER(multi(3), ZOK);
    settle();
    CHECK_STORY(1, "old:changed made:created list:child");
}

static void checks_only(void)
{
    static watch w = {0, "w", true};
    open_with_directory();
    run_until_alone();
    CHECK_NUMBER(RESULT(ask_get(0, "/d/old", &w)), ZOK);
    told(0);
    answer *first = ask_create(0, "/a", "x", ZOO_PERSISTENT);
    zoo_check_op_init(&ops[0], "/d/old", -1);
    zoo_check_op_init(&ops[1], "/d", 0);
    answer *checked = ask_multi(0, 2, ops, results);
    answer *second = ask_create(0, "/b", "x", ZOO_PERSISTENT);
    CHECK_NUMBER(RESULT(second), ZOK);
    CHECK_NUMBER(checked->rc, ZOK);
    CHECK_NUMBER(second->stat.czxid - first->stat.czxid, 2);
    CHECK_STORY(0, "create=0 multi=0 create=0");
    CHECK_NUMBER(multi(0), ZOK);
}

static void refused_by_the_client(void)
{
    open_with_directory();
    answer *never = new_answer(0, "never");
    zoo_check_op_init(&ops[0], "/", -1);
    zoo_check_op_init(&ops[1], "no path", -1);
    CHECK_NUMBER(zoo_amulti(handles[0], 2, ops, results, on_void, never), ZMARSHALLINGERROR);
    ops[1].type = 15; /* ZOO_CREATE2_OP */
    CHECK_NUMBER(zoo_amulti(handles[0], 2, ops, results, on_void, never), ZUNIMPLEMENTED);
    settle();
    CHECK(!never->done);
    CHECK_STORY(0, "");
}

static void lost(void)
{
    open_with_directory();
    strcpy(name, "before");
    zoo_check_op_init(&ops[0], "/d", 0);
    zoo_create_op_init(&ops[1], "/d/n", "", 0, OPEN, ZOO_EPHEMERAL, name, sizeof(name));
    zoo_set_op_init(&ops[2], "/d", "", 0, -1, &first_stat);
    world_hold_requests(0, true);
    answer *failed = ask_multi(0, 3, ops, results);
    world_cut(0);
    world_hold_requests(0, false);
    CHECK_NUMBER(RESULT(failed), ZCONNECTIONLOSS);
    for (int i = 0; i < 3; i++)
        CHECK_NUMBER(results[i].err, ZCONNECTIONLOSS);
    CHECK(results[1].value == NULL && results[2].stat == NULL);
    CHECK_TEXT(name, "before");
    RUN_UNTIL_TOLD(0, "connected");
    CHECK_NUMBER(RESULT(ask_exists(0, "/d/n", NULL)), ZNONODE);
}

static void under_a_chroot(void)
{
    begin();
    open_client(1);
    CHECK_NUMBER(RESULT(ask_create(1, "/app", "x", ZOO_PERSISTENT)), ZOK);
    open_handle(0, "/app", CASE_TIMEOUT, NULL);
    RUN_UNTIL_TOLD(0, "connected");
    zoo_create_op_init(&ops[0], "/n-", "", 0, OPEN, ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof(name));
    zoo_set_op_init(&ops[1], "/", "y", 1, 0, NULL);
    zoo_check_op_init(&ops[2], "/n-0000000000", 0);
    CHECK_NUMBER(multi(3), ZOK);
    CHECK_TEXT(name, "/n-0000000000");
    CHECK_NUMBER(RESULT(ask_exists(1, "/app/n-0000000000", NULL)), ZOK);
}

static void containers(void)
{
    open_with_directory();
    zoo_create_op_init(&ops[0], "/c", "", 0, OPEN, ZOO_CONTAINER, name, sizeof(name));
    zoo_check_op_init(&ops[1], "/none", -1);
    CHECK_NUMBER(multi(2), ZNONODE);
    CHECK_NUMBER(results[0].err, ZOK);
    CHECK_NUMBER(RESULT(ask_exists(0, "/c", NULL)), ZNONODE);
    close_client(0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDERR_FILENO);
        dup2(nothing, STDOUT_FILENO);
        open_client(0);
        ask_multi(0, 1, ops, results);
        settle();
        _exit(EXIT_SUCCESS);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK_NUMBER(WTERMSIG(status), SIGABRT);
}

const conformance_case multi_cases[] = {
    {"a multi is one transaction, and each operation sees the effects of those before it", all_kinds},
    {"a multi fails as a whole: operations before the failing one get ZOK, those after it ZRUNTIMEINCONSISTENCY",
     one_fails},
    {"a multi fails with the code of its failing operation", reasons},
    {"an ACL applies inside a multi, and a check needs the permission to read", forbidden},
    {"a multi can delete a directory, create it again and create sequential nodes in it", in_its_order},
    {"a directory keeps its counter if a multi that recreated it fails", rolled_back_anew},
    {"a failed multi among pipelined creates uses up a zxid and no sequence number", several_at_once},
    {"the operations of a multi trigger watches in their order, each watch once", told_in_order},
    {"a multi of checks takes a zxid and changes nothing, and an empty one returns ZOK", checks_only},
    {"the client refuses a multi with an invalid path or an unknown type of operation", refused_by_the_client},
    {"a multi whose connection is lost fails in all operations, and writes to no buffer", lost},
    {"a multi adds and removes the chroot", under_a_chroot},
    {"a multi that creates a container aborts the process, unless it fails", containers},
    {NULL, NULL}};

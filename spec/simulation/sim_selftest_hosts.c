/*
 * sim_selftest_hosts: tests of names of hosts, and of the order in which a client tries the servers of its list.
 */
#include "sim_selftest.h"

#include <errno.h>
#include <poll.h>

#include <zookeeper/zookeeper.h>

#include "check.h"
#include "sim_selftest_clients.h"
#include "sim_zookeeper.h"

static void test_names(void)
{
    begin_test("names that do not resolve", 1);
    open_handle(0);
    run_for(SIM_SECOND);
    sim_set_names(0, false);
    int fd = -77, interest = -77;
    struct timeval wait = {-77, 0};
    CHECK(zookeeper_interest(handles[0], &fd, &interest, &wait) != ZOK && fd == -77 && interest == -77);
    CHECK(zoo_state(handles[0]) == ZOO_CONNECTED_STATE);
    zoo_set_servers_resolution_delay(handles[0], -1);
    CHECK(zookeeper_interest(handles[0], &fd, &interest, &wait) == ZOK);
    sim_set_caller(1);
    sim_set_names(1, false);
    CHECK(zookeeper_init2("h1:2181", on_event, 4000, NULL, NULL, 0, NULL) == NULL);
    end_test();
}

static void test_silent_names(void)
{
    begin_test("names that are not answered", 3);
    sim_set_caller(0);
    int dials = sim_dials_descriptor();
    for (int heals = 0; heals < 2; heals++) {
        sim_silence_name(0, 1, true);
        CHECK(sim_resolve("h1:2181") == SIM_NAME_FOUND && sim_resolve("h2:2181") == SIM_NAME_PENDING);
        CHECK(sim_poll(dials, POLLIN) == 0);
        if (heals)
            sim_heal();
        else
            sim_silence_name(0, 1, false);
        CHECK(sim_poll(dials, POLLIN) == POLLIN && sim_resolve("h2:2181") == SIM_NAME_FOUND);
        sim_note_answers();
        CHECK(sim_poll(dials, POLLIN) == 0);
    }
    end_test();
}

/*
 * Returns the server to which a client with this list connects. -1: none. -2: the client cannot be made, and errno says
 * why.
 */
static int leads_to(const char *hosts)
{
    sim_set_caller(0);
    errno = 0;
    handles[0] = zookeeper_init2(hosts, on_event, 4000, NULL, NULL, 0, NULL);
    if (handles[0] == NULL)
        return -2;
    run_for(SIM_SECOND);
    int server = sim_client_server(0);
    zookeeper_close(handles[0]);
    handles[0] = NULL;
    forget_story();
    return server;
}

/* Returns the servers to which clients with this list connect, one bit for each. */
static int lead_to(const char *hosts)
{
    int seen = 0;
    for (int i = 0; i < 20; i++) {
        int server = leads_to(hosts);
        CHECK(server >= 0);
        seen |= server >= 0 ? 1 << server : 0;
    }
    return seen;
}

static void test_hosts(void)
{
    const int last[] = {2};
    begin_test("names of hosts, in a list with a link", 3);
    sim_link_begin(last, 1);
    CHECK(leads_to("link1:2181") == 2 && leads_to("link1:2181/") == 2);
    sim_foreign_create(0, "/app", "", ZOO_PERSISTENT);
    open_at(0, "link1:2181/app");
    CHECK(says(0, "S3 "));
    sim_link_arm(1, "create", "after", 0, NULL);
    create_at(0, "/a", ZOO_EPHEMERAL);
    CHECK(says(0, "S1 s-4 S3 ") && sim_exists("/app/a") && is_text(sim_link_caught(1), "create path=/app/a"));
    zookeeper_close(handles[0]);
    CHECK(leads_to("link2:2181") == -1 && leads_to("link1:2182") == -1);
    CHECK(leads_to("127.0.0.1:1,link1:2181") == 2 && leads_to("link2:2181,h2:2181,link3:2181") == 1);
    CHECK(leads_to("elsewhere:2181,,link1:2181") == 2);
    CHECK(leads_to("link1:2181,h1") == -2 && errno == EINVAL);
    CHECK(leads_to("link1:2181,h1:") == -2 && errno == EINVAL);
    CHECK(leads_to("link1:2181,h1:21x") == -2 && errno == EINVAL);
    /* The order is random, or that of the list after zoo_deterministic_conn_order. */
    CHECK(lead_to("link1:2181,h1:2181,h2:2181") == 7);
    zoo_deterministic_conn_order(1);
    for (int i = 0; i < 8; i++)
        CHECK(leads_to("link1:2181,h1:2181,h2:2181") == 2);
    /*
     * After its first connection a client continues at the beginning of the list, and skips a server after each loss.
     */
    sim_set_caller(0);
    open_at(0, "link1:2181,h1:2181,h2:2181");
    CHECK(says(0, "S3 ") && sim_client_server(0) == 2);
    static const int order[] = {0, 2, 1, 0};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        sim_reset_connections(0);
        CHECK(says(0, "S1 S3 ") && sim_client_server(0) == order[i]);
    }
    end_test();
    begin_test("names of hosts, where they matter", 3);
    sim_end();
    sim_options options = {
        .seed = 9, .servers = 3, .min_session_timeout_ms = 1000, .max_session_timeout_ms = 4000, .named = true};
    sim_begin(&options, NULL);
    while (sim_leader() < 0)
        sim_step();
    for (int i = 0; i < 8; i++)
        CHECK(leads_to("h2:2181") == 1 && leads_to("h3:2181,127.0.0.1:2181") == 2);
    CHECK(leads_to("127.0.0.1:1") == -1 && leads_to("localhost:2181") == -1 && leads_to("h1:1") == -1);
    CHECK(leads_to("elsewhere:2181") == -2 && errno == ENOENT);
    CHECK(leads_to("h4:2181") == -2 && errno == ENOENT);
    open_at(0, "h2:2181");
    CHECK(says(0, "S3 ") && is_text(zoo_get_current_server(handles[0]), "h2:2181"));
    end_test();
    begin_test("names of hosts, where they do not matter", 3);
    CHECK(lead_to("elsewhere") == 7);
    end_test();
}

void sim_selftest_hosts(void)
{
    test_names();
    test_silent_names();
    test_hosts();
}

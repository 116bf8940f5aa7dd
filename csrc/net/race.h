/*
 * race: when to begin a connection with which server, which of them wins, and how long to wait after a failure.
 *
 * docs/design.md, "Connecting", has the rules. The race knows neither sockets nor a clock: connector.c resolves names,
 * makes the connections, and tells it the time and what happened. Each server's first turn in a race is its name's (zkl_race_name).
 * While that is being resolved, the server counts as an address that has not answered yet.
 * All functions: engine_mutex.
 */
#ifndef ZKLOCK_NET_RACE_H
#define ZKLOCK_NET_RACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* How long a server or an address that did not answer in time has its turn last. */
#define ZKL_RACE_LATE_FOR (30 * ZKL_SECOND)

/* How many connections and resolutions of names may be under way at once. */
#define ZKL_RACE_MOST_PENDING 32

typedef enum {
    ZKL_RACE_IDLE,     /* No connection was wanted yet, or the list of servers is new. */
    ZKL_RACE_RACING,   /* Connections are begun, and none is established. */
    ZKL_RACE_REACHED,  /* One is established. */
    ZKL_RACE_TRYING,   /* The C client has its socket. The server's answer to the session's handshake is awaited. */
    ZKL_RACE_ANSWERED, /* The server has answered. */
    ZKL_RACE_PAUSED /* All addresses or the handshake failed, or the connection did not last: the next race has to wait. */
} zkl_race_state;

typedef enum {
    ZKL_RACE_UNRESOLVED, /* It has not had its turn. */
    ZKL_RACE_RESOLVING,  /* Its thread runs. The end of the race does not stop it. */
    ZKL_RACE_RESOLVED    /* There are addresses, or none. */
} zkl_race_name;

/* A server, as far as the race knows it. */
typedef struct {
    int32_t addresses;  /* Their number, as the latest resolution of the name gave it. At first 1. */
    int32_t tried;      /* So many of them have had their turn in this round. */
    zkl_race_name name; /* In this race. */
    bool late;          /* Its turns in this race are behind those of servers that are not late. */
    int64_t late_until; /* It did not answer in time, and is late until then. */
} zkl_race_server;

typedef struct {
    zkl_race_state state;
    zkl_race_server *servers;
    int32_t count;   /* The number of servers. */
    int32_t first;   /* Races begin with this server. */
    int32_t pending; /* So many connections are neither established nor failed, and names not resolved. */
    bool exhausted;  /* Each known address has had its turn in this round, or no more connections may be under way. */
    int32_t current; /* This server was reached. */
    bool refused; /* An address has refused since the round began, or a name did not resolve: that may change soon. */
    int32_t failures;   /* So many servers have failed in a row. */
    int32_t unanswered; /* So many handshakes in a row were not answered in time. */
    int64_t timeout;    /* of the session: granted, or at first what the client asks for */
    int64_t next_at;    /* RACING: the next turn, or the next round. PAUSED: the end of the pause. */
    int64_t ends_at;    /* RACING: the end of the race. ZKL_NEVER before it was exhausted. */
    int64_t begun_at;   /* ANSWERED: its beginning. */
    int64_t answer_by;  /* TRYING: the end of the time for the handshake. */
    uint64_t random;
} zkl_race;

/* A turn: connect to the address of this number, from 0 on, of this server. */
typedef struct {
    int32_t server;
    int32_t address; /* -1: resolve its name */
} zkl_race_turn;

/* `timeout`: the session timeout in nanoseconds. `random`: any number. Returns false if there is no memory. */
bool zkl_race_init(zkl_race *race, int32_t count, int64_t timeout, uint64_t random);
void zkl_race_free(zkl_race *race);
/*
 * There are other servers now. `current`: the index that the server has now with which there is a connection (TRYING, ANSWERED): it
 * goes on. -1: the race is IDLE. Returns false if there is no memory; then nothing has changed.
 */
bool zkl_race_renew(zkl_race *race, int32_t count, int32_t current);
/*
 * There is no connection, and one is wanted. Call it in each turn until the race has REACHED a server. In the states TRYING and
 * ANSWERED it means that the connection has ended.
 */
void zkl_race_want(zkl_race *race, int64_t now);
/*
 * RACING. Returns whether a turn is due, and which. Call it until it returns false. After each turn, one of the next four functions
 * must be called.
 */
bool zkl_race_next(zkl_race *race, int64_t now, zkl_race_turn *turn);
/* The server's name is being resolved. zkl_race_resolved follows unless the race ends before. */
void zkl_race_resolving(zkl_race *race, int32_t server, int64_t now);
/* The server has so many addresses; 0: its name could not be resolved. */
void zkl_race_resolved(zkl_race *race, int32_t server, int32_t addresses, int64_t now);
/* The connection of a turn has been begun; or it has failed at once, or one with this address is still under way. */
void zkl_race_begun(zkl_race *race, int64_t now);
void zkl_race_not_begun(zkl_race *race, bool failed, int64_t now);
/* A connection has failed: the next turn is due now. */
void zkl_race_failed(zkl_race *race, int64_t now);
/* A connection with this server is established: RACING -> REACHED. */
void zkl_race_reached(zkl_race *race, int32_t server);
/* REACHED -> TRYING. Establishing the TCP connection has taken `took`. */
void zkl_race_try(zkl_race *race, int64_t now, int64_t took);
/* TRYING -> ANSWERED. The server has granted a session of `timeout`. */
void zkl_race_answered(zkl_race *race, int64_t now, int64_t timeout);
/* This server, or all its addresses, or its name servers have not answered in time. */
void zkl_race_late(zkl_race *race, int32_t server, int64_t now);
/* RACING. Returns whether the race is over without a winner; it is PAUSED then. */
bool zkl_race_over(zkl_race *race, int64_t now);
/* RACING -> PAUSED: no connection can be made. */
void zkl_race_give_up(zkl_race *race, int64_t now);
/* Returns when the next of these functions is due; ZKL_NEVER: only when something happens. */
int64_t zkl_race_wake_at(const zkl_race *race);

#endif

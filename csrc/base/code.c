/*
 * code: why something failed, and what the C client's result codes mean.
 */
#include "base.h"

#ifdef ZKL_BREAKABLE
uint64_t zkl_broken_rules;
#endif

const char *zkl_code_name(zkl_code code)
{
    static const char *const names[] = {
        [ZKL_OK] = "ok",
        [ZKL_TIMEOUT] = "timeout",
        [ZKL_DISCONNECTED] = "disconnected",
        [ZKL_LOST] = "lost",
        [ZKL_NOT_HELD] = "not_held",
        [ZKL_DEADLOCK] = "deadlock",
        [ZKL_CANCELLED] = "cancelled",
        [ZKL_CLOSED] = "closed",
        [ZKL_NO_AUTH] = "no_auth",
        [ZKL_AUTH_FAILED] = "auth_failed",
        [ZKL_EXHAUSTED] = "exhausted",
        [ZKL_FORKED] = "forked",
        [ZKL_PHASE] = "phase",
        [ZKL_UNSUPPORTED] = "unsupported",
        [ZKL_NO_NODE] = "no_node",
        [ZKL_FAILED] = "failed",
        [ZKL_MISMATCH] = "mismatch",
        [ZKL_MAX_HOLD] = "max_hold",
        [ZKL_NODE_EXISTS] = "node_exists",
        [ZKL_BAD_VERSION] = "bad_version",
        [ZKL_NOT_EMPTY] = "not_empty",
        [ZKL_TLS_FAILED] = "tls_failed",
    };
    return names[code];
}

bool zkl_outcome_unknown(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZRUNTIMEINCONSISTENCY || rc == ZCLOSING ||
           rc == ZSESSIONMOVED;
}

zkl_code zkl_code_of(int rc)
{
    switch (rc) {
    case ZOK:
        return ZKL_OK;
    case ZNOAUTH:
        return ZKL_NO_AUTH;
    case ZAUTHFAILED:
        return ZKL_AUTH_FAILED;
    case ZNONODE:
        return ZKL_NO_NODE;
    case ZNODEEXISTS:
        return ZKL_NODE_EXISTS;
    case ZBADVERSION:
        return ZKL_BAD_VERSION;
    case ZNOTEMPTY:
        return ZKL_NOT_EMPTY;
    case ZSESSIONEXPIRED:
    case ZINVALIDSTATE:
        return ZKL_DISCONNECTED;
    default:
        return zkl_outcome_unknown(rc) ? ZKL_DISCONNECTED : ZKL_FAILED;
    }
}

/* "Quota exceeded", an error of servers since 3.7. */
#define QUOTA_EXCEEDED (-125)

const char *zkl_words_of(int rc)
{
    return rc == QUOTA_EXCEEDED ? "a quota of ZooKeeper's is exceeded" : zerror(rc);
}

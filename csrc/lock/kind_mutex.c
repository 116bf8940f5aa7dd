/*
 * kind_mutex: a mutex. One acquisition holds at a time.
 */
#include "share.h"

const zkl_kind zkl_mutex_kind = {
    ZKL_SHARED_KIND,
    .node = ZKL_NODE_EXCLUSIVE,
    .predictable = true,
    .passes = true,
};

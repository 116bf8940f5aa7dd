/*
 * kind_rwlock: a read/write lock. Readers hold together; a writer holds alone.
 *
 * A writer's entry serves readers of this client too, after the writer. A writer that holds may become a reader (a
 * downgrade).
 */
#include "share.h"

const zkl_kind zkl_reader_kind = {
    ZKL_SHARED_KIND,
    .node = ZKL_NODE_SHARED,
    .together = true,
};

const zkl_kind zkl_writer_kind = {
    ZKL_SHARED_KIND,
    .node = ZKL_NODE_EXCLUSIVE,
    .readwrite = true,
    .weaker = &zkl_reader_kind,
};

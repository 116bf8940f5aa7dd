/* pipe: pipes that wake a thread or make a descriptor readable. They never hold more than a byte or two. Any thread. */
#ifndef ZKLOCK_OS_PIPE_H
#define ZKLOCK_OS_PIPE_H

#include <stdbool.h>

/* Both ends; reading is from the first. {-1, -1}: there is no pipe. */
typedef struct {
    int ends[2];
} zkl_pipe;

#define ZKL_NO_PIPE ((zkl_pipe){{-1, -1}})

/* Makes a pipe whose ends do not block. Returns false, sets errno and leaves `pipe` as ZKL_NO_PIPE if the system refuses it. */
bool zkl_pipe_open(zkl_pipe *pipe);
/* Closes a pipe, if there is one. */
void zkl_pipe_close(zkl_pipe *pipe);
/* Writes a byte. */
void zkl_pipe_write(const zkl_pipe *pipe);
/* Empties the pipe. Returns whether there was a byte. */
bool zkl_pipe_drain(const zkl_pipe *pipe);

#endif

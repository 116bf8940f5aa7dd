/* pipe: pipes that wake a thread or make a descriptor readable. */
#include "pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool zkl_pipe_open(zkl_pipe *pipe)
{
    if (pipe2(pipe->ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        *pipe = ZKL_NO_PIPE;
        return false;
    }
    return true;
}

void zkl_pipe_close(zkl_pipe *pipe)
{
    for (int i = 0; i < 2; i++) {
        if (pipe->ends[i] >= 0) {
            close(pipe->ends[i]);
            pipe->ends[i] = -1;
        }
    }
}

void zkl_pipe_write(const zkl_pipe *pipe)
{
    while (write(pipe->ends[1], "", 1) < 0 && errno == EINTR) {
    }
}

bool zkl_pipe_drain(const zkl_pipe *pipe)
{
    char bytes[16];
    ssize_t n;
    while ((n = read(pipe->ends[0], bytes, sizeof bytes)) < 0 && errno == EINTR) {
    }
    return n > 0;
}

/* background: a process that may go on after the one that has forked it, for which a shell waits. */
#ifndef ZKLOCK_PROCESS_BACKGROUND_H
#define ZKLOCK_PROCESS_BACKGROUND_H

#include <sys/types.h>

/*
 * Forks. Returns the process id of the child, 0 in the child, and -1 with errno if the system refuses. The child gets the signal when
 * its parent ends. To be called before this process has a second thread.
 */
pid_t zkl_background_fork(int at_end_of_parent);
/*
 * In the child: from now on its parent may end. Leaves the session of the terminal, and closes what the child has inherited:
 * standard input, output and error become /dev/null.
 */
void zkl_background_leave(void);

#endif

"""kazoo as a contender. README.md says what it is told and what it answers.

Usage: contender.py SERVERS PATH KIND PERMITS NAME [PATTERNS]
"""

import logging
import os
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

# The names that the other clients give to nodes that must exclude this client.
PATTERNS = {"mutex": "-lock-", "read": "-__WRIT__", "write": "-__WRIT__,-__READ__", "semaphore": ""}


class Check:
    """Who is inside at the same time; README.md says how that is seen."""

    def __init__(self, directory, name, permits):
        self.directory = directory
        self.name = name
        self.permits = permits
        self.exclusive = os.path.join(directory, "exclusive")
        self.shared = os.path.join(directory, "shared." + name)
        self.log = os.open(os.path.join(directory, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.made = None

    def count_shared(self):
        return sum(entry.startswith("shared.") for entry in os.listdir(self.directory))

    def enter(self, mode):
        """Enters; True if somebody is inside who must not be."""
        self.made = self.exclusive if mode in ("mutex", "write") else self.shared
        overlap = False
        try:
            os.close(os.open(self.made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            self.made = None
            overlap = True
        os.write(self.log, ("%s %s\n" % (self.name, mode)).encode())
        if mode == "write":
            overlap |= self.count_shared() > 0
        elif mode == "read":
            overlap |= os.path.exists(self.exclusive)
        elif mode == "semaphore":
            overlap |= self.count_shared() > self.permits
        return overlap

    def leave(self):
        if self.made:
            os.unlink(self.made)
            self.made = None


class Contender:
    def __init__(self, client, path, kind, permits, name, patterns):
        self.client = client
        self.kind = kind
        self.permits = permits
        self.name = name
        self.check = None
        extra = {mode: [text for text in (words if patterns is None else patterns).split(",") if text not in ("", "-")]
                 for mode, words in PATTERNS.items()}
        locks = {
            "mutex": lambda: client.Lock(path, name, extra_lock_patterns=extra["mutex"]),
            "read": lambda: client.ReadLock(path, name, extra_lock_patterns=extra["read"]),
            "write": lambda: client.WriteLock(path, name, extra_lock_patterns=extra["write"]),
            "semaphore": lambda: client.Semaphore(path, name, max_leases=permits),
        }
        self.locks = {mode: locks[mode]() for mode in (("read", "write") if kind == "rw" else (kind,))}

    def turns(self, count, directory, unlocked):
        check = Check(directory, self.name, self.permits)
        overlaps = 0
        for turn in range(count):
            mode = self.kind if self.kind != "rw" else "read" if turn % 4 else "write"
            lock = self.locks[mode]
            if not unlocked:
                lock.acquire()
            overlaps += check.enter(mode)
            check.leave()
            if not unlocked:
                lock.release()
        return overlaps

    def acquire(self, seconds=None):
        try:
            return self.locks[self.kind].acquire(timeout=seconds and float(seconds))
        except LockTimeout:
            return False

    def answer(self, command, *words):
        if command == "turns":
            return "done %s %d" % (words[0], self.turns(int(words[0]), words[1], len(words) > 2))
        if command == "acquire":
            return "ok" if self.acquire(*words) else "timeout"
        if command == "release":
            return "ok" if self.locks[self.kind].release() else "error: not held"
        if command == "enter":
            self.check = Check(words[0], self.name, self.permits)
            return "overlap" if self.check.enter(self.kind) else "ok"
        if command == "leave":
            self.check.leave()
            return "ok"
        if command == "participants":
            return " ".join(self.locks[self.kind].contenders())
        if command == "close":
            self.client.stop()
            return "ok"
        return "error: kazoo cannot do that"


def main(servers, path, kind, permits, name, patterns=None):
    logging.basicConfig(level=logging.CRITICAL)
    client = KazooClient(hosts=servers, timeout=20)
    client.start(timeout=20)
    warm = client.Lock(path + "-warm-" + name)
    warm.acquire()
    warm.release()
    contender = Contender(client, path, kind, int(permits), name, patterns)
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        words = line.split()
        try:
            answer = contender.answer(*words)
        except Exception as problem:  # whatever it is, the spec must get it as an answer
            answer = "error: %r" % problem
        print(answer, flush=True)
        if words == ["close"]:
            break


if __name__ == "__main__":
    if len(sys.argv) not in (6, 7):
        sys.exit("Usage: contender.py SERVERS PATH KIND PERMITS NAME [PATTERNS]")
    main(*sys.argv[1:])

"""kazoo as a contestant: each client a KazooClient of its own, each who wants a lock a thread.

Usage: contestant.py cycle SERVERS PATH COUNT
       contestant.py contend SERVERS PATH CLIENTS WARM_UP SECONDS DIR
       contestant.py crowd SERVERS PATH one|many CLIENTS EACH WARM_UP SECONDS DIR

bench/contestants.lua says where each of these is described.
"""

import logging
import os
import sys
import threading
import time

from kazoo.client import KazooClient


def connect(servers, session):
    client = KazooClient(hosts=servers, timeout=session)
    client.start(timeout=20)
    return client


def median_us(values):
    return sorted(values)[len(values) // 2] * 1e6


def quantiles(values):
    ordered = sorted(values)
    return ",".join("%.1f" % (ordered[(len(ordered) - 1) * percent // 100] * 1e6) for percent in range(101))


def cycle(servers, path, count):
    client = connect(servers, 60)
    lock = client.Lock(path)
    acquires, cycles = [], []
    for index in range(-(count // 10 + 1), count):
        before = time.monotonic()
        lock.acquire()
        between = time.monotonic()
        lock.release()
        if index >= 0:
            acquires.append(between - before)
            cycles.append(time.monotonic() - before)
    client.stop()
    print(
        "name=kazoo count=%d acquire_us=%.1f cycle_us=%.1f quantiles_us=%s"
        % (count, median_us(acquires), median_us(cycles), quantiles(cycles))
    )


class Gate:
    """Whoever holds the lock renames a file that only one can rename."""

    def __init__(self, directory):
        self.free, self.taken = os.path.join(directory, "free"), os.path.join(directory, "taken")

    def is_alone(self):
        try:
            os.rename(self.free, self.taken)
        except OSError:
            return False
        os.rename(self.taken, self.free)
        return True


def crowd(servers, path, kind, clients, each, warm_up, seconds, directory):
    gate = Gate(directory)
    connections = [connect(servers, 10) for _ in range(clients)]
    turns, violations = [0] * clients * each, [0] * clients * each
    start = time.monotonic() + warm_up
    end = start + seconds

    def take_turns(index):
        lock = connections[index % clients].Lock("%s-%d" % (path, index + 1) if kind == "many" else path)
        at = 0
        while at < end:
            lock.acquire()
            at = time.monotonic()
            if kind == "one" and not gate.is_alone():
                violations[index] += 1
            if start <= at < end:
                turns[index] += 1
            lock.release()

    threads = [threading.Thread(target=take_turns, args=(index,)) for index in range(clients * each)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(
        "name=kazoo clients=%d each=%d seconds=%.3f turns=%d violations=%d failures=0"
        % (clients, each, seconds, sum(turns), sum(violations)),
        flush=True,
    )
    os._exit(0)  # the server closes the sessions: stopping each takes long


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    arguments = sys.argv[1:]
    if len(arguments) == 4 and arguments[0] == "cycle":
        cycle(arguments[1], arguments[2], int(arguments[3]))
    elif len(arguments) == 7 and arguments[0] == "contend":
        servers, path, clients, warm_up, seconds, directory = arguments[1:]
        crowd(servers, path, "one", int(clients), 1, float(warm_up), float(seconds), directory)
    elif len(arguments) == 9 and arguments[0] == "crowd" and arguments[3] in ("one", "many"):
        servers, path, kind, clients, each, warm_up, seconds, directory = arguments[1:]
        crowd(servers, path, kind, int(clients), int(each), float(warm_up), float(seconds), directory)
    else:
        sys.exit("Usage: contestant.py cycle|contend|crowd SERVERS PATH ...")

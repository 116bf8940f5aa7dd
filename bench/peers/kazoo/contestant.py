"""kazoo as a contestant: each client a KazooClient of its own and a thread.

Usage: contestant.py cycle SERVERS PATH COUNT
       contestant.py contend SERVERS PATH CLIENTS WARM_UP SECONDS DIR

A holder renames a file in DIR that only one can rename: `violations` counts the times that somebody else had.
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
    print("name=kazoo count=%d acquire_us=%.1f cycle_us=%.1f" % (count, median_us(acquires), median_us(cycles)))


def contend(servers, path, clients, warm_up, seconds, directory):
    free, taken = os.path.join(directory, "free"), os.path.join(directory, "taken")
    connections = [connect(servers, 10) for _ in range(clients)]
    turns, violations = [0] * clients, [0] * clients
    start = time.monotonic() + warm_up
    end = start + seconds

    def take_turns(index):
        lock = connections[index].Lock(path)
        at = 0
        while at < end:
            lock.acquire()
            at = time.monotonic()
            try:
                os.rename(free, taken)
            except OSError:
                violations[index] += 1
            if start <= at < end:
                turns[index] += 1
            os.rename(taken, free)
            lock.release()

    threads = [threading.Thread(target=take_turns, args=(index,)) for index in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(
        "name=kazoo clients=%d seconds=%.3f turns=%d violations=%d failures=0"
        % (clients, seconds, sum(turns), sum(violations)),
        flush=True,
    )
    os._exit(0)  # the sessions are closed by the server: stopping each takes long


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    arguments = sys.argv[1:]
    if len(arguments) == 4 and arguments[0] == "cycle":
        cycle(arguments[1], arguments[2], int(arguments[3]))
    elif len(arguments) == 7 and arguments[0] == "contend":
        contend(
            arguments[1], arguments[2], int(arguments[3]), float(arguments[4]), float(arguments[5]), arguments[6]
        )
    else:
        sys.exit("Usage: contestant.py cycle|contend SERVERS PATH ...")

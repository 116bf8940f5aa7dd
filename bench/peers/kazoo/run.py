"""Runs a command while it holds a kazoo Lock, and exits with the command's code: what `zklock run` is compared with.

Usage: run.py SERVERS PATH COMMAND [ARG…]
"""

import subprocess
import sys

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1])
client.start(timeout=20)
with client.Lock(sys.argv[2]):
    code = subprocess.call(sys.argv[3:])
client.stop()
client.close()
sys.exit(code)

#!/usr/bin/env lua
os.exit(require("zklock.cli")(arg))

--- zklock unlock: releases what `zklock lock` has acquired for this shell.

local codes = require "zklock.cli.codes"
local process = require "zklock.process"
local shell = require "zklock.cli.shell"

local unlock = { summary = "Release what zklock lock has acquired for this shell." }

function unlock.define(parser)
    parser:usage "Usage: zklock unlock"
end

function unlock.run(_, context)
    local name = os.getenv "ZKLOCK_HOLDER"
    if not name then
        return context:fail(codes.FAILED, "ZKLOCK_HOLDER is not set: zklock lock has acquired nothing for this shell")
    end
    local holder, fd = shell.by_name(name)
    if not holder then
        return context:fail(codes.LOST, "the lock is not held any more: it was lost, or released before")
    end
    process.signal(holder, "TERM")
    while not process.poll({ fd }, math.huge)[fd] do
    end
    return 0
end

return unlock

--- zklock completion: prints a script that completes the command line in a shell.

local codes = require "zklock.cli.codes"

local completion = { summary = "Print a script that completes zklock's command line in a shell." }

--- Shells, and the method of argparse that writes for them.
local WRITERS = { bash = "get_bash_complete", zsh = "get_zsh_complete", fish = "get_fish_complete" }

function completion.define(parser)
    parser:argument "shell":choices { "bash", "zsh", "fish" }:description "The shell."
end

function completion.run(arguments, context)
    local parser = context.parser
    local written = context.output:line(parser[WRITERS[arguments.shell]](parser))
    return written and 0 or codes.FAILED
end

return completion

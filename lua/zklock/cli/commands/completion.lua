--- zklock completion: prints a script that completes the command line in a shell.
--
-- argparse writes it. It takes a PATH for a file, and knows nothing of a command behind `--`.

local codes = require "zklock.cli.codes"

local ipairs = ipairs

local completion = { summary = "Print a script that completes zklock's command line in a shell." }

local SHELLS = { "bash", "zsh", "fish" }

--- The subcommands that run a command.
local RUNNING = { "run", "once", "dev" }

function completion.define(parser)
    parser:argument "shell":choices(SHELLS):description "The shell."
end

--- The function that writes for each shell.
local WRITERS = {}

function WRITERS.bash(parser)
    return parser:get_bash_complete()
end

--- A file in the shell's path of functions, or the argument of eval.
local ZSH_END = [[
_zklock_command() {
  local -i at=$words[(i)--]
  (( at < CURRENT )) || return 1
  words=("${(@)words[at+1,-1]}")
  (( CURRENT -= at ))
  _normal
}

if [ "$funcstack[1]" = _zklock ]; then
  _zklock
else
  compdef _zklock zklock
fi
]]

function WRITERS.zsh(parser)
    local script = parser:get_zsh_complete():gsub('(\n        "%*?): :_files"', '%1:path: "')
    for _, name in ipairs(RUNNING) do
        script = script:gsub("(\n    " .. name .. "%)\n.-)(        && return 0)", '%1        "*: :_zklock_command" \\\n%2', 1)
    end
    return (script:gsub("_zklock\n$", ZSH_END))
end

local FISH_END = [[

function __fish_zklock_command
    set -l words (commandline -poc)
    if set -l at (contains -i -- -- $words)
        complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..-1]) (commandline -ct))
    end
end
complete -c zklock -f -n 'not contains -- -- (commandline -poc)'
]]

function WRITERS.fish(parser)
    local script = parser:get_fish_complete():gsub("(\n[^\n]* )%-r( %-d)", "%1-rF%2") .. FISH_END
    for _, name in ipairs(RUNNING) do
        script = script .. ("complete -c zklock -n '__fish_zklock_seen_command %s' -a '(__fish_zklock_command)'\n"):format(name)
    end
    return script .. ("complete -c zklock -n '__fish_zklock_seen_command completion' -xa '%s'\n"):format(table.concat(SHELLS, " "))
end

function completion.run(arguments, context)
    local written = context.output:line(WRITERS[arguments.shell](context.parser))
    return written and 0 or codes.FAILED
end

return completion

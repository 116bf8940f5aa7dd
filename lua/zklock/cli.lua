--- cli: the command `zklock`. Reads the command line, and runs one subcommand.
--
-- A subcommand is a module `zklock.cli.commands.NAME`, which is loaded only when it is called:
--
--     summary              one line for --help
--     define(parser)       adds its arguments and options to an argparse command
--     run(arguments, context) -> exit code (zklock.cli.codes)
--
-- `arguments` is argparse's result; `arguments.command_line` is the list of words after the first `--`, or nil. `context` has what
-- all subcommands need:
--
--     context.output       zklock.cli.output: writes for people, or JSON
--     context.signals      descriptor of the signals that were caught (zklock.process): INT, TERM, HUP, QUIT and more
--     context.input        if a subcommand sets it: waits of the client also poll `input.descriptor()`, and call `input.take()`,
--                          which may raise an error, when something is there
--     context.guard        if a subcommand has one (zklock.cli.supervisor): the guardian, which ends when the subcommand ends
--     context:connect(arguments)
--                          opens a client by the settings (zklock.cli.session), which is closed when the subcommand ends
--     context.stop(code, message, exit)
--                          ends the subcommand with this message, and the exit code, or that of a code of zklock's API
--     context.check(result, message, code)
--                          returns a result; if it is nil, ends the subcommand
--     context:fail(code, message, ...)
--                          writes a message to stderr and returns the exit code
--
-- An interruption by a signal is raised out of any wait of the client (zklock.cli.session). The exit code is then 128 and the
-- signal's number.

local process = require "zklock.process"
local codes = require "zklock.cli.codes"
local Context = require "zklock.cli.context"
local version = require "zklock.version"

local concat, insert, remove = table.concat, table.insert, table.remove

--- All subcommands, in the order of --help.
local NAMES = {
    "run", "once", "lead", "lock", "unlock", "hold", "ls", "who", "why", "history", "watch", "top", "ui", "revoke", "break",
    "resize", "doctor", "bench", "dev", "completion"
}

--- The signals that are read from a descriptor. Subcommands decide what they mean.
local CAUGHT = { "INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "TSTP", "CONT", "CHLD" }

--- The subcommand that a command line names: the first word that is the name of one. The words before it, options and their values,
-- are moved behind it.
local function take_name(words)
    for index, word in ipairs(words) do
        for _, name in ipairs(NAMES) do
            if name == word then
                for _ = 1, index - 1 do
                    insert(words, remove(words, 1))
                end
                return name
            end
        end
    end
    return nil
end

--- Splits a command line at the first `--`.
local function split(words)
    local before, after = {}, nil
    for index = 1, #words do
        if after then
            after[#after + 1] = words[index]
        elseif words[index] == "--" then
            after = {}
        else
            before[#before + 1] = words[index]
        end
    end
    return before, after
end

--- The column of the descriptions in argparse's help.
local DESCRIPTIONS = 25

--- Returns argparse's help in fewer lines: a usage with many options has [OPTIONS] in their place, and both names of an option with
-- a value are in one line.
local function shortened(help)
    help = help:gsub("^(Usage: zklock %l+)( .-)\n\n", function(name, words)
        return words:find("--servers", 1, true) and
            name .. " [OPTIONS]" .. words:gsub("%s+", " "):gsub(" %b()", ""):gsub(" %[%-[^%]]*%]", "") .. "\n\n"
    end)
    return (help:gsub("\n +(%-%w [^\n,]*,) *([^\n]*)\n +(%-%-[^\n]*)", function(short, description, long)
        local names = "   " .. short .. " " .. long
        if description == "" then
            return "\n" .. names
        end
        local blanks = (" "):rep(DESCRIPTIONS - #names)
        return "\n" .. names .. (#blanks > 1 and blanks or "\n" .. (" "):rep(DESCRIPTIONS)) .. description
    end))
end

--- Makes the parser. Only the subcommand of this name is loaded; without a name, or for `completion`, all are.
local function new_parser(only)
    local parser = require "argparse"("zklock", "Locks over ZooKeeper for shell scripts and for people.")
    parser:command_target "command"
    parser:require_command(false)
    parser:flag "--version":description "Print the version and exit."
    for _, name in ipairs(NAMES) do
        if only == name or only == nil or only == "completion" then
            local module = require("zklock.cli.commands." .. name)
            local command = parser:command(name):summary(module.summary):description(module.summary)
            command:add_help { action = function()
                print(shortened(command:get_help()))
                os.exit(0)
            end }
            module.define(command)
        end
    end
    return parser
end

--- Runs a parsed subcommand, and closes what it has opened at the end, also after an error or a signal.
local function dispatch(name, arguments, context)
    local ok, code = pcall(require("zklock.cli.commands." .. name).run, arguments, context)
    if not ok then
        code = context:conclude(code)
    end
    context:close()
    return code
end

--- Writes out what is left of the output. Returns the exit code: no output that was lost is taken for a success.
local function finish(context, code)
    local written, problem = context.output:flush()
    if not written and not context.output.closed then
        context:warn("could not write the output: %s", tostring(problem))
    end
    return (written or code ~= 0) and code or codes.FAILED
end

--- Runs the subcommand of this name that a command line asks for. Returns the exit code.
---@param before table the words before `--`
---@param after? table the words behind it
local function run(name, before, after, context)
    local made, parser = pcall(new_parser, name)
    if not made then
        return context:fail(codes.FAILED, "%s", Context.describe(parser))
    end
    local ok, arguments = parser:pparse(before)
    if ok and arguments.version then
        context.output:line("zklock " .. version)
        return 0
    elseif ok and not name then
        ok, arguments = false, "a subcommand is missing: " .. concat(NAMES, ", ")
    end
    if not ok then
        if (name == "run" or name == "once") and not after then
            arguments = string.format("%s; the command goes behind --, as in: zklock %s PATH -- COMMAND", arguments, name)
        end
        return context:fail(codes.FAILED, "%s (zklock%s --help shows the usage)", tostring(arguments), name and " " .. name or "")
    end
    arguments.command_line, context.parser, context.quiet = after, parser, arguments.quiet or false
    return dispatch(name, arguments, context)
end

---@param words table the command line
---@return integer # exit code
return function(words)
    process.fill_standard()
    local signals, message = process.catch(CAUGHT)
    local context = Context.new(signals)
    if not signals then
        return context:fail(codes.FAILED, "cannot receive signals: %s", message)
    end
    local before, after = split(words)
    local name = take_name(before)
    local code = run(name, before, after, context)
    if name == "lock" and code ~= 0 and not context.in_background then
        context.output:line(require("zklock.cli.shell").fail(code)) -- otherwise the shell's eval would have nothing to fail by
    end
    return finish(context, code)
end

--- Writes the man pages of the command: zklock.1, and one for each subcommand, from what --help prints.
--
--   lua5.4 tools/manpages.lua DIRECTORY COMMAND…     COMMAND is how zklock is called

local directory = assert(arg[1], "give a directory")
local command = table.concat(arg, " ", 2)

--- Returns what a command line of zklock prints.
local function output_of(words)
    local pipe = assert(io.popen(command .. " " .. words))
    local text = pipe:read "*a"
    assert(pipe:close(), command .. " " .. words .. " fails")
    return text
end

--- Escapes text for roff.
local function escape(text)
    return (text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("^([.'])", "\\&%1"))
end

--- Splits help into its usage (ways to call it, with "\1" between them), its description, and its lists:
-- { title =, { term, text }… }.
local function parse(help)
    local paragraphs = {}
    for paragraph in (help:gsub("%s+$", "") .. "\n\n"):gmatch "(.-)\n\n" do
        paragraphs[#paragraphs + 1] = paragraph
    end
    local usage = paragraphs[1]:gsub("^Usage: ", ""):gsub("\n%s+zklock ", "\1zklock "):gsub("%s+", " ")
    local lists, description = {}, nil
    for index = 2, #paragraphs do
        local title, rest = paragraphs[index]:match "^(%u%l+):\n(.*)$"
        if title then
            local list = { title = title }
            for line in rest:gmatch "[^\n]+" do
                local term, text = line:match "^   (%S.-)%s%s+(%S.*)$"
                local last = list[#list]
                if term then
                    list[#list + 1] = { term, text }
                elseif line:find "^   %S" then
                    list[#list + 1] = { line:match "^%s*(.*)$", "" }
                else
                    last[2] = (last[2] == "" and "" or last[2] .. " ") .. line:match "^%s*(.*)$"
                end
            end
            lists[#lists + 1] = list
        else
            description = (description and description .. " " or "") .. paragraphs[index]:gsub("%s+", " ")
        end
    end
    return usage, description or "", lists
end

--- "zklock 1.0.0"
local version = output_of("--version"):match "^[^\n]+"

--- Writes a page. Returns the lists of its help.
local function write_page(name, help)
    local usage, description, lists = parse(help)
    local file = assert(io.open(directory .. "/" .. name .. ".1", "w"))
    local function line(...)
        assert(file:write(string.format(...), "\n"))
    end
    line('.TH %s 1 "" "%s" "User Commands"', name:upper():gsub("%-", "\\-"), version)
    line(".SH NAME\n%s \\- %s", escape(name), escape((description:gsub("%.$", ""))))
    line(".SH SYNOPSIS\n%s", (escape(usage):gsub("\1", "\n.br\n")))
    line(".SH DESCRIPTION\n%s", escape(description))
    for _, list in ipairs(lists) do
        line(".SH %s", list.title:upper())
        for _, item in ipairs(list) do
            line(".TP\n.B %s\n%s", escape(item[1]), escape(item[2]))
        end
    end
    if help:find("--servers", 1, true) then
        line(".SH ENVIRONMENT\nZKLOCK_SERVERS stands for \\-\\-servers,")
        line "ZKLOCK_SESSION_TIMEOUT for \\-\\-session\\-timeout, and so on."
        line(".SH FILES\n~/.config/zklock.lua and /etc/zklock.lua return a table with the same settings in Lua:\n.br")
        line('return { servers = "zk1:2181,zk2:2181", session_timeout = 20 }')
    end
    line(".SH EXIT STATUS")
    if name == "zklock-doctor" then
        line("0 nothing is wrong, 1 there are warnings, 2 there are errors.")
    end
    line("120 the lock was lost, 121 no connection to ZooKeeper, 122 not allowed, 123 refused, 124 timed out,\n" ..
        "125 zklock itself failed, 126 and 127 the command cannot be executed, or does not exist.")
    local pages = {}
    for _, list in ipairs(lists) do
        for _, item in ipairs(list.title == "Commands" and list or {}) do
            pages[#pages + 1] = escape("zklock-" .. item[1]) .. "(1)"
        end
    end
    line(".SH SEE ALSO\n%s", pages[1] and table.concat(pages, ", ") or "zklock(1)")
    line(".PP\nThe page docs/command.md of https://github.com/zklock/zklock.")
    assert(file:close())
    return lists
end

for _, list in ipairs(write_page("zklock", output_of "--help")) do
    for _, item in ipairs(list.title == "Commands" and list or {}) do
        write_page("zklock-" .. item[1], output_of(item[1] .. " --help"))
    end
end

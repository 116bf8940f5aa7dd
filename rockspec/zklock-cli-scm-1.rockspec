rockspec_format = "3.0"
package = "zklock-cli"
version = "scm-1"

source = {
  url = "git+https://github.com/zklock/zklock.git",
}

description = {
  summary = "Distributed locks over ZooKeeper for shell scripts",
  detailed = [[
The command zklock. "zklock run" runs a command while it holds a lock, and stops it before another machine can
have the lock. Other subcommands show locks, their holders and queues, also in a browser.]],
  homepage = "https://github.com/zklock/zklock",
  license = "MIT",
  labels = { "zookeeper", "lock", "distributed" },
}

dependencies = {
  "lua >= 5.1, < 5.6",
  "zklock == scm-1",
  -- Debian: lua-argparse, lua-dkjson, lua-socket.
  "argparse >= 0.7.1",
  "dkjson >= 2.5",
  "luasocket >= 3.0",
}

build = {
  type = "builtin",
  modules = {
    ["zklock.process"] = {
      sources = {
        "csrc/process/background.c",
        "csrc/process/groups.c",
        "csrc/process/guardian.c",
        "csrc/process/lua_process.c",
        "csrc/process/signals.c",
        "csrc/process/spawn.c",
      },
      defines = { "_GNU_SOURCE", "_FORTIFY_SOURCE=2" },
      incdirs = { "csrc" },
    },
    ["zklock.cli"] = "lua/zklock/cli.lua",
    ["zklock.cli.acquire"] = "lua/zklock/cli/acquire.lua",
    ["zklock.cli.background"] = "lua/zklock/cli/background.lua",
    ["zklock.cli.bug_report"] = "lua/zklock/cli/bug_report.lua",
    ["zklock.cli.codes"] = "lua/zklock/cli/codes.lua",
    ["zklock.cli.commands.bench"] = "lua/zklock/cli/commands/bench.lua",
    ["zklock.cli.commands.break"] = "lua/zklock/cli/commands/break.lua",
    ["zklock.cli.commands.completion"] = "lua/zklock/cli/commands/completion.lua",
    ["zklock.cli.commands.dev"] = "lua/zklock/cli/commands/dev.lua",
    ["zklock.cli.commands.doctor"] = "lua/zklock/cli/commands/doctor.lua",
    ["zklock.cli.commands.history"] = "lua/zklock/cli/commands/history.lua",
    ["zklock.cli.commands.hold"] = "lua/zklock/cli/commands/hold.lua",
    ["zklock.cli.commands.lead"] = "lua/zklock/cli/commands/lead.lua",
    ["zklock.cli.commands.lock"] = "lua/zklock/cli/commands/lock.lua",
    ["zklock.cli.commands.ls"] = "lua/zklock/cli/commands/ls.lua",
    ["zklock.cli.commands.once"] = "lua/zklock/cli/commands/once.lua",
    ["zklock.cli.commands.resize"] = "lua/zklock/cli/commands/resize.lua",
    ["zklock.cli.commands.revoke"] = "lua/zklock/cli/commands/revoke.lua",
    ["zklock.cli.commands.run"] = "lua/zklock/cli/commands/run.lua",
    ["zklock.cli.commands.top"] = "lua/zklock/cli/commands/top.lua",
    ["zklock.cli.commands.ui"] = "lua/zklock/cli/commands/ui.lua",
    ["zklock.cli.commands.unlock"] = "lua/zklock/cli/commands/unlock.lua",
    ["zklock.cli.commands.watch"] = "lua/zklock/cli/commands/watch.lua",
    ["zklock.cli.commands.who"] = "lua/zklock/cli/commands/who.lua",
    ["zklock.cli.commands.why"] = "lua/zklock/cli/commands/why.lua",
    ["zklock.cli.context"] = "lua/zklock/cli/context.lua",
    ["zklock.cli.diagnosis"] = "lua/zklock/cli/diagnosis.lua",
    ["zklock.cli.figures"] = "lua/zklock/cli/figures.lua",
    ["zklock.cli.locks"] = "lua/zklock/cli/locks.lua",
    ["zklock.cli.looking"] = "lua/zklock/cli/looking.lua",
    ["zklock.cli.output"] = "lua/zklock/cli/output.lua",
    ["zklock.cli.screen"] = "lua/zklock/cli/screen.lua",
    ["zklock.cli.server"] = "lua/zklock/cli/server.lua",
    ["zklock.cli.service"] = "lua/zklock/cli/service.lua",
    ["zklock.cli.session"] = "lua/zklock/cli/session.lua",
    ["zklock.cli.settings"] = "lua/zklock/cli/settings.lua",
    ["zklock.cli.shell"] = "lua/zklock/cli/shell.lua",
    ["zklock.cli.supervisor"] = "lua/zklock/cli/supervisor.lua",
    ["zklock.ui"] = "lua/zklock/ui.lua",
    ["zklock.ui.app"] = "lua/zklock/ui/app.lua",
    ["zklock.ui.history"] = "lua/zklock/ui/history.lua",
    ["zklock.ui.log"] = "lua/zklock/ui/log.lua",
    ["zklock.ui.model"] = "lua/zklock/ui/model.lua",
    ["zklock.ui.nginx"] = "lua/zklock/ui/nginx.lua",
    ["zklock.ui.page"] = "lua/zklock/ui/page.lua",
    ["zklock.ui.server"] = "lua/zklock/ui/server.lua",
  },
  install = {
    bin = { zklock = "lua/zklock/cli/main.lua" },
  },
}

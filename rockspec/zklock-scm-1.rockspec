rockspec_format = "3.0"
package = "zklock"
version = "scm-1"

source = {
  url = "git+https://github.com/zklock/zklock.git",
}

description = {
  summary = "A distributed lock over ZooKeeper",
  detailed = [[
Locks that several machines can share, for Lua programs: a C extension over the ZooKeeper C client. No C
function blocks, a grant carries a fencing token, and held() is true only while nobody else can hold the
lock.]],
  homepage = "https://github.com/zklock/zklock",
  license = "MIT",
  labels = { "zookeeper", "lock", "distributed" },
}

dependencies = {
  "lua >= 5.1, < 5.5",
}

-- Debian, Ubuntu: libzookeeper-st-dev. Elsewhere than in the usual places: ZOOKEEPER_DIR=…, or ZOOKEEPER_INCDIR=… and
-- ZOOKEEPER_LIBDIR=…, after `luarocks make` or `luarocks install`.
external_dependencies = {
  ZOOKEEPER = {
    header = "zookeeper/zookeeper.h",
    library = "zookeeper_st",
  },
}

build = {
  type = "builtin",
  modules = {
    ["zklock.core"] = {
      -- CMakeLists.txt has the same list; spec/contract/packaging_spec.lua checks that the two agree.
      sources = {
        "csrc/client.c",
        "csrc/contenders.c",
        "csrc/notify_socket.c",
        "csrc/engine.c",
        "csrc/poll_owner.c",
        "csrc/adjacent.c",
        "csrc/predict.c",
        "csrc/lease.c",
        "csrc/queue.c",
        "csrc/lua_alarm.c",
        "csrc/lua_client.c",
        "csrc/lua_core.c",
        "csrc/lua_operation.c",
        "csrc/lua_scope.c",
        "csrc/lua_stack.c",
        "csrc/lua_lock_spec.c",
        "csrc/lua_handle.c",
        "csrc/memory.c",
        "csrc/operation.c",
        "csrc/permits.c",
        "csrc/names.c",
        "csrc/registry.c",
        "csrc/request.c",
        "csrc/scope.c",
        "csrc/entry.c",
        "csrc/session.c",
        "csrc/share.c",
        "csrc/lock_spec.c",
        "csrc/handle.c",
        "csrc/handle_operation.c",
        "csrc/user_watch.c",
        "csrc/watch.c",
        "csrc/xid.c",
      },
      -- More hardening is set by CFLAGS and LIBFLAG: docs/security.md.
      defines = { "_GNU_SOURCE", "_FORTIFY_SOURCE=2" },
      incdirs = { "$(ZOOKEEPER_INCDIR)" },
      libdirs = { "$(ZOOKEEPER_LIBDIR)" },
      libraries = { "zookeeper_st", "pthread", "dl" },
    },
    ["zklock"] = "lua/zklock/init.lua",
    ["zklock.adapters"] = "lua/zklock/adapters.lua",
    ["zklock.adapters.auto"] = "lua/zklock/adapters/auto.lua",
    ["zklock.adapters.blocking"] = "lua/zklock/adapters/blocking.lua",
    ["zklock.adapters.copas"] = "lua/zklock/adapters/copas.lua",
    ["zklock.adapters.cqueues"] = "lua/zklock/adapters/cqueues.lua",
    ["zklock.adapters.luv"] = "lua/zklock/adapters/luv.lua",
    ["zklock.adapters.openresty"] = "lua/zklock/adapters/openresty.lua",
    ["zklock.client"] = "lua/zklock/client.lua",
    ["zklock.hold"] = "lua/zklock/hold.lua",
    ["zklock.key"] = "lua/zklock/key.lua",
    ["zklock.lock"] = "lua/zklock/lock.lua",
    ["zklock.multi"] = "lua/zklock/multi.lua",
    ["zklock.node"] = "lua/zklock/node.lua",
    ["zklock.options"] = "lua/zklock/options.lua",
    ["zklock.owner"] = "lua/zklock/owner.lua",
    ["zklock.protect"] = "lua/zklock/protect.lua",
    ["zklock.rwlock"] = "lua/zklock/rwlock.lua",
    ["zklock.semaphore"] = "lua/zklock/semaphore.lua",
    ["zklock.sha256"] = "lua/zklock/sha256.lua",
    ["zklock.transaction"] = "lua/zklock/transaction.lua",
    ["zklock.wait"] = "lua/zklock/wait.lua",
  },
  -- The pages, and docs/types for language servers.
  copy_directories = { "docs" },
}

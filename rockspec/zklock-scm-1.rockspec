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
      -- CMakeLists.txt has the same lists; spec/contract/packaging_spec.lua checks that the two agree.
      sources = {
        "csrc/base/acl.c",
        "csrc/base/code.c",
        "csrc/base/memory.c",
        "csrc/base/path.c",
        "csrc/zk/heartbeat.c",
        "csrc/zk/lease.c",
        "csrc/zk/request.c",
        "csrc/zk/session.c",
        "csrc/zk/session_log.c",
        "csrc/zk/watch.c",
        "csrc/lock/acquisition.c",
        "csrc/lock/adjacent.c",
        "csrc/lock/contenders.c",
        "csrc/lock/entry.c",
        "csrc/lock/kind_mutex.c",
        "csrc/lock/kind_rwlock.c",
        "csrc/lock/kind_semaphore.c",
        "csrc/lock/lock_spec.c",
        "csrc/lock/locks.c",
        "csrc/lock/names.c",
        "csrc/lock/permits.c",
        "csrc/lock/predict.c",
        "csrc/lock/queue.c",
        "csrc/lock/share.c",
        "csrc/ops/operation.c",
        "csrc/ops/user_watch.c",
        "csrc/engine/engine.c",
        "csrc/engine/turn.c",
        "csrc/client/alarm.c",
        "csrc/client/client.c",
        "csrc/client/client_object.c",
        "csrc/client/clock.c",
        "csrc/client/handle.c",
        "csrc/client/handle_acquisition.c",
        "csrc/client/handle_operation.c",
        "csrc/client/handle_question.c",
        "csrc/client/handle_request.c",
        "csrc/client/handles.c",
        "csrc/client/io_turn.c",
        "csrc/client/life.c",
        "csrc/client/log.c",
        "csrc/client/notifications.c",
        "csrc/client/notify_socket.c",
        "csrc/client/pipe.c",
        "csrc/client/poll_owner.c",
        "csrc/client/published.c",
        "csrc/client/registry.c",
        "csrc/client/scope.c",
        "csrc/client/wake.c",
        "csrc/client/xid.c",
        "csrc/lua/lua_alarm.c",
        "csrc/lua/lua_box.c",
        "csrc/lua/lua_client.c",
        "csrc/lua/lua_core.c",
        "csrc/lua/lua_field.c",
        "csrc/lua/lua_handle.c",
        "csrc/lua/lua_lock_spec.c",
        "csrc/lua/lua_operation.c",
        "csrc/lua/lua_scope.c",
        "csrc/lua/lua_stack.c",
      },
      -- More hardening is set by CFLAGS and LIBFLAG: docs/security.md.
      defines = { "_GNU_SOURCE", "_FORTIFY_SOURCE=2" },
      incdirs = { "csrc", "$(ZOOKEEPER_INCDIR)" },
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
    ["zklock.adapters.openresty.draining"] = "lua/zklock/adapters/openresty/draining.lua",
    ["zklock.adapters.openresty.holds"] = "lua/zklock/adapters/openresty/holds.lua",
    ["zklock.adapters.openresty.pump"] = "lua/zklock/adapters/openresty/pump.lua",
    ["zklock.adapters.openresty.requests"] = "lua/zklock/adapters/openresty/requests.lua",
    ["zklock.adapters.openresty.ticker"] = "lua/zklock/adapters/openresty/ticker.lua",
    ["zklock.adapters.openresty.waiters"] = "lua/zklock/adapters/openresty/waiters.lua",
    ["zklock.check_self"] = "lua/zklock/check_self.lua",
    ["zklock.client"] = "lua/zklock/client.lua",
    ["zklock.hold"] = "lua/zklock/hold.lua",
    ["zklock.key"] = "lua/zklock/key.lua",
    ["zklock.lock"] = "lua/zklock/lock.lua",
    ["zklock.lock.acquire"] = "lua/zklock/lock/acquire.lua",
    ["zklock.lock.arguments"] = "lua/zklock/lock/arguments.lua",
    ["zklock.lock.ask"] = "lua/zklock/lock/ask.lua",
    ["zklock.lock.attempt"] = "lua/zklock/lock/attempt.lua",
    ["zklock.lock.class"] = "lua/zklock/lock/class.lua",
    ["zklock.lock.deadlock"] = "lua/zklock/lock/deadlock.lua",
    ["zklock.lock.ending"] = "lua/zklock/lock/ending.lua",
    ["zklock.lock.record"] = "lua/zklock/lock/record.lua",
    ["zklock.lock.release"] = "lua/zklock/lock/release.lua",
    ["zklock.lock.with_lock"] = "lua/zklock/lock/with_lock.lua",
    ["zklock.multi"] = "lua/zklock/multi.lua",
    ["zklock.multi.acquire"] = "lua/zklock/multi/acquire.lua",
    ["zklock.multi.contended"] = "lua/zklock/multi/contended.lua",
    ["zklock.multi.members"] = "lua/zklock/multi/members.lua",
    ["zklock.multi.release"] = "lua/zklock/multi/release.lua",
    ["zklock.multi.run"] = "lua/zklock/multi/run.lua",
    ["zklock.node"] = "lua/zklock/node.lua",
    ["zklock.options"] = "lua/zklock/options.lua",
    ["zklock.owner"] = "lua/zklock/owner.lua",
    ["zklock.protect"] = "lua/zklock/protect.lua",
    ["zklock.rwlock"] = "lua/zklock/rwlock.lua",
    ["zklock.semaphore"] = "lua/zklock/semaphore.lua",
    ["zklock.sha256"] = "lua/zklock/sha256.lua",
    ["zklock.transaction"] = "lua/zklock/transaction.lua",
    ["zklock.wait"] = "lua/zklock/wait.lua",
    ["zklock.with_lock"] = "lua/zklock/with_lock.lua",
  },
  -- The pages, and docs/types for language servers.
  copy_directories = { "docs" },
}

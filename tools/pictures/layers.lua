--- The layers of zklock, what passes between them, and which thread runs each.

local canvas = require "tools.pictures.canvas"

local WORDS = {
    en = {
        title = "The layers and their threads",
        desc = "The layers from top to bottom: the Lua program, lua/zklock, csrc/lua, csrc/client, csrc/engine, csrc/lock and "
            .. "csrc/ops side by side, csrc/zk, the ZooKeeper C client, the servers. Calls go down, callbacks and notifications go "
            .. "up. The program's thread runs the layers down to csrc/lua. csrc/client is for any thread, under desk.mutex. The "
            .. "layers from csrc/engine down are run by the thread that holds engine_mutex: the I/O thread, or a caller. All "
            .. "layers of csrc/ use csrc/base.",
        call = "a call", back = "a callback or a notification",
        bands = { "The program's thread", "Any thread, under desk.mutex", "The thread that holds engine_mutex" },
        program = "Lua program", program_note = "its coroutines and its event loop",
        lua = "the public API; waiting loop and pump; adapters",
        binding = "the binding: checks types; handles as userdata",
        client = "handles: what callers ask for, and the results",
        engine = "puts the layers together; runs what is due",
        lock = "acquisitions, entries, queues", ops = "operations",
        zk = "session, requests in flight, watches, lease",
        library = "the ZooKeeper C client, without threads",
        servers = "ZooKeeper servers", base = "memory, paths, codes: used by all layers of csrc/",
        between = { "lock:acquire", "coroutines are woken", "_core:acquire", "C never calls Lua", "zkl_client_acquire",
            "a byte in the notify pipe", "zkl_engine_acquire", "acquisition_changed", "zkl_send_create", "replies, events",
            "zoo_acreate2", "completions", "requests", "answers, events" },
        threads = {
            { "held", "The I/O thread: one for each client",
                "It holds engine_mutex, except while it sleeps in poll. In each turn it passes the list of requests to the engine, "
                .. "runs what is due, publishes results, and writes one byte. It alone connects." },
            { "blue", "A caller: a thread of the program, in C",
                "It puts its request on the client's list. If engine_mutex is free, it runs the engine, which sends at once. "
                .. "Otherwise it wakes the I/O thread. A caller that blocks the whole program may also poll the server's socket." }
        },
        rules = { "What may touch what", "C never calls Lua. The engine never sees a lua_State. The binding never sees a "
            .. "zhandle_t. A layer includes only the public headers of the layers below it." }
    },
    zh = {
        title = "分层与线程",
        desc = "自上而下：Lua 程序、lua/zklock、csrc/lua、csrc/client、csrc/engine、并列的 csrc/lock 和 csrc/ops、csrc/zk、"
            .. "ZooKeeper C 客户端、服务器。调用向下，回调和通知向上。程序的线程运行到 csrc/lua。csrc/client 可在任意线程，"
            .. "由 desk.mutex 保护。csrc/engine 以下由持有 engine_mutex 的线程运行：I/O 线程，或某个调用者。"
            .. "csrc/ 的各层都使用 csrc/base。",
        call = "调用", back = "回调或通知",
        bands = { "程序的线程", "任意线程，由 desk.mutex 保护", "持有 engine_mutex 的线程" },
        program = "Lua 程序", program_note = "它的协程与事件循环",
        lua = "公共 API；等待循环与 pump；适配器",
        binding = "绑定层：检查类型；userdata 即句柄",
        client = "句柄：调用者的请求与结果",
        engine = "组合各层；执行到期的工作",
        lock = "锁请求、条目、队列", ops = "操作",
        zk = "会话、在途的请求、监听、租约",
        library = "ZooKeeper C 客户端，无线程版",
        servers = "ZooKeeper 服务器", base = "内存、路径、错误码：csrc/ 各层共用",
        between = { "lock:acquire", "唤醒协程", "_core:acquire", "C 从不调用 Lua", "zkl_client_acquire",
            "向通知管道写一个字节", "zkl_engine_acquire", "acquisition_changed", "zkl_send_create", "响应、事件",
            "zoo_acreate2", "完成回调", "请求", "响应、事件" },
        threads = {
            { "held", "I/O 线程：每个客户端一个",
                "除了在 poll 中休眠，它始终持有 engine_mutex。每一轮中，它把请求列表交给引擎，执行到期的工作，公布结果，"
                .. "并写一个字节。只有它建立连接。" },
            { "blue", "调用者：程序的线程，在 C 中",
                "它把请求放入客户端的列表。若 engine_mutex 空闲，就自己运行引擎，立即发送；否则唤醒 I/O 线程。"
                .. "阻塞整个程序的调用者也可以轮询服务器的套接字。" }
        },
        rules = { "谁可以接触谁", "C 从不调用 Lua。引擎看不到 lua_State。绑定层看不到 zhandle_t。每一层只包含下层的公共头文件。" }
    }
}

local UP = { class = "event", dashed = true }
local BAND, BOX, BETWEEN = 8, 46, 30 -- room around a band's boxes; heights of a box, of what is between boxes

return function(language)
    local words = WORDS[language]
    local c = canvas.new { language = language, title = words.title, desc = words.desc }
    local left, width = canvas.MARGIN, canvas.WIDTH - 2 * canvas.MARGIN
    local inner, inner_width = left + BAND, width - 2 * BAND
    local y = c:key(c:headline() + 4, { { words.call, arrow = {} }, { words.back, arrow = UP } }) + 12

    local function layer(at, wide, name, note)
        c:box(at, y, wide, BOX, { lines = { { name, bold = true }, { note, class = "soft" } } })
    end

    --- Draws what passes between a layer and the next one: calls down, and callbacks up unless there are none.
    local number = 0
    local function between(only_down)
        local middle = y + BETWEEN / 2 - 9.5
        c:arrow { inner + 12, y, inner + 12, y + BETWEEN }
        c:text(inner + 22, middle, words.between[number + 1], { code = words.between[number + 1]:find "[_:]" ~= nil })
        if not only_down then
            c:arrow({ inner + inner_width - 12, y + BETWEEN, inner + inner_width - 12, y }, UP)
        end
        c:text(inner + inner_width - 22, middle, words.between[number + 2],
            { anchor = "end", code = words.between[number + 2]:find "_" ~= nil })
        number = number + 2
        y = y + BETWEEN
    end

    --- Draws a band: what one thread runs. `draw` draws its boxes from y on. What follows is drawn over the band.
    local function band(index, class, high, draw)
        c:box(left, y, width, high, { class = class })
        y = c:text(inner, y + 5, words.bands[index], { bold = true }) + 4
        draw()
        y = y + BAND
    end

    band(1, "blue", 28 + 3 * BOX + 2 * BETWEEN + BAND, function()
        layer(inner, inner_width, words.program, words.program_note)
        y = y + BOX
        between()
        layer(inner, inner_width, "lua/zklock", words.lua)
        y = y + BOX
        between(true)
        layer(inner, inner_width, "csrc/lua", words.binding)
        y = y + BOX
    end)
    between()
    band(2, "waits", 28 + BOX + BAND, function()
        layer(inner, inner_width, "csrc/client", words.client)
        y = y + BOX
    end)
    between()
    band(3, "held", 28 + 4 * BOX + 2 * BETWEEN + 20 + BAND, function()
        layer(inner, inner_width, "csrc/engine", words.engine)
        y = y + BOX
        local half = inner_width * 0.62
        for _, arrows in ipairs { { inner + 12, inner + half - 18 }, { inner + half + 18, inner + inner_width - 12 } } do
            c:arrow { arrows[1], y, arrows[1], y + 20 }
            c:arrow({ arrows[2], y + 20, arrows[2], y }, UP)
        end
        y = y + 20
        layer(inner, half - 4, "csrc/lock", words.lock)
        layer(inner + half + 4, inner_width - half - 4, "csrc/ops", words.ops)
        y = y + BOX
        between()
        layer(inner, inner_width, "csrc/zk", words.zk)
        y = y + BOX
        between()
        layer(inner, inner_width, "libzookeeper_st", words.library)
        y = y + BOX
    end)
    between()
    y = c:box(left, y, width, 36, { round = 18, lines = { { words.servers, bold = true } } }) + 12
    layer(left, width, "csrc/base", words.base)
    y = y + BOX + 20

    for _, thread in ipairs(words.threads) do
        c:box(left, y + 2, 16, 16, { class = thread[1], round = 3 })
        y = c:text(left + 24, y, thread[2], { bold = true })
        y = c:text(left + 24, y, thread[3], { width = width - 24 }) + 12
    end
    y = c:text(left, y, words.rules[1], { bold = true })
    c:text(left, y, words.rules[2], { width = width })
    return c:finish()
end

--- A holder that is paused: its lease ends before its session, another client is granted the lock, and the store refuses the late
-- write by its token.

local canvas = require "tools.pictures.canvas"

local WORDS = {
    en = {
        title = "A holder that is paused",
        desc = "A timeline from top to bottom, for a holder A, ZooKeeper, a waiter B and a store. At s, A sends a heartbeat. Its "
            .. "answer proves a lease until s~+~T/2. A is paused. The lease ends: held() is false. Later the session ends, and A's "
            .. "node is deleted. B is granted the lock with a larger token, 57, and writes. A goes on, and its write with token 41 "
            .. "arrives late. The store refuses it.",
        lanes = { "A", "ZooKeeper", "B", "store" },
        steps = {
            { "s", "A holds, with token 41. It sends a heartbeat. The answer proves its lease until s~+~T/2." },
            { nil, "A is paused, just before a write." },
            { "s~+~T/2", "The lease ends. In A, held() is false from now on." },
            { "r~+~T or later", "The session ends, and A's node is deleted. B is woken, and is granted the lock with token 57." },
            { nil, "B writes with token 57. The store keeps 57." },
            { nil, "A goes on. Its write has token 41, which is less than 57: the store refuses it." }
        },
        note = "T: the session timeout. r: the leader has restarted the session's timer at r or later. "
            .. "The lease ends at s~+~T/2, and never after r~+~9T/10.",
        key = { "waits", "has the lock", "is paused" }
    },
    zh = {
        title = "持有者被暂停",
        desc = "自上而下的时间线：持有者 A、ZooKeeper、等待者 B、存储。A 在时刻 s 发出心跳，响应证明租约有效到 s~+~T/2。A 被暂停。租约到期：held() 为 false。"
            .. "之后会话结束，A 的节点被删除。B 获得锁，令牌 57 更大，并写入。A 恢复运行，带令牌 41 的写入迟到，被存储拒绝。",
        lanes = { "A", "ZooKeeper", "B", "存储" },
        steps = {
            { "s", "A 持有锁，令牌为 41。A 发出心跳，响应证明租约有效到 s~+~T/2。" },
            { nil, "A 在写入之前被暂停。" },
            { "s~+~T/2", "租约到期。从此在 A 中 held() 为 false。" },
            { "r~+~T 或更晚", "会话结束，A 的节点被删除。B 被唤醒并获得锁，令牌为 57。" },
            { nil, "B 用令牌 57 写入。存储记下 57。" },
            { nil, "A 恢复运行。它的写入带令牌 41，小于 57：存储拒绝写入。" }
        },
        note = "T：会话超时。r：领导者在 r 或更晚的时刻重置过会话的计时。租约在 s~+~T/2 到期，且绝不晚于 r~+~9T/10。",
        key = { "等待", "持有锁", "暂停" }
    }
}

--- Texts are written with "~" for a space at which no line may end.
local function joined(text)
    return (text:gsub("~", "\194\160"))
end

local A, ZOOKEEPER, B, STORE = 246, 306, 362, 412

return function(language)
    local words = WORDS[language]
    local c = canvas.new { language = language, title = words.title, desc = words.desc:gsub("~", " ") }
    local left, width = canvas.MARGIN, A - 24 - canvas.MARGIN
    local half = 9 -- of a bar's width
    local top = c:key(c:headline() + 4, {
        { words.key[1], box = { class = "waits", round = 3 } }, { words.key[2], box = { class = "held", round = 3 } },
        { words.key[3], box = { class = "gone", round = 3, dashed = true } }
    }) + 14
    for index, lane in ipairs { A, ZOOKEEPER, B, STORE } do
        c:text(lane, top, words.lanes[index], { bold = true, anchor = "middle" })
    end
    top = top + 24

    -- The texts say how high each step is.
    local y, steps = top + 6, {}
    for index, step in ipairs(words.steps) do
        local from = y
        if step[1] then
            y = c:text(left, y, joined(step[1]), { bold = true })
        end
        y = c:text(left, y, joined(step[2]), { width = width })
        steps[index] = { from = from, to = y, middle = (from + y) / 2 }
        y = y + 14
    end
    local bottom = y
    local heartbeat, pause, lapse, grant, write, late = steps[1], steps[2], steps[3], steps[4], steps[5], steps[6]

    -- The lanes: a line for each, and bars for what A and B have.
    for _, lane in ipairs { A, ZOOKEEPER, B, STORE } do
        c:line({ lane, top, lane, bottom }, { class = "rule" })
    end
    c:box(A - half, heartbeat.from, 2 * half, lapse.from + 4 - heartbeat.from, { class = "held", round = 3 })
    c:box(A - half, pause.from, 2 * half, late.middle - 14 - pause.from, { class = "gone", round = 3, dashed = true })
    c:box(A - half, pause.from, 2 * half, lapse.from + 4 - pause.from, { class = "held", round = 3, dashed = true })
    c:box(A - half, late.middle - 14, 2 * half, bottom - late.middle + 14, { round = 3 })
    c:box(B - half, heartbeat.from, 2 * half, grant.middle + 6 - heartbeat.from, { class = "waits", round = 3 })
    c:box(B - half, grant.middle + 6, 2 * half, bottom - grant.middle - 6, { class = "held", round = 3 })
    c:line({ A - half - 12, lapse.from + 4, A + half + 4, lapse.from + 4 }, { class = "fail" })

    -- What is sent.
    c:arrow { A + half, heartbeat.from + 12, ZOOKEEPER, heartbeat.from + 12 }
    c:arrow({ ZOOKEEPER, heartbeat.from + 34, A + half, heartbeat.from + 34 }, { class = "event" })
    c:cross(ZOOKEEPER, grant.from + 10)
    c:arrow({ ZOOKEEPER, grant.middle + 14, B - half, grant.middle + 14 }, { class = "event" })
    c:arrow { B + half, write.middle, STORE, write.middle }
    c:arrow({ A + half, late.middle, STORE - 9, late.middle }, { class = "fail" })
    c:cross(STORE, late.middle)
    c:text(left, bottom + 8, joined(words.note), { class = "soft", width = canvas.WIDTH - 2 * left })
    return c:finish()
end

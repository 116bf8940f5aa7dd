--- The queue of a mutex: each waiter watches the node before its own; a release; a waiter that dies.

local canvas = require "tools.pictures.canvas"
local nodes = require "tools.pictures.nodes"

local WORDS = {
    en = {
        title = "The queue of a lock",
        desc = "Four nodes in the order of their numbers: A holds, B, C and D wait. Each waiter watches the node before its own. "
            .. "A releases: its node is deleted, and only B is woken and granted. C's process dies, and its session ends: "
            .. "its node is deleted. D is woken and lists the queue. B's node is still ahead: D is not granted, and watches it.",
        holds = "holds", waits = "waits", dead = "died", gone = "deleted",
        frames = {
            "Each waiter watches the node before its own.",
            "A releases: its node is deleted. Only B is woken, and is granted the lock.",
            "C's process dies. When its session ends, its node is deleted, and D is woken.",
            "D lists the queue: B's node is still ahead. D is not granted. It watches B's node."
        },
        watch = "watches", event = "is woken by a deleted node"
    },
    zh = {
        title = "锁的队列",
        desc = "四个节点按序号排列：A 持有锁，B、C、D 等待，各自监听前一个节点。A 释放锁：它的节点被删除，只有 B 被唤醒并获得锁。"
            .. "C 的进程崩溃，会话结束后它的节点被删除。D 被唤醒，重新列出队列。B 的节点仍在前面，所以 D 没有获得锁，改为监听 B 的节点。",
        holds = "持有", waits = "等待", dead = "崩溃", gone = "已删除",
        frames = {
            "每个等待者只监听前一个节点。",
            "A 释放锁，它的节点被删除。只有 B 被唤醒，并获得锁。",
            "C 的进程崩溃。会话结束后，它的节点被删除，D 被唤醒。",
            "D 重新列出队列：B 的节点仍在前面。D 没有获得锁，改为监听 B 的节点。"
        },
        watch = "监听", event = "因节点被删除而被唤醒"
    }
}

local NAMES = { "A 0007", "B 0008", "C 0009", "D 0010" }
local WATCH, EVENT = { class = "watch", dashed = true }, { class = "event" }

--- The states of the four nodes in each frame, and the arrows: who watches whom, which deletion wakes whom.
local FRAMES = {
    { { "holds", "waits", "waits", "waits" }, watches = { { 2, 1 }, { 3, 2 }, { 4, 3 } }, events = {} },
    { { "gone", "holds", "waits", "waits" }, watches = { { 3, 2 }, { 4, 3 } }, events = { { 1, 2 } } },
    { { nil, "holds", "dead", "waits" }, watches = {}, events = { { 3, 4 } } },
    { { nil, "holds", nil, "waits" }, watches = { { 4, 2 } }, events = {} }
}

return function(language)
    local words = WORDS[language]
    local c = canvas.new { language = language, title = words.title, desc = words.desc }
    local y = c:key(c:headline() + 4, { { words.watch, arrow = WATCH }, { words.event, arrow = EVENT } }) + 14

    for number, frame in ipairs(FRAMES) do
        y = nodes.frame(c, y, number, words.frames[number]) + 8
        local list = {}
        for index, name in ipairs(NAMES) do
            local state = frame[1][index] or "gone"
            list[index] = { state = state, lines = { name, words[state] } }
        end
        local row = nodes.row(c, y, list, 32)
        for _, watch in ipairs(frame.watches) do
            if watch[1] - watch[2] == 1 then
                nodes.beside(c, row[watch[1]], row[watch[2]], WATCH)
            else
                nodes.around(c, row[watch[1]], row[watch[2]], WATCH)
            end
        end
        for _, event in ipairs(frame.events) do
            nodes.beside(c, row[event[1]], row[event[2]], EVENT)
        end
        y = row[1].bottom + 22
    end
    return c:finish()
end

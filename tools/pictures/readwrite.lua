--- Readers and writers: which contender waits for which.

local canvas = require "tools.pictures.canvas"
local nodes = require "tools.pictures.nodes"

local WORDS = {
    en = {
        title = "Readers and writers",
        desc = "Five contenders in the order of their nodes: readers A and B, writer C, readers D and E. "
            .. "A and B hold together. C waits for both. D and E wait for C, not for each other. "
            .. "When A and B have released, C holds alone. When C has released, D and E hold together.",
        reads = "reader", writes = "writer", holds = "holds", waits = "waits", gone = "released",
        key = "waits for",
        frames = {
            "A and B hold together. Writer C waits for all nodes ahead of its own. Readers D and E wait for C only.",
            "A and B have released. C holds alone.",
            "C has released. D and E hold together."
        }
    },
    zh = {
        title = "读者与写者",
        desc = "五个竞争者按节点顺序排列：读者 A、B，写者 C，读者 D、E。A 和 B 同时持有。C 等待 A 和 B。D 和 E 等待 C，互不等待。"
            .. "A 和 B 释放后，C 独占。C 释放后，D 和 E 同时持有。",
        reads = "读", writes = "写", holds = "持有", waits = "等待", gone = "已释放",
        key = "等待",
        frames = {
            "A 和 B 同时持有读锁。写者 C 等待前面的所有节点。读者 D 和 E 只等待 C。",
            "A 和 B 已释放。C 独占写锁。",
            "C 已释放。D 和 E 同时持有读锁。"
        }
    }
}

-- Arrows to a node and from it end beside each other.
local WAITS = { class = "watch", dashed = true, from = -12, to = 12 }
local KINDS = { { "A", "reads" }, { "B", "reads" }, { "C", "writes" }, { "D", "reads" }, { "E", "reads" } }
local FRAMES = {
    { "holds", "holds", "waits", "waits", "waits" },
    { "gone", "gone", "holds", "waits", "waits" },
    { "gone", "gone", "gone", "holds", "holds" }
}

return function(language)
    local words = WORDS[language]
    local c = canvas.new { language = language, title = words.title, desc = words.desc }
    local y = c:key(c:headline() + 4, { { words.key, arrow = WAITS } }) + 14

    for number, states in ipairs(FRAMES) do
        y = nodes.frame(c, y, number, words.frames[number]) + 10
        local list = {}
        for index, kind in ipairs(KINDS) do
            list[index] = { state = states[index], lines = { kind[1], words[kind[2]], words[states[index]] } }
        end
        local row = nodes.row(c, y, list, 22)
        for index, state in ipairs(states) do
            for other = 1, index - 1 do
                local conflict = KINDS[index][2] == "writes" or KINDS[other][2] == "writes"
                if state == "waits" and states[other] ~= "gone" and conflict then
                    if index - other == 1 then
                        nodes.beside(c, row[index], row[other], WAITS)
                    else
                        nodes.around(c, row[index], row[other], WAITS)
                    end
                end
            end
        end
        y = row[1].bottom + 30
    end
    return c:finish()
end

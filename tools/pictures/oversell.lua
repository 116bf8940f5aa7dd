--- What overselling is, with the numbers of a recorded run of `make demo-openresty`: docs/pictures/oversell.txt.

local canvas = require "tools.pictures.canvas"

local RECORD = "docs/pictures/oversell.txt"

local WORDS = {
    en = {
        title = "{requests} requests for {stock} pieces",
        desc = "A proxy passes {requests} requests to {services} services. They sell from one stock of {stock} pieces. "
            .. "Without a lock {v1} orders are accepted, with a lock in each process {v2}, with zklock {v3}.",
        requests = "requests", proxy = "proxy", service = "service", pieces = "pieces",
        rounds = {
            v1 = { "no lock", "Requests overwrite the stock. It still says {left}." },
            v2 = { "a lock in each process", "It excludes requests of its own process only." },
            v3 = { "zklock", "One request of all services has the lock at a time." }
        },
        orders = "{sold} sold", over = "{over} oversold", right = "each piece once",
        source = "A recorded run of make demo-openresty"
    },
    zh = {
        title = "{stock} 件商品，{requests} 个请求",
        desc = "代理把 {requests} 个请求分给 {services} 个服务，它们共用 {stock} 件库存。不加锁时接受了 {v1} 个订单，每个进程一把锁时 {v2} 个，用 zklock 时 {v3} 个。",
        requests = "请求", proxy = "代理", service = "服务", pieces = "件库存",
        rounds = {
            v1 = { "不加锁", "请求互相覆盖库存，库存显示还剩 {left} 件。" },
            v2 = { "每个进程一把锁", "只能排斥本进程内的请求。" },
            v3 = { "zklock", "所有服务中，同一时刻只有一个请求持有锁。" }
        },
        orders = "卖出 {sold} 件", over = "超卖 {over} 件", right = "每件只卖一次",
        source = "数据来自 make demo-openresty 的一次运行"
    }
}

--- Reads the recorded run.
local function read_record()
    local file = assert(io.open(RECORD, "rb"))
    local text = file:read "*a"
    file:close()
    local stock, requests, services = text:match "\n(%d+) pieces; (%d+) requests .- (%d+) services"
    local record = { stock = tonumber(stock), requests = tonumber(requests), services = tonumber(services), rounds = {} }
    for version, left, sold in text:gmatch "\n(v%d) [^\n]-(%d+) +(%d+) +%d+ +%d+" do
        local round = { version = version, left = tonumber(left), sold = tonumber(sold) }
        record.rounds[#record.rounds + 1] = round
        record[version] = round.sold
        assert(round.sold >= record.stock, "a round that sold less has no bar")
    end
    assert(record.requests and #record.rounds == 3, RECORD .. " is no output of make demo-openresty")
    return record
end

local function filled(text, values)
    return (text:gsub("{(%w+)}", values))
end

return function(language)
    local words, record = WORDS[language], read_record()
    local c = canvas.new { language = language, title = filled(words.title, record), desc = filled(words.desc, record) }
    local left, width = canvas.MARGIN, canvas.WIDTH - 2 * canvas.MARGIN

    local y = c:headline() + 8

    -- Requests, the proxy, the services, the stock.
    local high, gap, low = 30, 34, 66
    local first, second, third, fourth = 90, 60, 94, 70
    local x = left
    c:box(x, y + (low - 44) / 2, first, 44, { round = 22, lines = { { tostring(record.requests), bold = true }, words.requests } })
    c:arrow { x + first, y + low / 2, x + first + gap, y + low / 2 }
    x = x + first + gap
    c:box(x, y + (low - high) / 2, second, high, { lines = { words.proxy } })
    local from, to = x + second, x + second + gap
    local stock = to + third + gap
    for service = 1, record.services do
        local top = y + (service - 1) * (low - high) / (record.services - 1)
        c:arrow { from, y + low / 2, to, top + high / 2 }
        c:box(to, top, third, high, { class = "blue", lines = { words.service .. " " .. service } })
        c:arrow { to + third, top + high / 2, stock, y + low / 2 + (service - 1.5) * 12 }
    end
    c:box(stock, y + (low - 50) / 2, fourth, 50, { lines = { { tostring(record.stock), bold = true }, words.pieces } })
    y = y + low + 16

    -- A bar for each round: as long as what was sold. What was not there is red.
    local unit = width / record.requests
    for _, round in ipairs(record.rounds) do
        local over = round.sold - record.stock
        local values = { left = round.left, sold = round.sold, over = over }
        c:text(left, y, words.rounds[round.version][1], { size = 16, bold = true })
        y = c:text(left + width, y, filled(words.orders, values), { size = 16, bold = true, anchor = "end" }) + 3
        c:box(left, y, record.stock * unit, 26, { class = "held", round = 0, lines = { tostring(record.stock) } })
        if over > 0 then
            c:box(left + record.stock * unit, y, over * unit, 26, { class = "bad", round = 0,
                lines = { { filled(words.over, values), bold = true, class = "wrong" } } })
        else
            c:text(left + record.stock * unit + 8, y + 3.5, words.right, { class = "good", bold = true })
        end
        y = c:text(left, y + 30, filled(words.rounds[round.version][2], values), { class = "soft", width = width }) + 12
    end
    c:text(left, y, words.source, { class = "soft" })
    return c:finish()
end

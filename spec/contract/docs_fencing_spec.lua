--- The SQL of docs/fencing.md on PostgreSQL and MariaDB: the text of the page, with tokens of real locks.
--
-- spec/behaviour/token_spec.lua runs it on SQLite, and the page's script on Redis.

local cluster = require "spec.support.cluster"
local databases = require "spec.support.databases"
local documentation = require "spec.support.documentation"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local zk = require "spec.support.zk"

--- Returns the statements of the blocks whose first line names a database, in their order on the page.
local function statements_for(database)
    local found = {}
    for _, block in ipairs(documentation.code_blocks(files.read(cluster.root .. "/docs/fencing.md"))) do
        if block.language == "sql" and block.text:match("^%-%- ([^\n]*)"):find(database, 1, true) then
            for statement in block.text:gsub("%-%-[^\n]*", ""):gmatch("%s*([^;]*);") do
                found[#found + 1] = statement
            end
        end
    end
    return found
end

--- For each database:
--     page         the statements of the page
--     parameters   the names of their parameters, in their order: of the writes by numbers and by text, and of the read
--     nullable     permits nulls
--     strict       makes a transaction that has read a row fail if it writes the row after another transaction
local DATABASES = {
    postgresql = {
        page = statements_for "PostgreSQL",
        parameters = {
            numbers = { "item", "amount", "high", "low", "grants" },
            text = { "item", "amount", "text" },
            reading = { "item", "high", "low", "grants" }
        },
        nullable = [[ALTER TABLE stock ALTER COLUMN token_high DROP NOT NULL, ALTER COLUMN token_low DROP NOT NULL,
            ALTER COLUMN token_grants DROP NOT NULL, ALTER COLUMN token DROP NOT NULL]],
        null_refused = "null value",
        strict = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        strictly_refused = "could not serialize access"
    },
    mariadb = {
        page = statements_for "MariaDB",
        parameters = {
            numbers = { "amount", "high", "low", "grants", "item", "high", "low", "grants" },
            text = { "amount", "text", "item", "text" },
            reading = { "high", "low", "grants", "item", "high", "low", "grants" }
        },
        nullable = [[ALTER TABLE stock MODIFY token_high BIGINT NULL, MODIFY token_low BIGINT NULL,
            MODIFY token_grants BIGINT NULL, MODIFY token CHAR(30) CHARACTER SET ascii COLLATE ascii_bin NULL]],
        null_refused = "cannot be null",
        strict = "SET SESSION innodb_snapshot_isolation = ON",
        strictly_refused = "Record has changed since last read"
    }
}

--- Returns a token as parameters in SQL; "NULL" stands for itself.
local function as_token(high, low, grants, text)
    local function number(value)
        return value == "NULL" and value or ("%.0f"):format(value)
    end
    return { high = number(high), low = number(low), grants = number(grants), text = text and "'" .. text .. "'" or "NULL" }
end

--- Returns tokens of one path in the order of its grants: two nodes; a third one for which the upper half of the czxid has grown,
-- and the lower half begins again; a node that serves three grants; and its successor.
local function real_tokens()
    local servers = cluster.start { zxid = "5ffffffc0" }
    local client, tokens = fixture.client({}, servers.servers), {}
    local function take(lock)
        assert(lock:acquire(60))
        local high, low, grants = lock:token_numbers()
        tokens[#tokens + 1] = as_token(high, low, grants, lock:token())
        assert(lock:release())
    end
    local lock = client:mutex "/lock"
    repeat
        assert(#tokens < 100, "the lower half has not begun again")
        take(lock)
    until tokens[#tokens].high == "6"
    while #tokens > 3 do
        table.remove(tokens, 1)
    end
    lock = client:mutex("/lock", { linger = 60 })
    for _ = 1, 3 do
        take(lock)
    end
    local observer = zk.connect(servers.servers)
    assert(observer:delete("/lock/" .. observer:children("/lock")[1]))
    observer:close()
    eventually(function()
        return client:stats().entries == 0 -- a heartbeat has noticed
    end)
    take(lock)
    fixture.clean()
    servers:stop()
    return tokens
end

describe("The SQL of docs/fencing.md #once #long", function()
    local tokens

    setup(function()
        tokens = real_tokens()
    end)

    it("is tried with tokens whose parts grow and shrink", function()
        local found = {}
        for index = 2, #tokens do
            local shape = ""
            for _, part in ipairs { "high", "low", "grants" } do
                local before, now = tonumber(tokens[index - 1][part]), tonumber(tokens[index][part])
                shape = shape .. (now > before and "+" or now < before and "-" or "=")
            end
            found[index - 1] = shape
        end
        assert.same({ "=+=", "+-=", "=+=", "==+", "==+", "=+-" }, found)
    end)

    for _, kind in ipairs { "postgresql", "mariadb" } do
        local database = DATABASES[kind]
        local create, update, alter, update_text, update_reading, select_amount = (table.unpack or unpack)(database.page)

        describe("on " .. kind, function()
            local server, session

            setup(function()
                server = databases.start(kind)
            end)

            teardown(function()
                if server then
                    server:stop()
                end
            end)

            --- Returns a session, in which the statements are prepared: "numbers", "text" and "reading".
            local function prepared(new)
                new:prepare("numbers", update)
                new:prepare("text", update_text)
                new:prepare("reading", update_reading)
                return new
            end

            local function another()
                return prepared(fixture.remember(server:session()))
            end

            before_each(function()
                session = fixture.remember(server:session())
                for _, statement in ipairs { "DROP TABLE IF EXISTS stock", create, alter,
                    "INSERT INTO stock (item, amount) VALUES (7, 0)" } do
                    assert(session:run(statement))
                end
                prepared(session)
            end)

            after_each(fixture.clean)

            --- Returns the parameters of a statement. `amount` is not needed for "reading"; `item` is 7 unless given.
            local function values(form, token, amount, item)
                local list = {}
                for index, name in ipairs(database.parameters[form]) do
                    list[index] = token[name] or tostring(name == "item" and (item or 7) or amount)
                end
                return list
            end

            --- Returns how many rows are updated; or nil and the error.
            local function write(by, form, token, amount, item)
                local updated, problem = by:execute(form, values(form, token, amount, item))
                return updated, not updated and problem or nil
            end

            local function row()
                return session:run("SELECT * FROM stock")[1]
            end

            local function amount()
                return tonumber(session:run("SELECT amount FROM stock WHERE item = 7")[1])
            end

            --- Asserts that each token of a list is accepted after those before it, and these are refused after it.
            local function check_order(form, list)
                for index, token in ipairs(list) do
                    assert.equal(1, write(session, form, token, index))
                    assert.equal(1, write(session, form, token, index)) -- which changes nothing but a counter
                    assert.equal(1, write(session, form, token, 100 + index))
                    local before = row()
                    for earlier = 1, index - 1 do
                        assert.equal(0, write(session, form, list[earlier], 0))
                    end
                    assert.equal(before, row())
                    assert.equal(100 + index, amount())
                end
            end

            it("compares the numbers from left to right, up to the greatest", function()
                local list = {}
                for index, numbers in ipairs {
                    { 0, 0, 0 }, { 0, 0, 1 }, { 0, 0, 4294967295 }, { 0, 1, 0 }, { 0, 2147483648, 7 },
                    { 0, 4294967295, 4294967295 }, { 1, 0, 0 }, { 1, 4294967295, 2 }, { 2, 3, 1 },
                    { 4294967295, 4294967295, 4294967294 }, { 4294967295, 4294967295, 4294967295 }
                } do
                    list[index] = as_token(numbers[1], numbers[2], numbers[3])
                end
                check_order("numbers", list)
            end)

            it("updates no row that does not exist", function()
                assert.equal(0, write(session, "numbers", tokens[1], 1, 8))
                assert.equal(0, write(session, "text", tokens[1], 1, 8))
                assert.equal(0, (session:execute("reading", values("reading", tokens[1], nil, 8))))
            end)

            it("refuses newer tokens too if the comparison meets a null", function()
                local newer, equal = as_token(6, 0, 0), as_token(5, 5, 5)
                assert(session:run(database.nullable))
                for column, accepts in pairs { token_high = 0, token_low = 1, token_grants = 1 } do
                    assert(session:run "UPDATE stock SET amount = 0, token_high = 5, token_low = 5, token_grants = 5")
                    assert(session:run(("UPDATE stock SET %s = NULL"):format(column)))
                    assert.equal(0, write(session, "numbers", equal, 1), column)
                    assert.equal(0, amount())
                    assert.equal(accepts, write(session, "numbers", newer, 1), column) -- the first column decides if it can
                end
                assert(session:run "UPDATE stock SET token = NULL")
                assert.equal(0, write(session, "text", tokens[1], 1))
            end)

            it("accepts no null as a token", function()
                assert.equal(1, write(session, "numbers", as_token(5, 5, 5), 3))
                local before = row()
                assert.equal(0, write(session, "numbers", as_token("NULL", 9, 9), 4))
                assert.equal(0, write(session, "numbers", as_token(5, "NULL", 9), 4))
                local updated, problem = write(session, "numbers", as_token(6, 0, "NULL"), 4)
                assert.is_nil(updated)
                assert.matches(database.null_refused, problem, 1, true)
                assert.equal(0, write(session, "text", as_token(6, 0, 0), 4)) -- has no text
                assert.equal(before, row())
            end)

            it("lets no earlier holder write between a read and the write that depends on it", function()
                local older, newer, writer = tokens[4], tokens[5], another()
                assert.equal(1, write(writer, "numbers", older, 10))
                assert.equal(10, amount())
                assert.equal(1, write(writer, "numbers", older, 9)) -- a read without a token does not prevent it
                for _ = 1, 2 do
                    local updated, shown = session:execute("reading", values("reading", newer))
                    assert.equal(1, updated)
                    shown = select_amount and assert(session:run((select_amount:gsub("?", "7")))) or shown
                    assert.equal("9", shown[1])
                end
                assert.equal(0, write(writer, "numbers", older, 8))
                assert.equal(1, write(session, "numbers", newer, 8))
                assert.equal(0, (writer:execute("reading", values("reading", older))))
            end)

            for _, form in ipairs { "numbers", "text" } do
                it("by " .. form .. " accepts tokens in their order, equal ones again, and refuses smaller ones", function()
                    check_order(form, tokens)
                end)

                --- A newer and an older token, and two sessions, in each of which a transaction has begun.
                local older, newer, early, late

                local function begin()
                    older, newer, early, late = tokens[4], tokens[5], another(), another()
                    assert(early:run "BEGIN")
                    assert(late:run "BEGIN")
                end

                --- Writes in both transactions, and returns when the second write waits for the first transaction.
                local function write_both(first, second)
                    assert.equal(1, write(early, form, first, 50))
                    late:send_execution(form, values(form, second, 40))
                    session:await_waiting()
                end

                it("by " .. form .. " refuses an older token in a transaction that overlaps with the newer one's", function()
                    begin()
                    write_both(newer, older)
                    assert(early:run "COMMIT")
                    assert.equal(0, (late:updated()))
                    assert(late:run "COMMIT")
                    assert.equal(50, amount())
                end)

                it("by " .. form .. " accepts an older token if the newer one's transaction is rolled back", function()
                    begin()
                    write_both(newer, older)
                    assert(early:run "ROLLBACK")
                    assert.equal(1, (late:updated()))
                    assert(late:run "COMMIT")
                    assert.equal(40, amount())
                end)

                it("by " .. form .. " accepts a newer token in a transaction that overlaps with the older one's", function()
                    begin()
                    write_both(older, newer)
                    assert(early:run "COMMIT")
                    assert.equal(1, (late:updated()))
                    assert(late:run "COMMIT")
                    assert.equal(40, amount())
                end)

                it("by " .. form .. " does not accept an older token in a transaction that has read the row before", function()
                    begin()
                    assert(late:run "SELECT * FROM stock")
                    assert.equal(1, write(early, form, newer, 50))
                    assert(early:run "COMMIT")
                    assert.not_equal(1, write(late, form, older, 40)) -- an error where this is the database's default
                    assert(late:run "ROLLBACK")
                    assert(late:run(database.strict))
                    assert(late:run "BEGIN")
                    assert(late:run "SELECT * FROM stock")
                    assert.equal(1, write(early, form, tokens[6], 60))
                    local updated, problem = write(late, form, newer, 40) -- as new as the row that it has read
                    assert.is_nil(updated)
                    assert.matches(database.strictly_refused, problem, 1, true)
                    assert(late:run "ROLLBACK")
                    assert.equal(0, write(late, form, newer, 40))
                    assert.equal(60, amount())
                end)
            end

            it("compares the greatest text", function()
                local greatest = as_token(0, 0, 0, "9223372036854775807-2147483647")
                check_order("text", { tokens[1], as_token(0, 0, 0, "9223372036854775807-2147483646"), greatest })
                assert.equal(greatest.text, "'" .. session:run("SELECT token FROM stock")[1] .. "'")
            end)

            if kind == "mariadb" then
                it("needs the column writes: an update that changes nothing counts no row", function()
                    local without, found = update:gsub(", writes = writes %+ 1", "")
                    assert.equal(1, found)
                    session:prepare("without", without)
                    assert.equal(1, (session:execute("without", values("numbers", tokens[1], 3))))
                    assert.equal(0, (session:execute("without", values("numbers", tokens[1], 3))))
                    assert.equal(1, write(session, "numbers", tokens[1], 3))
                end)
            end
        end)
    end
end)

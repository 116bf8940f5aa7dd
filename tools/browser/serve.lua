--- browser/serve: nginx with the live view, for the tests in a browser.
--
--   serve.lua SERVERS ROOT        prints the address; "reload" on its standard input reloads nginx and answers "reloaded"; ends
--   with it

package.path = "./?.lua;" .. package.path

local nginx = require "spec.support.nginx"

local server = nginx.start {
    workers = 2, values = { SERVERS = arg[1], ROOT_PATH = arg[2] },
    http = [[
        init_worker_by_lua_block { require("zklock").shared("@SERVERS@", { session_timeout = 10 }) }
        server {
            listen 127.0.0.1:@PORT@;
            location = /locks { content_by_lua_block { require("zklock.ui").serve { paths = { "@ROOT_PATH@" } } } }
        }
    ]]
}
print(("http://127.0.0.1:%d/locks"):format(server.port))
io.stdout:flush()
for line in io.lines() do
    if line == "reload" then
        server:reload()
        print "reloaded"
        io.stdout:flush()
    end
end
for _, complaint in ipairs(server:complaints()) do
    print(complaint)
end
server:stop()

-- The module runs on Lua 5.1 to 5.5 and LuaJIT, so any of their globals may be looked up; writing one is still an error.
std = "max"
max_line_length = 132
cache = false
exclude_files = { "build/", ".luarocks/", "lua_modules/" }

-- OpenResty's global, where the module runs inside it.
files["lua"] = { read_globals = { "ngx" } }
files["lua/zklock/ui/nginx.lua"] = { globals = { "ngx" } }
files["examples"] = { read_globals = { "ngx" } }
files["examples/seckill"] = { globals = { "ngx" } }
files["examples/metrics"] = { globals = { "ngx" } }
files["bench/programs/in_nginx.lua"] = { read_globals = { "ngx" } }
files["spec"] = { std = "max+busted", read_globals = { "ngx" } }
files["spec/support/inside_nginx.lua"] = { globals = { "ngx" } }
files["spec/support/soaked.lua"] = { globals = { "ngx" } }
files["rockspec"] = { std = "rockspec" }

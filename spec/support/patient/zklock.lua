--- The zklock of support.patience, for a program whose LUA_PATH has the directory of this file before that of zklock: see
-- program.patient_environment. The program may have put other directories before it.

local searched = package.path
package.path = searched:gsub("[^;]*/spec/support/patient/%?%.lua;", "", 1)
package.loaded.zklock = nil -- otherwise Lua 5.1 takes the search for the real module for a loop

local zklock = require("spec.support.patience").zklock
package.path = searched
return zklock

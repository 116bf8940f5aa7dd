--- The zklock of support.patience, for a program whose LUA_PATH begins with the directory of this file: see
-- program.patient_environment.

local searched = package.path
package.path = searched:gsub("^[^;]*;", "", 1)
package.loaded.zklock = nil -- otherwise Lua 5.1 takes the search for the real module for a loop

local zklock = require("spec.support.patience").zklock
package.path = searched
return zklock

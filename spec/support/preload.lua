--- support.preload: runs before all specs (see .busted).
--
-- busted forgets what one spec file has loaded before it loads the next. luv does not survive that: loaded a second time into
-- one Lua state it finds the loop of the first time, which may have been collected. And each file's server would run on until
-- the end of all: with several suites side by side that makes a hundred of them.

local busted = require "busted"
local cluster = require "spec.support.cluster"

pcall(require, "luv")

busted.subscribe({ "file", "end" }, function()
    cluster.stop_shared()
end)

--- support.preload: runs before all specs (see .busted).
--
-- busted forgets the modules of one spec file before it loads the next. A second load of luv into one Lua state finds the first
-- loop, which may have been collected. So luv is loaded here. Also, each file's server would run until the end of all files.
-- Several suites at the same time would run a hundred servers. A module that is loaded here is the same for all files: so the state
-- of the file before must be forgotten.

local busted = require "busted"
local cluster = require "spec.support.cluster"
local state = require "spec.support.state"

pcall(require, "luv")

busted.subscribe({ "file", "start" }, function()
    state.begin_file()
end)

busted.subscribe({ "file", "end" }, function()
    cluster.stop_shared()
end)

--- support.preload: runs before all specs (see .busted).
--
-- busted forgets what one spec file has loaded before it loads the next. luv does not survive that: loaded a second time into
-- one Lua state it finds the loop of the first time, which may have been collected.

pcall(require, "luv")

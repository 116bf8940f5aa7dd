--- support.state: all that the modules of spec/support keep from one call to the next. What else a spec needs later is in values
-- that the spec holds, and in functions that fixture.clean calls.
--
-- Two kinds of state are elsewhere, because they belong to what a module is: the suspended coroutines of support.loop, which is an
-- event loop, and what support.inside_nginx and support.soaked keep inside a worker of nginx. In virtual time, the state of the
-- world is in virtual.world.

local state = {
    process_id = nil, -- of this Lua, once it was needed (support.cluster)
    next_port = nil, -- at which the search for a free port continues (support.ports)
    reservations = {}, -- the sockets that reserve ports (support.ports)
    paths = 0 -- how many paths have been given out (support.fixture)
}

--- Begins the state that belongs to one spec file. support.preload calls it at the start of each file. In virtual time this module
-- is loaded anew for each file.
function state.begin_file()
    state.shared = nil -- the servers that the file's specs share, once they were needed (support.cluster)
    state.observer = nil -- the independent client of these servers, once it was needed (support.fixture)
    state.to_stop = {} -- functions that fixture.clean calls, the last one first (support.fixture)
end

state.begin_file()

return state

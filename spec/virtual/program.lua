--- virtual.program: there are no other processes in virtual time.

return setmetatable({}, { __index = function(_, name)
    error(("program.%s needs the real world: tag the spec #real"):format(name), 2)
end })

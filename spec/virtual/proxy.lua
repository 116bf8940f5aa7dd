--- virtual.proxy: the twin of support.proxy.
return setmetatable({}, { __index = function(_, name)
    error(("proxy.%s needs the real world: tag the spec #real"):format(name), 2)
end })

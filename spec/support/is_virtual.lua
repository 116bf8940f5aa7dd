--- support.is_virtual: true if the specs run in virtual time, false if they run on real servers.
return package.preload["spec.virtual.world"] ~= nil

--- gate: checks whether a lock excludes others. A holder renames a file that only one process can rename; the kernel decides
--- that and not ZooKeeper, at the same price for every contestant.

local gate = {}

local rename = os.rename

--- Makes the gate's file; the measuring program does so, once.
function gate.make(dir)
    assert(io.open(dir .. "/free", "w")):close()
end

---@return function # that a holder calls: whether it was alone
function gate.of(dir)
    local free, taken = dir .. "/free", dir .. "/taken"
    return function()
        local alone = rename(free, taken)
        rename(taken, free)
        return alone
    end
end

return gate

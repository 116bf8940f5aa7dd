---@meta zklock.inspect

---@type zklock.inspect
local inspect = {}

return inspect

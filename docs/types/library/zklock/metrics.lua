---@meta zklock.metrics

---@type zklock.metrics
local metrics = {}

return metrics

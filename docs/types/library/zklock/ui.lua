---@meta zklock.ui

---@type zklock.ui
local ui = {}

return ui

--- multi.contended: the paths that a client has found taken, and for how many further acquisitions it takes them in order.
--
-- For zklock.multi, whose header says why. There are two generations of paths. When the recent one is full, the older one is
-- forgotten.

local ipairs, setmetatable = ipairs, setmetatable

--- How many acquisitions of a path use the order after the path was found taken.
local IN_ORDER_AFTER_REFUSAL = 8

--- How many paths a client remembers as taken, at least. The maximum is twice as many.
local REMEMBERED = 128

local Contended = {}
Contended.__index = Contended

--- Makes the memory of a client. `recent` and `older` say how many further acquisitions of each path use the order.
function Contended.new()
    return setmetatable({ recent = {}, older = {}, size = 0 }, Contended)
end

--- Notes that a path was found taken.
function Contended:note(path)
    if not self.recent[path] then
        self.size = self.size + 1
        if self.size > REMEMBERED then
            self.recent, self.older, self.size = {}, self.recent, 1
        end
    end
    self.recent[path] = IN_ORDER_AFTER_REFUSAL
end

--- Whether an acquisition of the path has to use the order. Counts the acquisition.
function Contended:take(path)
    for _, generation in ipairs({ self.recent, self.older }) do
        local left = generation[path]
        if left and left > 0 then
            generation[path] = left - 1
            return true
        end
    end
    return false
end

return Contended

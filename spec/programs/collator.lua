-- Compares strings as its environment's locale does.
--
-- Reads lines from its standard input. Prints whether "aa" comes after "z", as in Danish and in few other languages; then each
-- line that does not come after the line before it.

assert(os.setlocale("", "collate"))
print("aa" > "z")
local before
for line in io.lines() do
    if before and not (before < line and line > before and before <= line) then
        print(line)
    end
    before = line
end

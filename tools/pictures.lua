--- Says which SVG pictures of the documentation break a rule, and fails then:  lua5.4 tools/pictures.lua docs/pictures/*.svg
--
--   - A picture has a title and a desc, which screen readers read.
--   - It refers to nothing outside of itself: no file, no host, no style sheet, no font, no script.
--   - It has colours for dark pages.

--- Returns which rules a picture breaks, as sentences.
local function broken_rules(text)
    local list = {}
    for _, name in ipairs { "title", "desc" } do
        if not text:find(("<%s id=\"%s\">%%s*[^%%s<]"):format(name, name)) then
            list[#list + 1] = "has no " .. name
        end
    end
    if not text:find('role="img"', 1, true) or not text:find('aria-labelledby="title desc"', 1, true) then
        list[#list + 1] = "is not described by its title and desc"
    end
    if not text:find("@media (prefers-color-scheme: dark)", 1, true) then
        list[#list + 1] = "has no colours for dark pages"
    end
    local outside = text:gsub(' xmlns="http://www.w3.org/2000/svg"', "", 1):gsub("url%(#", "(")
    for _, pattern in ipairs { "%f[%w]href%s*=", "%f[%w]src%s*=", "url%s*%(", "@import", "@font%-face", "<script", "<foreignObject",
        "<image", "<use", "<!DOCTYPE", "<!ENTITY", "<%?xml%-stylesheet", "https?://", "%son%a+%s*=" } do
        local found = outside:match(pattern)
        if found then
            list[#list + 1] = "refers to something outside: " .. found
        end
    end
    return list
end

-- As a program; a spec requires it as a module.
if arg and arg[0] and arg[0]:find "tools/pictures%.lua$" then
    local problems = 0
    for _, path in ipairs(arg) do
        for _, problem in ipairs(broken_rules(assert(io.open(path)):read "*a")) do
            problems = problems + 1
            print(path, problem)
        end
    end
    os.exit(problems == 0)
end

return broken_rules

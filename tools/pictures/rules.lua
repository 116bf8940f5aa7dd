--- The rules for the SVG pictures of the documentation:
--
--   - It has a title and a desc, which screen readers read.
--   - It refers to nothing outside of itself: no file, no host, no style sheet, no font, no script.
--   - It has colours for dark pages.

--- Returns which rules a picture breaks, as sentences.
return function(text)
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

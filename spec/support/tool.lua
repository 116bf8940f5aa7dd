-- tools/zookeeper, as specs of the tools call it: from shell scripts, whose output they read.

local cluster = require("spec.support.cluster")

local tool = {}

tool.PATH = cluster.root .. "/tools/zookeeper"

-- Returns the lines of a text NAME=value as a table.
function tool.variables(output)
    local found = {}
    for name, value in output:gmatch("([%w_]+)=(%S+)") do
        found[name] = value
    end
    return found
end

-- Runs a shell script that may use the tool as "$tool". Returns its output and its exit status.
function tool.shell(script)
    return cluster.run({"sh", "-c", "tool=" .. cluster.quote(tool.PATH) .. "\n" .. script})
end

return tool

--- support.certificates: authorities and certificates, made by openssl in a temporary directory.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local certificates = {}
local Certificates = {}
Certificates.__index = Certificates

local NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1"

--- Returns whether openssl is installed.
function certificates.is_there()
    return select(2, cluster.run({ "sh", "-c", "command -v openssl" })) == 0
end

--- Returns a place for certificates: this empty directory, or a new one.
function certificates.new(directory)
    return setmetatable({ directory = directory or files.make_directory() }, Certificates)
end

local function run(self, line, ...)
    local output, status = cluster.run({ "sh", "-c", ("cd %s && " .. line):format(self.directory, ...) })
    assert(status == 0, output)
end

local function openssl(self, line, ...)
    run(self, "openssl " .. line, ...)
end

--- Returns the name of a file.
function Certificates:file(name)
    return self.directory .. "/" .. name
end

--- Makes an authority: <name>-ca.pem, <name>-ca.key. It signs itself, or is signed by the authority `by`.
function Certificates:add_authority(name, by)
    if by then
        openssl(self, "req %s -nodes -subj /CN=%s -keyout %s-ca.key -out %s-ca.csr", NEW_KEY, name, name, name)
        files.write(self:file(name .. "-ca.ext"), "basicConstraints=critical,CA:TRUE\n")
        openssl(self, "x509 -req -in %s-ca.csr -CA %s-ca.pem -CAkey %s-ca.key -CAcreateserial -days 2 -extfile %s-ca.ext " ..
            "-out %s-ca.pem", name, by, by, name, name)
    else
        openssl(self, "req -x509 %s -nodes -days 2 -subj /CN=%s -keyout %s-ca.key -out %s-ca.pem", NEW_KEY, name, name, name)
    end
end

--- Makes a directory of an authority, for the option ca_path. Returns its name.
function Certificates:add_directory(authority)
    local directory = self:file(authority .. "-directory")
    openssl(self, "version && mkdir %s && cp %s-ca.pem %s && openssl rehash %s", directory, authority, directory, directory)
    return directory
end

--- Makes a certificate and its key: <name>.pem, <name>.key, both also in <name>-both.pem. Options:
--   * `authority` the name of the one that signs it; none: it signs itself
--   * `subject` its common name; default: `name`
--   * `names` for which servers it is: "DNS:zookeeper.example,IP:127.0.0.1"
--   * `expired` it was valid until yesterday; otherwise it is valid for two days; only if an authority signs it
--   * `password` of the key
function Certificates:add(name, options)
    local subject = options.subject or name
    local protection = options.password and "-passout pass:" .. options.password or "-nodes"
    if options.authority then
        openssl(self, "req %s %s -subj /CN=%s -keyout %s.key -out %s.csr", NEW_KEY, protection, subject, name, name)
        files.write(self:file(name .. ".ext"), "subjectAltName=" .. (options.names or "DNS:zookeeper.example") .. "\n")
        -- openssl makes no certificate that ends before it begins, so the clock is another one.
        local clock = options.expired and "faketime -f -3d " or ""
        run(self, clock .. "openssl x509 -req -in %s.csr -CA %s-ca.pem -CAkey %s-ca.key -CAcreateserial -days 2 -extfile %s.ext " ..
            "-out %s.pem", name, options.authority, options.authority, name, name)
    else
        openssl(self, "req -x509 %s %s -days 2 -subj /CN=%s -addext subjectAltName=%s -keyout %s.key -out %s.pem", NEW_KEY,
            protection, subject, options.names or "DNS:zookeeper.example", name, name)
    end
    files.write(self:file(name .. "-both.pem"), files.read(self:file(name .. ".key")) .. files.read(self:file(name .. ".pem")))
end

--- Replaces a certificate and its key by those of another name, as a renewal does: at once for each file.
function Certificates:replace(name, by)
    for _, ending in ipairs({ ".pem", ".key" }) do
        local output, status = cluster.run({ "sh", "-c", ("cd %s && cp %s%s new && mv new %s%s"):format(
            self.directory, by, ending, name, ending) })
        assert(status == 0, output)
    end
end

--- Removes the directory.
function Certificates:stop()
    cluster.run({ "rm", "-r", self.directory })
end

return certificates

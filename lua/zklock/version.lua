--- version: the version of zklock. tools/version.lua writes this file from the file VERSION.
return "1.0.0"

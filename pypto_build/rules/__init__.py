"""One build rule a file; the only package that imports SCons."""

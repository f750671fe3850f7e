# Included by cmake right after project(): leaves out llama.cpp's "common" library, a third of the
# compile, which the Python package does not use. A cache entry would not do: the package sets that
# one with FORCE, and only a normal variable beats it.
set(LLAMA_BUILD_COMMON OFF)

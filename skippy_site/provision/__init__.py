"""Brings a bare machine to where the service can start: environment, llama.cpp build, model.

Everything here is imported by the system's Python before any dependency is installed, so only the
standard library is imported at the top of its modules.
"""

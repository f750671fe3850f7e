"""Policies that are shipped, all of them off: an administrator takes one, changes it, and turns it on."""

from hooks.examples.shipped import SHIPPED, ExamplePolicy

__all__ = ["SHIPPED", "ExamplePolicy"]

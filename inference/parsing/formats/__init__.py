"""How models write calls and thinking: one family of chat templates a module."""

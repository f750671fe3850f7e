"""The one ending of each request, as policies see it.

terminal  fires once, whoever says first how the request ended
tasks     what then runs beside everything, and is waited for when the service stops
"""

from hooks.guard.tasks import TerminalTasks
from hooks.guard.terminal import CANCELLED, TerminalGuard

__all__ = ["CANCELLED", "TerminalGuard", "TerminalTasks"]

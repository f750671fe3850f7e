"""What can keep the service from running, as sentences for the person who started it.

StartProblem          this start cannot go on; the message is the one line that is shown
├── ServiceProblem    an embedded service cannot be prepared or does not come up
└── AlreadyRunning    another supervisor has the state folder
Interrupted           somebody asked to stop while starting: no problem at all
"""

from __future__ import annotations


class StartProblem(Exception):
    """The message is one line, says what is wrong and what to do, and holds no secret."""


class ServiceProblem(StartProblem):
    """An embedded service, a child or a step cannot do its work."""


class AlreadyRunning(StartProblem):
    """Another supervisor holds the state folder."""

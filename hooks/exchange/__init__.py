"""Policies asked and obeyed: what contracts/exchange.py promises.

desk          opens an exchange for each request that any policy concerns
policy_set    all policies, compiled
exchange      one request's way through its points
asking        one point: everybody asked, and what they said settled
evaluation    conditions and webhooks of one firing
beside_loop   what may take long
screening     many that do not match, asked as one
outcome       what one policy came to
draft         what all that is applied makes of it
decision_log  what is recorded
capsules      ids in headers
"""

from hooks.exchange.desk import PolicyDesk
from hooks.exchange.exchange import RequestExchange
from hooks.exchange.policy_set import PolicySet

__all__ = ["PolicyDesk", "PolicySet", "RequestExchange"]

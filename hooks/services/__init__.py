"""Writing policies and webhooks: every door (API, admin, commands) comes through here.

columns, webhook_columns       rows to values and back
policy_checks, webhook_checks  what may be saved
scope_directory                whom a scope names
policies, webhooks             the changes
trial, trial_desk              what would happen to a request
announcement                   how processes learn of them
"""

"""Runs everything that the service needs as child processes; knows nothing of Django.

serve.py        the command's story from the first check to the exit code
deployment.py   which services and steps there are, and in what order they start
supervisor.py   start, keep alive, stop: for whatever services it is given
kept_service.py one service that is restarted when it dies;  backoff.py  when it is given up
process.py      one process that cannot outlive its supervisor
lock.py         one supervisor for each state folder;  remains.py  what an earlier one left
postgres.py     embedded Postgres;  postgres_files.py, system_account.py  where it may live, as whom
valkey.py       embedded Valkey, the broker
discovery.py    how every other process finds the services
"""

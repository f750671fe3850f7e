"""The ASGI servers: Daphne (default) and uvicorn behind one contract (`contract.py`).

A request's way: `listening` → `twisted_channel` or `uvicorn_protocol`, which ask `early`, `bodies`
and `phases` → `answering` → the application. `lifecycle` starts, drains and stops both.
"""

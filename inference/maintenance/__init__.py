"""The service closed for maintenance, as a row: how it is closed, and how processes hear of that."""

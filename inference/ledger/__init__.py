"""The ledger: what makes a record of each request, and sees to it that none is lost."""

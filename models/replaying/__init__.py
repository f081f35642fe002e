"""The traffic replay: plans of requests, concurrent clients, what the server tells, one table."""

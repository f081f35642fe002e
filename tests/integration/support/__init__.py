"""What the integration tests share: starting the real server, reading it from outside."""

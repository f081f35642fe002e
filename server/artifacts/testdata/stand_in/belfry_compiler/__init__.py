"""A compiler that misbehaves on purpose, for the tests of what runs the real one."""

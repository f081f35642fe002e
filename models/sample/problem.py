"""The one exception for what a user can put right."""


class Problem(Exception):
    """Its message is one line that says what is missing and what to do; shown without a traceback."""

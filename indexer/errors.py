"""Errors that a person can act on.

Rooms raise their own errors; whoever meets one that ends a command turns it into an `ExpectedError`,
once, with `from`. The command line prints its sentence and leaves with its exit code. Anything else that
reaches the top is a fault of ours and ends in a traceback.
"""

from __future__ import annotations


class ExpectedError(Exception):
    """A command can not do what was asked, for a reason that one sentence tells.

    `code` is the machine's word for it (`port_in_use`), the same that the HTTP API would use.
    `exit_code` is 1 for work that failed and 2 for usage and configuration.
    """

    def __init__(self, message: str, *, code: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.exit_code = exit_code

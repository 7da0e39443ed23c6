"""Errors that a person can act on.

Rooms raise their own errors; whoever meets one that ends a command turns it into an `ExpectedError`,
once, with `from`. The command line prints its sentence and leaves with its exit code. Anything else that
reaches the top is a fault of ours and ends in a traceback.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise an `ExpectedError` that task groups have wrapped as itself; anything else stays as it is."""
    try:
        yield
    except BaseExceptionGroup as group:
        found = group.subgroup(ExpectedError)
        if found is None:
            raise
        error: BaseException = found
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


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

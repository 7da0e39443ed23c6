"""How a command ends: exit codes, and errors as a person and as a program read them.

0 fine, 1 the work failed or was interrupted, 2 usage or configuration.
Errors go to standard error, as one line
`concrnt-indexer: …` (a configuration that is wrong: one line a problem), or with `--json` as one object
`{"message", "code"}`. Only what nobody expected ends in a traceback.
"""

import errno
import json

import typer

from indexer.errors import ExpectedError

PROGRAM = "concrnt-indexer"

FINE = 0
FAILED = 1
USAGE = 2
INTERRUPTED = 1

_SYSTEM_CODES = {
    errno.EADDRINUSE: "address_in_use",
    errno.EADDRNOTAVAIL: "address_not_available",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "read_only",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
}


def expected(error: Exception) -> ExpectedError | None:
    """Return an error as one that a sentence tells, or None when it is a fault of ours."""
    if isinstance(error, ExpectedError):
        return error
    if isinstance(error, typer.TyperException):
        return ExpectedError(error.format_message(), code="usage", exit_code=USAGE)
    if isinstance(error, OSError) and error.errno in _SYSTEM_CODES:
        where = f": {error.filename}" if error.filename else ""
        return ExpectedError(f"{error.strerror}{where}", code=_SYSTEM_CODES[error.errno])
    return None


def print_error(error: ExpectedError, *, as_json: bool) -> None:
    """Say on standard error why a command did not do its work."""
    if not error.message:  # the help that was printed instead says it all
        return
    if as_json:
        typer.echo(json.dumps({"message": error.message, "code": error.code}, ensure_ascii=False), err=True)
        return
    for line in _lines(error):
        typer.echo(f"{PROGRAM}: {line}", err=True)


def _lines(error: ExpectedError) -> list[str]:
    from indexer.config import ConfigurationError  # noqa: PLC0415 - only commands that failed pay for it

    if not isinstance(error, ConfigurationError):
        return [" ".join(error.message.split())]
    lines = [str(problem) for problem in error.problems]
    return lines if len(lines) == 1 else [*lines, f"the configuration has {len(lines)} problems"]

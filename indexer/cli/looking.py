"""`inspect KEY` and `doctor`: looking into an indexer, one key or all of it."""

from typing import Annotated

import typer

from indexer.cli.errors import FAILED
from indexer.cli.options import AsJSON, ConfigFile, load_settings
from indexer.cli.output import console, print_json
from indexer.errors import ExpectedError


def inspect(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A record's key: cckv://OWNER/….", show_default=False)
    ],
    file: ConfigFile = None,
    *,
    as_json: AsJSON = False,
) -> None:
    """Show what is known of one key: record, a delete that reaches it, what is below it, search document.

    With --json: key, record, tombstone, entries, queue and document, null where there is none.
    Exit code 1 when nothing at all is known of it.
    """
    settings = load_settings(file)
    from indexer import inspection  # noqa: PLC0415 - `--help` does without it
    from indexer.cli.running import run  # noqa: PLC0415

    found = run(inspection.inspect(settings, key))
    if as_json:
        print_json(found)
    if not any(value for part, value in found.items() if part != "key"):
        raise ExpectedError(f"nothing is known of {found['key']}", code="not_found")
    if as_json:
        return
    from indexer.cli.tables import inspection_tables  # noqa: PLC0415

    console().print(*inspection_tables(found), sep="\n")


def doctor(file: ConfigFile = None, *, as_json: AsJSON = False) -> None:
    """Examine the whole indexer and say what is wrong and what to do; exit code 1 when anything is.

    With --json: ok, and checks with name, ok, detail and advice.
    """
    settings = load_settings(file)
    from dataclasses import asdict  # noqa: PLC0415

    from indexer import doctor as examination  # noqa: PLC0415
    from indexer.cli.running import run  # noqa: PLC0415

    findings = run(examination.examine(settings))
    is_well = all(finding.ok for finding in findings)
    if as_json:
        print_json({"ok": is_well, "checks": list(map(asdict, findings))})
    else:
        from indexer.cli.tables import findings_table  # noqa: PLC0415

        console().print(findings_table(list(map(asdict, findings))))
    if not is_well:
        raise typer.Exit(FAILED)

"""`crawl URI` and `inspect KEY`: one document, fetched and indexed by hand, or shown as it is stored."""

from typing import Annotated

import typer

from indexer.cli.options import AsJSON, ConfigFile, load_settings
from indexer.cli.output import print_json


def crawl(
    uri: Annotated[
        str,
        typer.Argument(metavar="URI", help="The document: ccfs://OWNER/concrnt/CDID.", show_default=False),
    ],
    file: ConfigFile = None,
    *,
    as_json: AsJSON = False,
) -> None:
    """Fetch one document from its owner's server and index it, under the same rules as what is followed.

    With --json: what /api/v1/crawl/ccfs answers.
    """
    settings = load_settings(file)
    from indexer.cli.running import run  # noqa: PLC0415 - `--help` does without it
    from indexer.operate import crawl_document  # noqa: PLC0415

    answer = run(crawl_document(settings, uri))
    if as_json:
        print_json(answer)
        return
    result = answer["result"]
    typer.echo(f"{result['cckv']}: {result['kind']}, fetched from {result['sourceServer']}")


def inspect(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A record's key: cckv://OWNER/PATH.", show_default=False)
    ],
    file: ConfigFile = None,
    *,
    as_json: AsJSON = False,
) -> None:
    """Show all that is known of a key: its record, the newest delete that covers it, its document.

    With --json: key, record, tombstone, entries, queue, document; null where there is none.
    """
    settings = load_settings(file)
    from indexer.cli.running import run  # noqa: PLC0415
    from indexer.operate import inspect_key  # noqa: PLC0415

    known = run(inspect_key(settings, key))
    if as_json:
        print_json(known)
        return
    for name, value in known.items():
        if not isinstance(value, dict):
            typer.echo(f"{name}: {'none' if value is None else value}")
            continue
        typer.echo(f"{name}:")
        for part, content in value.items():
            typer.echo(f"  {part}: {content}")

"""`reindex`, `rebuild` and `verify`: indexes and mirror made to agree with what they come from."""

from typing import TYPE_CHECKING, Annotated

import typer

from indexer.cli.errors import FAILED
from indexer.cli.options import AsJSON, ConfigFile, load_settings
from indexer.cli.output import console, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from indexer.mirror.builds import Build

_Index = Annotated[
    list[str] | None,
    typer.Option(
        "--index",
        metavar="INDEX",
        help="users, communities, posts or servers; may stand more than once. Without it: all of them.",
        show_default=False,
    ),
]


def reindex(
    file: ConfigFile = None,
    *,
    index: _Index = None,
    check: Annotated[
        bool, typer.Option("--check", help="Build nothing: compare with the mirror, document by document.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --check: have what differs projected again.")
    ] = False,
    as_json: AsJSON = False,
) -> None:
    """Build fresh search indexes from the mirror beside the live ones, and swap them.

    Searches go on, and changes that come in meanwhile are in both. A running `up` does the work and this
    command watches; without one, it does the work itself. Interrupted, the build begins anew at the next
    start. With --check the exit code is 1 when something differs and was not repaired.
    """
    if repair and not check:
        raise typer.BadParameter("it goes with --check", param_hint="--repair")
    if check:
        _compare(file, _uids(index), repairing=repair, as_json=as_json)
    else:
        _build(file, _uids(index), "reindex", as_json=as_json)


def rebuild(file: ConfigFile = None, *, as_json: AsJSON = False) -> None:
    """Derive everything from the mirror again: with the schemas and the mode of trust configured now.

    No server is asked for anything. What is stored is judged in the mode of today, then every search document
    is made anew, while searches go on. A change of schemas, or an upgrade that needs this, has the documents
    made anew by itself when `up` starts.
    """
    _build(file, _uids(None), "rebuild", as_json=as_json, judging=True)


def verify(
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="A CCID, or a domain.", show_default=False)],
    file: ConfigFile = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what is gone, and change nothing.")
    ] = False,
    as_json: AsJSON = False,
) -> None:
    """Ask an owner's own server what is still there, and take away what is gone.

    No log tells that a person has left, or that a record turned private. A running `up` need not stop.
    """
    settings = load_settings(file)
    from indexer import maintenance  # noqa: PLC0415
    from indexer.cli.running import run  # noqa: PLC0415

    found = run(maintenance.run_verification(settings, owner, only_look=dry_run))
    if as_json:
        print_json(found)
        return
    for key in found["gone"]:
        console().print(key)
    verb = "are gone from" if dry_run else "were taken away, gone from"
    console().print(f"{len(found['gone'])} of {found['asked']} records {verb} {found['server']}")
    if found["hasLeft"]:
        console().print(f"{owner} is not known there any more")


def _uids(names: "Sequence[str] | None") -> list[str]:
    from indexer.engines.indexes import INDEXES  # noqa: PLC0415 - `--help` does without it

    known = [definition.uid for definition in INDEXES]
    short = {uid.removeprefix("concrnt_"): uid for uid in known}
    wanted = [short.get(name, name) for name in names or known]
    if unknown := [name for name in wanted if name not in known]:
        message = f"{unknown[0]!r} is none of {', '.join(short)}"
        raise typer.BadParameter(message, param_hint="--index")
    return list(dict.fromkeys(wanted))


def _compare(file: "Path | None", uids: "Sequence[str]", *, repairing: bool, as_json: bool) -> None:
    settings = load_settings(file)
    from indexer import maintenance  # noqa: PLC0415
    from indexer.cli.running import run  # noqa: PLC0415

    found = run(maintenance.run_comparison(settings, uids, repairing=repairing))
    if as_json:
        print_json(found)
    else:
        for row in found:
            counts = ", ".join(
                f"{row[name]:,} {name}" for name in ("missing", "different", "extra", "foreign")
            )
            said = "agrees" if row["ok"] else counts + (", projected again" if row["repaired"] else "")
            console().print(f"{row['index']}: {row['documents']:,} documents, {said}")
    if not all(row["ok"] or row["repaired"] for row in found):
        raise typer.Exit(FAILED)


def _build(
    file: "Path | None", uids: "Sequence[str]", reason: str, *, as_json: bool, judging: bool = False
) -> None:
    settings = load_settings(file)
    from indexer import maintenance  # noqa: PLC0415
    from indexer.cli.running import run  # noqa: PLC0415

    show = _quiet if as_json else _lines()
    built = run(maintenance.run_builds(settings, uids, reason=reason, show=show, judging=judging))
    if as_json:
        print_json(built)
        return
    for row in built:
        console().print(f"{row['index']}: {row['documents']:,} documents in {row['seconds']:g} s")


def _quiet(_builds: "Sequence[Build]") -> None:
    """Programs wait for the end."""


def _lines() -> "Callable[[Sequence[Build]], None]":
    """Print how far a build is, when that has changed."""
    from datetime import UTC, datetime  # noqa: PLC0415 - of use here only

    said: set[str] = set()

    def show(builds: "Sequence[Build]") -> None:
        for build in builds:
            line = progress_line(build, now=datetime.now(UTC))
            if line not in said:
                said.add(line)
                console().print(line)

    return show


def progress_line(build: "Build", *, now: "datetime") -> str:
    """Return how far a build is, as one line."""
    if build.started_at is None or build.total is None:
        return f"{build.index_uid}: waits for its turn"
    share = f"{build.filled:,} of {build.total:,}"
    if build.filled >= build.total:
        return f"{build.index_uid}: {share}, swapping"
    elapsed = (now - build.started_at).total_seconds()
    if not build.filled or elapsed <= 0:
        return f"{build.index_uid}: {share}"
    from indexer.cli.progress import duration  # noqa: PLC0415 - and with it rich

    left = (build.total - build.filled) * elapsed / build.filled
    return f"{build.index_uid}: {share}, about {duration(left)} left"

"""Tables for people, readable at 100 columns. Text of other servers is shown as text, never as markup."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from rich.table import Table
from rich.text import Text

_LONGEST_ERROR = 60
_STATE_STYLES = {
    "following": "green",
    "backfilling": "cyan",
    "backing_off": "yellow",
    "waiting": "yellow",
    "stale": "red",
    "log_went_back": "red",
    "clock_ahead": "red",
}
_DISTRUSTED = " DISTRUSTED "
_DISTRUSTED_MEANS = (
    "DISTRUSTED: more than half of what this server's feed says, in all or of late, is rejected, and changes"
    " nothing; `concrnt-indexer dead-letters list --server DOMAIN` shows what it tried"
)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def settings_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return the settings in force; what is no default stands out."""
    table = _table()
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold", ratio=1)
    table.add_column("from", overflow="fold")
    for row in rows:
        style = "" if row["source"] == "default" else "bold"
        table.add_row(row["key"], _value_text(row["value"]), row["place"], style=style)
    return table


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if isinstance(value, dict):
        return "\n".join(f"{name}: {item}" for name, item in value.items()) or "{}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) or '""'


def statistics_tables(statistics: Mapping[str, Any]) -> list[Table]:
    """Return the numbers of `/api/v1/stats`: an overview, and one row an index."""
    servers, cursors, search = statistics["servers"], statistics["cursors"], statistics["search"]
    overview = _table(show_header=False)
    overview.add_column("what")
    overview.add_column("number", justify="right")
    overview.add_row("servers known", _number(servers["count"]))
    overview.add_row("last crawl", _time_text(servers["lastCrawlAt"]))
    overview.add_row("feeds followed", _number(cursors["count"]))
    overview.add_row("feeds catching up", _number(cursors["catchingUpCount"]))
    overview.add_row("feeds failing", _number(cursors["failureCount"]))
    overview.add_row("changes not yet searchable", _number(search["queueDepth"]))
    indexes = _table()
    indexes.add_column(f"index ({search['engine']})")
    indexes.add_column("documents", justify="right")
    indexes.add_column("busy")
    for name, index in search["indexes"].items():
        indexes.add_row(name, _number(index["numberOfDocuments"]), "yes" if index["isIndexing"] else "")
    return [overview, indexes]


def servers_table(rows: Sequence[Mapping[str, Any]], *, now: datetime) -> Table:
    """Return one row a server; errors are cut, times are told from `now`.

    A server of which most was rejected is marked with a word, which the caption explains.
    """
    caption = None if rows else "no server is known yet"
    if any(row["distrusted"] for row in rows):
        caption = _DISTRUSTED_MEANS
    table = _table(caption=caption)
    table.add_column("domain", overflow="fold", ratio=4)
    table.add_column("state, last error", overflow="fold", ratio=5)
    table.add_column("caught\nup")
    for header in ("commits", "mal-\nformed", "re-\njected", "fail-\nures", "crawled", "next"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            str(row["domain"]),
            _state_text(row),
            "yes" if row["caughtUp"] else "no",
            *(_number(row[name]) for name in ("commits", "malformed", "rejected", "consecutiveFailures")),
            relative(_instant(row["lastCrawledAt"]), now),
            "-" if row["state"] == "paused" else relative(_instant(row["nextPollAt"]), now),
        )
    return table


def dead_letters_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row a dead letter, its commit cut."""
    table = _table(caption=None if rows else "there are no dead letters")
    for header in ("id", "server", "kind", "reason"):
        table.add_column(header, overflow="fold")
    table.add_column("commit", overflow="ellipsis", no_wrap=True, ratio=1)
    for row in rows:
        table.add_row(
            str(row["id"]), str(row["server"]), str(row["kind"]), str(row["reason"]), Text(str(row["commit"]))
        )
    return table


def _state_text(row: Mapping[str, Any]) -> Text:
    state = str(row["state"])
    text = Text(state, style=_STATE_STYLES.get(state, ""))
    if row["distrusted"]:
        text.append(f"\n{_DISTRUSTED}", style="bold white on red")
        text.append(f"\n{_share_text(row)}", style="red")
    if row["lastError"] and (row["failureClass"] or state not in ("following", "backfilling")):
        text.append(f"\n{_error_text(str(row['lastError']), row['failureClass'])}", style="dim")
    return text


def _share_text(row: Mapping[str, Any]) -> str:
    share = f"{row['rejected'] / max(row['commits'], row['rejected'], 1):.0%}"
    return f"{share} {row['rejectedReason'] or 'rejected'}"


def _error_text(error: str, failure: object) -> str:
    """Return an error on one line, cut; what a terminal would obey becomes a mark."""
    line = " ".join(error.split())
    if failure is not None and not line.startswith(str(failure)):
        line = f"{failure}: {line}"
    shown = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line
    )
    return shown if len(shown) <= _LONGEST_ERROR else f"{shown[: _LONGEST_ERROR - 1]}…"


_ACTIVITY_NAMES: Final = {
    "activityScore": "score now",
    "rank": "rank (orders by score)",
    "postCount7d": "entries of 7 days",
    "postCount30d": "entries of 30 days",
    "activeAuthors7d": "authors of 7 days",
    "lastPostAt": "newest entry",
    "entriesHeldForTheFuture": "of these in the future",
    "refreshedAt": "counted at",
    "changesAt": "changes by itself at",
    "waitsForTick": "waits for the next tick",
    "inSearchEngine": "is in the search engine",
}


def activity_tables(explained: Mapping[str, Any]) -> list[Table]:
    """Return what a score is made of: the stored numbers, and one row an entry that counts."""
    overview = _table(show_header=False)
    overview.add_column("what")
    overview.add_column("number", overflow="fold")
    stored = explained["stored"] or {}
    for name, value in {"subject": explained["subject"], **stored}.items():
        overview.add_row(_ACTIVITY_NAMES.get(name, name), _plain(value))
    if not stored:
        overview.add_row("numbers", "no tick has counted any yet")
    shown, count = len(explained["entries"]), explained["entriesThatCount"]
    caption = "no entry counts" if not count else f"{shown} of {count} entries that count, newest first"
    entries = _table(caption=caption)
    entries.add_column("weight", justify="right", no_wrap=True)
    entries.add_column("age", justify="right", no_wrap=True)
    entries.add_column("author", overflow="fold", ratio=2)
    entries.add_column("entry", overflow="fold", ratio=4)
    for entry in explained["entries"]:
        age = relative(entry["at"], explained["now"])
        entries.add_row(f"{entry['weight']:.6f}", age, Text(entry["author"]), Text(entry["key"]))
    return [overview, entries]


def inspection_tables(found: Mapping[str, Any]) -> list[Table]:
    """Return what is known of a key: one table a part, two columns each; parts without anything say so."""
    tables = []
    for part in ("record", "tombstone", "entries", "queue", "document"):
        table = _table(show_header=False, caption=None if found[part] else f"{part}: none")
        table.title, table.title_justify = (f"{part} of {found['key']}" if found[part] else None), "left"
        table.add_column("what", no_wrap=True)
        table.add_column("value", overflow="fold", ratio=1)
        for name, value in (found[part] or {}).items():
            table.add_row(name, _inspected(value))
        tables.append(table)
    return tables


def _inspected(value: object) -> Text:
    if isinstance(value, list):
        return Text("\n".join(str(_inspected(item)) for item in value) or "-")
    if isinstance(value, dict):
        return Text(", ".join(f"{name}: {_inspected(item)}" for name, item in value.items()))
    return _plain(value)


def findings_table(findings: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row a check; advice stands below what is wrong."""
    wrong = sum(not finding["ok"] for finding in findings)
    caption = "all is well" if not wrong else f"{wrong} of {len(findings)} checks are not well"
    table = _table(show_header=False, caption=caption)
    table.add_column("ok", no_wrap=True)
    table.add_column("check", no_wrap=True)
    table.add_column("detail", overflow="fold", ratio=1)
    for finding in findings:
        detail = Text(finding["detail"])
        if finding["advice"]:
            detail.append(f"\n→ {finding['advice']}", style="bold")
        mark = Text("ok", style="green") if finding["ok"] else Text("NO", style="bold red")
        table.add_row(mark, finding["name"], detail)
    return table


def _plain(value: object) -> Text:
    """A value as people read it."""
    match value:
        case datetime():
            return Text(_time_text(value))
        case bool():
            return Text("yes" if value else "no")
        case float():
            return Text(f"{value:.6f}")
        case _:
            return Text("-" if value is None else str(value))


def relative(instant: datetime | None, now: datetime) -> str:
    """Tell a time from now, in its largest unit: `3m ago`, `in 2h`, `now`; a dash when there is none."""
    if instant is None:
        return "-"
    distance = instant - now
    seconds = int(abs(distance).total_seconds())
    for length, unit in _UNITS:
        if seconds >= length:
            amount = f"{seconds // length}{unit}"
            return f"in {amount}" if distance > timedelta() else f"{amount} ago"
    return "now"


def _instant(value: object) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(str(value))


def _time_text(value: object) -> str:
    instant = _instant(value)
    return instant.strftime("%Y-%m-%d %H:%M:%SZ") if instant else "never"


def _number(value: object) -> str:
    return "-" if value is None else f"{value:,}"


def _table(*, show_header: bool = True, caption: str | None = None) -> Table:
    return Table(box=None, show_header=show_header, caption=caption, pad_edge=False, padding=(0, 1))

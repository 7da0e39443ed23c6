"""Commands: what they print, where, and how they exit."""

import asyncio
import errno
import json
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from indexer.config import Settings
from indexer.config.catalogue import keys
from indexer.errors import ExpectedError
from indexer.progress import ProgressSnapshot
from tests.cli.conftest import Command

STATISTICS = {
    "servers": {"count": 3, "lastCrawlAt": datetime(2025, 3, 1, 10, 0, tzinfo=UTC)},
    "cursors": {"count": 3, "failureCount": 1, "catchingUpCount": 2},
    "search": {
        "engine": "postgres",
        "indexes": {"concrnt_posts": {"numberOfDocuments": 12_345, "isIndexing": True}},
        "queueDepth": 678,
    },
}
SERVER = {
    "domain": "alpha.example",
    "csid": None,
    "layer": "concrnt-mainnet",
    "state": "following",
    "failureClass": None,
    "consecutiveFailures": 0,
    "lastError": None,
    "lastErrorAt": None,
    "cursor": "2025-03-01T10:00:00Z",
    "caughtUp": True,
    "lastCrawledAt": "2025-03-01T10:00:00Z",
    "nextPollAt": None,
    "commits": 4321,
    "malformed": 5,
    "rejected": 6,
    "distrusted": False,
    "rejectedReason": None,
}


def test_the_version_is_printed(command: Command) -> None:
    """One line, on standard output."""
    ended = command("--version")
    assert (ended.code, ended.out, ended.err) == (0, "concrnt-indexer 0.1.0\n", "")


def test_without_a_command_the_help_is_printed(command: Command) -> None:
    """It is a usage error all the same, without a further word."""
    ended = command()
    assert ended.code == 2
    assert "Usage: concrnt-indexer" in ended.out
    assert ended.err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "nonsense"),
        (["up", "--nope"], "--nope"),
        (["simulate", "--servers", "0"], "--servers"),
        (["demo", "--commits", "many"], "--commits"),
        (["config", "check"], "FILE"),
        (["stats", "extra"], "extra"),
        (["reindex", "--repair"], "--repair"),
        (["reindex", "--index", "nonsense"], "nonsense"),
        (["verify"], "OWNER"),
        # There is no database here, so each is refused before one is opened.
        (["verify", "no owner"], "no owner"),
        (["crawl", "nonsense"], "nonsense"),
        (["crawl", "cckv://a.example/x"], "cckv://a.example/x"),
        (["inspect", "nonsense"], "nonsense"),
        (["activity", "show", "nonsense"], "nonsense"),
        (["servers", "pause", "http://a.example/"], "http://a.example/"),
        (["servers", "run-now", "10.0.0.5"], "10.0.0.5"),
        (["servers", "move", "a.example", "b example"], "b example"),
        (["servers", "move", "a.example", "A.example."], "one name"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(command: Command, arguments: list[str], said: str) -> None:
    """On standard error, with the name of the program."""
    ended = command(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("concrnt-indexer: ")
    assert ended.err.count("\n") == 1
    assert said in ended.err


def test_usage_errors_are_json_when_that_was_asked_for(command: Command) -> None:
    """`{"message", "code"}`, and nothing else."""
    ended = command("stats", "--nope", "--json")
    assert ended.code == 2
    assert set(json.loads(ended.err)) == {"message", "code"}
    assert json.loads(ended.err)["code"] == "usage"


def test_a_good_file_is_fine(command: Command) -> None:
    """Whatever the environment says: the file alone is checked."""
    Path("good.yaml").write_text("crawl: {seed: a.example, layer: x}\n")
    ended = command("config", "check", "good.yaml")
    assert (ended.code, ended.out, ended.err) == (0, "good.yaml: fine, 2 keys set\n", "")
    assert command("config", "check", "good.yaml", "--json").json() == {"file": "good.yaml", "keys": 2}


def test_a_bad_file_has_one_line_a_problem(command: Command) -> None:
    """And a last one that counts them."""
    Path("bad.yaml").write_text("crawl: {pageLimit: 500, overlap: 1:30}\nsede: x\n")
    ended = command("config", "check", "bad.yaml")
    assert (ended.code, ended.out) == (2, "")
    lines = ended.err.splitlines()
    assert all(line.startswith("concrnt-indexer: ") for line in lines)
    assert [any(key in line for line in lines) for key in ("crawl.pageLimit", "crawl.overlap", "sede")] == [
        True
    ] * 3
    assert lines[-1] == "concrnt-indexer: the configuration has 3 problems"


@pytest.mark.parametrize(
    "arguments",
    [["up"], ["demo"], ["simulate"], ["migrate"], ["stats"], ["servers"], ["config", "show"]],
)
def test_every_command_refuses_a_bad_configuration(command: Command, arguments: list[str]) -> None:
    """Before it does anything, with exit code 2."""
    Path("bad.yaml").write_text("crawl: {pageLimit: 500}\n")
    ended = command(*arguments, "--config", "bad.yaml")
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert 'crawl.pageLimit = "500" (bad.yaml, line 1): is above 100' in ended.err


def test_a_bad_configuration_is_json_when_that_was_asked_for(command: Command) -> None:
    """All problems in one message."""
    Path("config.yaml").write_text("crawl: {pageLimit: 500}\nsede: x\n")
    ended = command("stats", "--json")
    error = json.loads(ended.err)
    assert ended.code == 2
    assert error["code"] == "configuration"
    assert "crawl.pageLimit" in error["message"]
    assert "sede" in error["message"]


def test_config_show_tells_values_and_sources(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key once; default, file with line, or variable; secrets masked."""
    Path("config.yaml").write_text("crawl:\n  overlap: 90\nserver: {adminToken: hunter2}\n")
    monkeypatch.setenv("INDEXER_CRAWL__PAGE_LIMIT", "50")
    ended = command("config", "show", "--json")
    shown = {row.pop("key"): row for row in ended.json()["settings"]}
    assert (ended.code, ended.err) == (0, "")
    assert ended.json()["file"] == "config.yaml"
    assert list(shown) == list(keys())
    assert shown["crawl.overlap"] == {"value": "1m30s", "source": "file", "place": "config.yaml, line 2"}
    assert shown["crawl.pageLimit"] == {
        "value": 50,
        "source": "environment",
        "place": "environment variable INDEXER_CRAWL__PAGE_LIMIT",
    }
    assert shown["crawl.seed"] == {"value": "ariake.concrnt.net", "source": "default", "place": "default"}
    assert shown["server.adminToken"]["value"] == "***"
    human = command("config", "show")
    assert "hunter2" not in human.out + ended.out
    assert all(key in human.out for key in keys())


def test_config_show_prints_what_a_file_may_hold(command: Command) -> None:
    """The shown values, put into a file, are the settings again."""
    rows = command("config", "show", "--json").json()["settings"]
    lines: dict[str, list[str]] = {}
    for row in rows:
        section, _, name = row["key"].partition(".")
        lines.setdefault(section, []).append(f"  {name}: {json.dumps(row['value'])}")
    Path("again.yaml").write_text(
        "\n".join("\n".join([f"{section}:", *body]) for section, body in lines.items())
    )
    again = command("config", "show", "--json", "--config", "again.yaml").json()["settings"]
    assert [row["value"] for row in again] == [row["value"] for row in rows]


def test_stats_print_what_the_api_answers(command: Command, app: ModuleType) -> None:
    """As JSON with times in RFC 3339, and as a table."""

    async def fetch_statistics(settings: Settings) -> dict[str, Any]:
        assert settings == Settings()
        return STATISTICS

    app.fetch_statistics = fetch_statistics  # type: ignore[attr-defined]
    ended = command("stats", "--json")
    answer = ended.json()
    assert (ended.code, ended.err) == (0, "")
    assert answer["servers"] == {"count": 3, "lastCrawlAt": "2025-03-01T10:00:00Z"}
    assert answer["search"] == STATISTICS["search"]
    human = command("stats").out
    assert "12,345" in human
    assert "2025-03-01 10:00:00Z" in human


def test_servers_are_a_list(command: Command, app: ModuleType) -> None:
    """One object a server as JSON; one row a server for people."""

    async def fetch_servers(settings: Settings) -> list[dict[str, Any]]:
        assert settings.crawl.seed == "a.example"
        return [SERVER]

    app.fetch_servers = fetch_servers  # type: ignore[attr-defined]
    Path("config.yaml").write_text("crawl: {seed: a.example}")
    assert command("servers", "--json").json() == [SERVER]
    assert "alpha.example" in command("servers").out


def test_migrate_names_what_it_applied(command: Command, app: ModuleType) -> None:
    """Or says that there was nothing to do."""
    applied = [["0001_start", "0002_more"], []]

    async def run_migrate(settings: Settings) -> list[str]:
        assert settings == Settings()
        return applied.pop(0)

    app.run_migrate = run_migrate  # type: ignore[attr-defined]
    assert command("migrate").out == "applied 0001_start\napplied 0002_more\n"
    assert command("migrate").out == "the schema is up to date\n"
    applied.append(["0001_start"])
    assert command("migrate", "--json").json() == {"applied": ["0001_start"]}


@pytest.mark.parametrize("action", ["pause", "resume", "reset", "run-now"])
def test_what_was_done_to_a_server_is_json_too(
    command: Command, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """With the name as the list shows it, however it was written."""
    from indexer import operate  # noqa: PLC0415 - heavy

    async def change_server(_: Settings, done: str, name: str) -> str:
        assert done == action.replace("-", "_")
        return name.lower()

    monkeypatch.setattr(operate, "change_server", change_server)
    assert command("servers", action, "A.example", "--json").json()["domain"] == "a.example"
    assert command("servers", action, "A.example").out.startswith("a.example: ")


def test_a_move_is_json_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the cursor went along."""
    from indexer import operate  # noqa: PLC0415 - heavy

    async def move_server(*_: object, any_key: bool) -> bool:
        return any_key

    monkeypatch.setattr(operate, "move_server", move_server)
    told = command("servers", "move", "a.example", "b.example", "--any-key", "--json").json()
    assert told == {"old": "a.example", "new": "b.example", "cursorCarried": True}


def test_up_runs_until_a_signal_comes(command: Command, app: ModuleType) -> None:
    """Its work is cancelled, may tidy up, and the exit code is 0."""
    tidied = []

    async def run_up(_: Settings, **_more: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            tidied.append(True)

    app.run_up = run_up  # type: ignore[attr-defined]
    ended = command("up")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert tidied == [True]


def test_demo_hands_on_its_options_and_shows_what_it_is_told(command: Command, app: ModuleType) -> None:
    """Until it ends or a signal comes."""
    told: dict[str, Any] = {}

    async def run_demo(
        settings: Settings, *, show: Callable[[ProgressSnapshot], None], **options: Any
    ) -> None:
        told.update(options, layer=settings.crawl.layer)
        show(
            ProgressSnapshot(
                servers=2,
                servers_caught_up=2,
                pages=1,
                commits=50,
                commits_per_second=50.0,
                queue_depth=0,
                seconds_left=0.0,
                caught_up=True,
                api_url="http://localhost:8080",
            )
        )

    app.run_demo = run_demo  # type: ignore[attr-defined]
    ended = command("demo", "--servers=2", "--commits=50", "--seed=x", "--rate=0.5")
    assert ended.code == 0
    assert told == {"servers": 2, "commits": 50, "seed": "x", "rate": 0.5, "layer": "concrnt-mainnet"}
    assert "50 commits" in ended.out
    assert "http://localhost:8080/docs" in ended.out


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (ExpectedError("port 8080 is in use", code="port_in_use"), "port 8080 is in use", "port_in_use"),
        (ExpectedError("two\nlines", code="x"), "two lines", "x"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/data"),
            "No space left on device: /data",
            "no_space",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/data"),
            "Permission denied: /data",
            "permission_denied",
        ),
    ],
)
def test_expected_errors_are_one_line_and_exit_1(
    command: Command, app: ModuleType, error: Exception, line: str, code: str
) -> None:
    """Without a traceback; as JSON where JSON was asked for."""

    async def fetch_servers(_: Settings) -> list[dict[str, Any]]:
        raise error

    app.fetch_servers = fetch_servers  # type: ignore[attr-defined]
    ended = command("servers")
    assert (ended.code, ended.out, ended.err) == (1, "", f"concrnt-indexer: {line}\n")
    assert json.loads(command("servers", "--json").err)["code"] == code


def test_unexpected_errors_are_not_hidden(command: Command, app: ModuleType) -> None:
    """A fault of ours ends in a traceback."""

    async def run_up(_: Settings, **_more: object) -> None:
        raise ZeroDivisionError

    app.run_up = run_up  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        command("up")


def test_an_interrupted_command_fails(command: Command, app: ModuleType) -> None:
    """As shells have it."""

    async def fetch_servers(_: Settings) -> list[dict[str, Any]]:
        raise KeyboardInterrupt

    app.fetch_servers = fetch_servers  # type: ignore[attr-defined]
    ended = command("servers")
    assert (ended.code, ended.err) == (1, "concrnt-indexer: interrupted\n")


ACTIVITY = {
    "subject": "cckv://alpha.example/c/1",
    "kind": "community",
    "now": datetime(2025, 3, 1, 12, tzinfo=UTC),
    "halfLifeSeconds": 604_800.0,
    "stored": {
        "activityScore": 0.97,
        "lastPostAt": datetime(2025, 3, 1, 5, tzinfo=UTC),
        "changesAt": None,
        "waitsForTick": True,
    },
    "entriesThatCount": 1,
    "entries": [
        {
            "key": "cckv://alpha.example/c/1/x",
            "author": "con[bold]",
            "schema": "s",
            "at": datetime(2025, 3, 1, 5, tzinfo=UTC),
            "ageSeconds": 25_200.0,
            "weight": 0.9715,
        }
    ],
}


def test_activity_show_explains_a_score(command: Command, app: ModuleType) -> None:
    """As JSON, and as tables in which strangers' text is text."""
    asked = []

    async def fetch_activity(_: Settings, subject: str) -> dict[str, Any]:
        asked.append(subject)
        return ACTIVITY

    app.fetch_activity = fetch_activity  # type: ignore[attr-defined]
    shown = command("activity", "show", "cckv://alpha.example/c/1", "--json").json()
    assert shown["entries"][0]["at"] == "2025-03-01T05:00:00Z"
    assert asked == ["cckv://alpha.example/c/1"]
    human = command("activity", "show", "cckv://alpha.example/c/1")
    assert (human.code, human.err) == (0, "")
    assert "0.971500" in human.out
    told = [" ".join(line.split()) for line in human.out.splitlines()]
    assert {"score now 0.970000", "changes by itself at -", "waits for the next tick yes"} <= set(told)
    assert "con[bold]" in human.out
    assert "7h ago" in human.out


_NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)


def test_inspect_prints_every_part(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON, and as tables; text of strangers is text, and parts without anything say so."""
    from indexer import inspection  # noqa: PLC0415 - heavy

    async def inspect(_: Settings, key: str) -> dict[str, Any]:
        parts: dict[str, Any] = dict.fromkeys(("tombstone", "entries", "queue", "document"))
        return {"key": key, "record": {"owner": "[bold]x", "createdAt": _NOW}, **parts}

    monkeypatch.setattr(inspection, "inspect", inspect)
    shown = command("inspect", "cckv://alpha.example/c", "--json").json()
    assert set(shown) == {"key", "record", "tombstone", "entries", "queue", "document"}
    assert shown["record"]["createdAt"] == "2025-03-01T12:00:00Z"
    human = command("inspect", "cckv://alpha.example/c")
    assert (human.code, human.err) == (0, "")
    assert "[bold]x" in human.out
    assert "tombstone: none" in human.out


def test_inspect_fails_where_nothing_is_known(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, in a word; as JSON the parts are printed all the same."""
    from indexer import inspection  # noqa: PLC0415 - heavy

    async def inspect(_: Settings, key: str) -> dict[str, Any]:
        return {"key": key, "record": None, "document": None}

    monkeypatch.setattr(inspection, "inspect", inspect)
    human = command("inspect", "cckv://a.example/c")
    assert (human.code, human.out) == (1, "")
    assert human.err == "concrnt-indexer: nothing is known of cckv://a.example/c\n"
    told = command("inspect", "cckv://a.example/c", "--json")
    assert (told.code, told.json()["record"], json.loads(told.err)["code"]) == (1, None, "not_found")


@pytest.mark.parametrize("is_well", [True, False])
def test_the_doctor_fails_when_anything_is_wrong(
    command: Command, monkeypatch: pytest.MonkeyPatch, *, is_well: bool
) -> None:
    """Exit code 1, and the advice is shown; the same as JSON."""
    from indexer import doctor  # noqa: PLC0415 - heavy

    async def examine(_: Settings) -> list[doctor.Finding]:
        return [
            doctor.Finding("database", ok=True, detail="it answers"),
            doctor.Finding("queue", ok=is_well, detail="long", advice="" if is_well else "look"),
        ]

    monkeypatch.setattr(doctor, "examine", examine)
    said = command("doctor", "--json")
    assert said.code == (0 if is_well else 1)
    assert said.json()["ok"] is is_well
    assert set(said.json()["checks"][1]) == {"name", "ok", "detail", "advice"}
    human = command("doctor")
    assert human.code == said.code
    assert ("look" in human.out) is not is_well

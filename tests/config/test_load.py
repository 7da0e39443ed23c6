"""Settings from file and environment: what wins, what is refused, and how it is said."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from indexer.config import (
    Configuration,
    ConfigurationError,
    ListenAddress,
    Problem,
    Settings,
    TrustMode,
    load_configuration,
    load_settings,
)
from indexer.config.catalogue import keys
from indexer.config.load import SEARCHED, find_file

GO_CRAWLER_FILE = """\
server:
  listen: ":8080"
  publicURL: "http://localhost:8080"
  internalListen: ":8081"

crawl:
  seed: "ariake.concrnt.net"
  layer: "concrnt-mainnet"
  knownServersInterval: "10m"
  incrementalInterval: "10s"
  requestTimeout: "15s"
  globalConcurrency: 2
  perServerConcurrency: 1
  pageLimit: 100
  overlap: "2m"
  maxPagesPerRun: 20
  activityInterval: "5m"
  activityHalfLife: "72h"
  activityHistoryDays: 14
  profileSchemas:
    - "https://schema.concrnt.world/p/main.json"
  communitySchemas: []
  ackSchemas:
    - "https://schema.concrnt.world/ack/follow.json"
  postSchemas:
    - "https://schema.concrnt.world/m/markdown.json"

backends:
  postgresDsn: "postgres://concrnt_crawler:password@db:5432/concrnt_crawler?sslmode=disable"
  meiliHost: "http://meilisearch:7700"
  meiliAPIKey: ""

observability:
  enableTrace: yes
  traceEndpoint: "collector:4318"
"""

Load = Callable[..., Configuration]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a configuration from the text of a file and from variables."""

    def load(content: str = "", **environ: str) -> Configuration:
        file = tmp_path / "config.yaml"
        file.write_text(content, encoding="utf-8")
        return load_configuration(file, environ)

    return load


@pytest.fixture
def problems(load: Load) -> Callable[..., dict[str, Problem]]:
    """Load a configuration that is wrong and return its problems by key."""

    def problems(content: str = "", **environ: str) -> dict[str, Problem]:
        with pytest.raises(ConfigurationError) as caught:
            load(content, **environ)
        found = {problem.key: problem for problem in caught.value.problems}
        assert len(found) == len(caught.value.problems)
        return found

    return problems


Problems = Callable[..., dict[str, Problem]]


def test_without_file_and_variables_the_defaults_hold(load: Load) -> None:
    """An empty file, and sections without content, set nothing."""
    assert load().settings == Settings()
    assert load("crawl:\nserver: {}\ntrust: ~\n").settings == Settings()


def test_the_defaults_are_those_of_the_specification() -> None:
    """The table of behaviour.md, section 1."""
    settings = Settings()
    assert {name: key.shown(settings) for name, key in keys().items()} == {
        "server.listen": ":8080",
        "server.internalListen": ":8081",
        "server.publicURL": "",
        "server.rateLimit": 0,
        "server.adminToken": "",
        "crawl.seed": "ariake.concrnt.net",
        "crawl.layer": "concrnt-mainnet",
        "crawl.knownServersInterval": "10m",
        "crawl.incrementalInterval": "15m",
        "crawl.minPollInterval": "15s",
        "crawl.requestTimeout": "30s",
        "crawl.globalConcurrency": 8,
        "crawl.perServerConcurrency": 1,
        "crawl.pageLimit": 100,
        "crawl.overlap": "10s",
        "crawl.maxPagesPerRun": 1000,
        "crawl.maxResponseBytes": "32MiB",
        "crawl.maxServers": 20_000,
        "crawl.hostOverrides": {},
        "crawl.profileSchemas": ["https://schema.concrnt.world/p/main.json"],
        "crawl.communitySchemas": ["https://schema.concrnt.world/t/community.json"],
        "crawl.postSchemas": [
            f"https://schema.concrnt.world/m/{name}.json"
            for name in ("markdown", "reply", "reroute", "plaintext", "media", "gfm", "mfm", "cfm")
        ],
        "crawl.ackSchemas": ["https://schema.concrnt.world/ack/follow.json"],
        "crawl.activityInterval": "10m",
        "crawl.activityHalfLife": "168h",
        "crawl.activityHistoryDays": 30,
        "trust.mode": "authority",
        "backends.postgresDsn": "",
        "backends.dataDir": ".indexer",
        "backends.meiliHost": "",
        "backends.meiliAPIKey": "",
        "search.maxTotalHits": 10_000,
        "observability.enableTrace": False,
        "observability.traceEndpoint": "",
        "observability.logFormat": "auto",
        "observability.logLevel": "info",
    }


def test_a_file_of_the_go_crawler_works_unchanged(load: Load) -> None:
    """Its keys, its durations, its empty lists for defaults, its trace endpoint without a scheme."""
    settings = load(GO_CRAWLER_FILE).settings
    assert settings.crawl.incremental_interval == timedelta(seconds=10)
    assert settings.crawl.min_poll_interval == timedelta(seconds=10), "the default gives way"
    assert settings.crawl.activity_half_life == timedelta(hours=72)
    assert settings.crawl.community_schemas == ("https://schema.concrnt.world/t/community.json",)
    assert settings.crawl.post_schemas == ("https://schema.concrnt.world/m/markdown.json",)
    assert settings.backends.postgres_dsn.startswith("postgres://concrnt_crawler:password@db:5432/")
    assert settings.observability.enable_trace is True
    assert settings.observability.trace_endpoint == "http://collector:4318"


@pytest.mark.parametrize("written", ["off", "OFF", '"off"', "Off"])
def test_off_means_off(load: Load, written: str) -> None:
    """YAML 1.1 would make false of it."""
    assert load(f"trust: {{mode: {written}}}").settings.trust.mode is TrustMode.OFF


@pytest.mark.parametrize(
    ("written", "expected"),
    [("5m", timedelta(minutes=5)), ("90", timedelta(seconds=90)), ('"1h30m"', timedelta(hours=1.5))],
)
def test_intervals_read_alike_with_and_without_quotes(load: Load, written: str, expected: timedelta) -> None:
    """Durations are Go's, plain numbers are seconds."""
    assert load(f"crawl: {{incrementalInterval: {written}}}").settings.crawl.incremental_interval == expected


@pytest.mark.parametrize(
    "written", ["1:30", "PT5M", "-5m", "010", "1_000", ".nan", ".inf", "1e400", "0", "721h", "true"]
)
def test_intervals_that_mean_something_else_are_refused(problems: Problems, written: str) -> None:
    """By name, value and accepted form."""
    (problem,) = problems(f"crawl:\n  knownServersInterval: {written}\n").values()
    assert problem.key == "crawl.knownServersInterval"
    assert problem.value == f'"{written}"'
    assert "a duration such as" in problem.accepted
    assert problem.source.endswith("config.yaml, line 2")


@pytest.mark.parametrize("written", ["0", "-1h", "NaN", "1e400"])
def test_a_half_life_that_is_no_length_is_refused(problems: Problems, written: str) -> None:
    """Nothing halves in no time (trial C38)."""
    assert (
        problems(f"crawl: {{activityHalfLife: {written}}}")["crawl.activityHalfLife"].value == f'"{written}"'
    )


@pytest.mark.parametrize(
    ("section", "key", "written"),
    [
        ("server", "listen", "8080"),
        ("server", "listen", "localhost"),
        ("server", "listen", "::1:8080"),
        ("server", "listen", ":65536"),
        ("server", "listen", "http://a:80"),
        ("server", "listen", "[a]"),
        ("server", "publicURL", "search.example.net"),
        ("server", "publicURL", "ftp://search.example.net"),
        ("server", "publicURL", "https://"),
        ("server", "publicURL", "https://a.example/?q"),
        ("server", "publicURL", "https://me:pw@a.example"),
        ("server", "publicURL", "https://a.example:port"),
        ("crawl", "seed", "https://ariake.concrnt.net"),
        ("crawl", "seed", "ariake.concrnt.net:443"),
        ("crawl", "seed", "127.0.0.1"),
        ("crawl", "seed", "[a, b]"),
        ("crawl", "layer", "{a: b}"),
        ("crawl", "pageLimit", "0"),
        ("crawl", "pageLimit", "101"),
        ("crawl", "pageLimit", "1.0"),
        ("crawl", "pageLimit", "1e1"),
        ("crawl", "pageLimit", "0x10"),
        ("crawl", "pageLimit", "010"),
        ("crawl", "pageLimit", "1_0"),
        ("crawl", "pageLimit", "yes"),
        ("crawl", "pageLimit", "9999999999999999999999"),
        ("crawl", "overlap", "-1s"),
        ("crawl", "globalConcurrency", "0"),
        ("crawl", "maxResponseBytes", "32M"),
        ("crawl", "maxResponseBytes", "2GiB"),
        ("crawl", "profileSchemas", "https://a.example/s.json"),
        ("crawl", "profileSchemas", '[""]'),
        ("crawl", "profileSchemas", "[[a]]"),
        ("crawl", "profileSchemas", "[not a url]"),
        ("crawl", "hostOverrides", "[a]"),
        ("crawl", "hostOverrides", "{a.example: 127.0.0.1:9001}"),
        ("crawl", "hostOverrides", '{a.example: "http://127.0.0.1:9001/path"}'),
        ("crawl", "hostOverrides", "{a.example: [x]}"),
        ("crawl", "hostOverrides", '{"a.example:80": "http://127.0.0.1:9001"}'),
        ("crawl", "hostOverrides", '{A.example: "http://b.example", a.example.: "http://c.example"}'),
        ("trust", "mode", "none"),
        ("trust", "mode", "no"),
        ("backends", "postgresDsn", "mysql://db/x"),
        ("backends", "postgresDsn", "just words"),
        ("backends", "dataDir", "[a]"),
        ("backends", "meiliHost", "meilisearch:7700"),
        ("search", "maxTotalHits", "0"),
        ("observability", "enableTrace", "1"),
        ("observability", "logLevel", "loud"),
        ("observability", "logFormat", "xml"),
    ],
)
def test_wrong_values_name_key_and_what_is_accepted(
    problems: Problems, section: str, key: str, written: str
) -> None:
    """Each is one problem, with its line."""
    (problem,) = problems(f"{section}:\n  {key}: {written}\n").values()
    assert problem.key == f"{section}.{key}"
    assert problem.accepted
    assert problem.reason
    assert problem.value
    assert problem.source.endswith("line 2")


def test_values_of_every_kind_are_read(load: Load) -> None:
    """One of each, in spellings that differ from the defaults."""
    settings = load(
        """
        server: {listen: "[::1]:80", internalListen: "localhost:0", publicURL: "https://a.example/search/"}
        crawl:
          seed: Ariake.Concrnt.NET.
          layer: 2
          overlap: 0
          maxResponseBytes: 10MB
          hostOverrides: {A.Example: "http://127.0.0.1:9001/", 日本.example: "https://b.example"}
          postSchemas: ["https://a.example/1.json", "https://a.example/1.json"]
        backends: {postgresDsn: "host=db user=me password='se c\\\\'ret' dbname=x", dataDir: /var/lib/indexer}
        observability: {enableTrace: On, logLevel: DEBUG}
        """
    ).settings
    assert settings.server.listen == ListenAddress("::1", 80)
    assert str(settings.server.listen) == "[::1]:80"
    assert settings.server.internal_listen == ListenAddress("localhost", 0)
    assert settings.server.public_url == "https://a.example/search"
    assert settings.crawl.seed == "ariake.concrnt.net"
    assert settings.crawl.layer == "2"
    assert settings.crawl.overlap == timedelta()
    assert settings.crawl.max_response_bytes == 10_000_000
    assert settings.crawl.host_overrides == {
        "a.example": "http://127.0.0.1:9001",
        "xn--wgv71a.example": "https://b.example",
    }
    assert settings.crawl.post_schemas == ("https://a.example/1.json",)
    assert settings.backends.postgres_dsn == "postgresql://?host=db&user=me&password=se%20c%27ret&dbname=x"
    assert settings.backends.data_dir == Path("/var/lib/indexer")
    assert settings.observability.enable_trace is True
    assert settings.observability.log_level == "debug"


def test_an_empty_layer_means_any(load: Load) -> None:
    """For the layer, and for what has an empty default, an empty text is a value."""
    assert load('crawl: {layer: ""}').settings.crawl.layer == ""
    assert load(INDEXER_CRAWL__LAYER="").settings.crawl.layer == ""
    file = "backends: {meiliHost: http://meili:7700}"
    assert load(file, INDEXER_BACKENDS__MEILI_HOST="").settings.backends.meili_host == ""


def test_an_empty_text_elsewhere_sets_nothing(load: Load) -> None:
    """As in the Go crawler, and as compose files pass variables that are not set."""
    assert load('crawl: {seed: "", overlap: "", pageLimit: ""}').settings == Settings()
    settings = load("crawl: {overlap: 5s}", INDEXER_CRAWL__OVERLAP="", INDEXER_CRAWL__ACK_SCHEMAS="").settings
    assert settings.crawl.overlap == timedelta(seconds=5)


def test_the_shortest_interval_can_not_exceed_the_longest(problems: Problems, load: Load) -> None:
    """Said of the key that was set."""
    problem = problems("crawl: {minPollInterval: 20m}")["crawl.minPollInterval"]
    assert "crawl.incrementalInterval, 15m" in problem.reason
    assert load("crawl: {minPollInterval: 15m}").settings.crawl.min_poll_interval == timedelta(minutes=15)


@pytest.mark.parametrize("written", ["{listen: ':8081'}", "{listen: '127.0.0.1:9', internalListen: ':9'}"])
def test_the_listeners_can_not_share_a_port(problems: Problems, written: str) -> None:
    """Also not with the default of the other, nor with all interfaces."""
    assert "shares its port" in problems(f"server: {written}")["server.internalListen"].reason


def test_listeners_on_different_interfaces_may_share_a_port(load: Load) -> None:
    """And port 0 is a new port each time."""
    load("server: {listen: '127.0.0.1:9', internalListen: '127.0.0.2:9'}")
    load("server: {listen: ':0', internalListen: ':0'}")


def test_a_variable_replaces_one_key_and_leaves_its_neighbours(load: Load) -> None:
    """A nested override wipes nothing beside it; a map or list is replaced whole."""
    content = "crawl: {seed: a.example, layer: x, hostOverrides: {a.example: 'http://127.0.0.1:1'}}"
    overrides = '{"b.example": "http://127.0.0.1:2"}'
    configuration = load(content, INDEXER_CRAWL__SEED="b.example", INDEXER_CRAWL__HOST_OVERRIDES=overrides)
    settings = configuration.settings
    assert (settings.crawl.seed, settings.crawl.layer) == ("b.example", "x")
    assert settings.crawl.host_overrides == {"b.example": "http://127.0.0.1:2"}
    origins = {name: configuration.origin(key) for name, key in keys().items()}
    assert origins["crawl.seed"] == "environment"
    assert origins["crawl.layer"] == "file"
    assert origins["crawl.overlap"] == "default"


@pytest.mark.parametrize(
    "variable",
    [
        "INDEXER_CRAWL__KNOWN_SERVERS_INTERVAL",
        "INDEXER_CRAWL__KNOWNSERVERSINTERVAL",
        "indexer_crawl__known_servers_interval",
        "Indexer_Crawl__knownServersInterval",
    ],
)
def test_variables_are_read_in_both_spellings_and_any_letter_case(load: Load, variable: str) -> None:
    """Lower case letters count as upper case."""
    settings = load(**{variable: "90"}).settings
    assert settings.crawl.known_servers_interval == timedelta(seconds=90)


def test_every_key_has_its_variable_in_both_spellings(load: Load) -> None:
    """No key is out of reach of the environment."""
    for key in keys().values():
        assert key.variable.startswith(f"INDEXER_{key.section.upper()}__")
        load(**{key.variable: ""})
        load(**{f"INDEXER_{key.section}__{key.name}".upper(): ""})


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("INDEXER_CRAWL__SEDE", "INDEXER_CRAWL__SEED"),
        ("indexer_crawl__sede", "INDEXER_CRAWL__SEED"),
        ("INDEXER_CRWAL__SEED", "INDEXER_CRAWL__SEED"),
        ("INDEXER_CRAWL__KNOWN_SERVERSINTERVAL", "INDEXER_CRAWL__KNOWN_SERVERS_INTERVAL"),
        ("INDEXER_SERVER__SEED", "INDEXER_CRAWL__SEED"),
        ("INDEXER_CRAWL__HOST_OVERRIDES__A", "INDEXER_CRAWL__HOST_OVERRIDES"),
        ("INDEXER_CRAWL__", "INDEXER_<SECTION>__<KEY>"),
        ("INDEXER___", "INDEXER_<SECTION>__<KEY>"),
    ],
)
def test_a_misspelt_variable_is_an_error_that_helps(problems: Problems, variable: str, hint: str) -> None:
    """It is never passed over."""
    problem = problems(**{variable: "x"})[variable]
    assert hint in problem.accepted
    assert problem.value == '"x"'


def test_names_without_two_underscores_are_no_settings(load: Load) -> None:
    """They may belong to anybody; so may whatever does not begin with our prefix."""
    environ = {
        "INDEXER_SEED": "x",
        "INDEXER_": "",
        "INDEXER": "",
        "OTHER_CRAWL__SEED": "x",
        "NO_PROXY": "::1,[::1],fd00::/8",
    }
    assert load(**environ).settings == Settings()


def test_two_spellings_of_one_variable_must_agree(problems: Problems, load: Load) -> None:
    """Which of them is meant is anybody's guess."""
    both = {"INDEXER_CRAWL__PAGELIMIT": "5", "INDEXER_CRAWL__PAGE_LIMIT": "6"}
    assert "INDEXER_CRAWL__PAGELIMIT" in problems(**both)["crawl.pageLimit"].reason
    assert load(**both | {"INDEXER_CRAWL__PAGE_LIMIT": "5"}).settings.crawl.page_limit == 5


@pytest.mark.parametrize(
    "value", ["https://a.example/s.json", "{", '{"a": 1}', '"x"', "[1]", '{"a": 1, "a": 2}', "[NaN]", "nan"]
)
def test_lists_in_the_environment_are_json(problems: Problems, value: str) -> None:
    """Anything else names the variable."""
    problem = problems(INDEXER_CRAWL__POST_SCHEMAS=value)["crawl.postSchemas"]
    assert "INDEXER_CRAWL__POST_SCHEMAS" in problem.source
    assert "a list of schema URLs" in problem.accepted


@pytest.mark.parametrize(
    ("content", "key", "hint"),
    [
        ("crawl: {pagelimit: 5}", "crawl.pagelimit", "crawl.pageLimit"),
        ("crawl: {page_limit: 5}", "crawl.page_limit", "crawl.pageLimit"),
        ("crawl: {pageLimt: 5}", "crawl.pageLimt", "crawl.pageLimit"),
        ("server: {seed: a.example}", "server.seed", "crawl.seed"),
        ("seed: a.example", "seed", "crawl.seed"),
        ("crawl.seed: a.example", "crawl.seed", "`seed` below `crawl:`"),
        ("trust: {zzzzzz: 1}", "trust.zzzzzz", "below trust: mode"),
        ("zzzzzz: {a: 1}", "zzzzzz", "the sections server, crawl, trust"),
        ("crawl: 5", "crawl", "crawl: {...}"),
        ("crawl: [seed]", "crawl", "crawl: {...}"),
    ],
)
def test_unknown_keys_say_what_was_probably_meant(
    problems: Problems, content: str, key: str, hint: str
) -> None:
    """A slip of the finger, another spelling, another section."""
    assert hint in problems(content)[key].accepted


def test_all_problems_come_at_once(problems: Problems) -> None:
    """From file and environment, unknown keys, wrong types and values out of range together."""
    content = """
crawl: {overlap: 1:30, pageLimit: 500, minPollInterval: 20m, sede: x}
nonsense: {}
trust: {mode: maybe}
"""
    found = problems(
        content, INDEXER_CRAWL__ACK_SCHEMAS="[", INDEXER_CRAWL__SEDE="x", INDEXER_SERVER__LISTEN="80"
    )
    assert set(found) == {
        "crawl.overlap",
        "crawl.pageLimit",
        "crawl.minPollInterval",
        "crawl.sede",
        "nonsense",
        "trust.mode",
        "crawl.ackSchemas",
        "INDEXER_CRAWL__SEDE",
        "server.listen",
    }


def test_problems_of_the_environment_come_with_those_of_an_unreadable_file(tmp_path: Path) -> None:
    """One look shows everything that has to change."""
    with pytest.raises(ConfigurationError) as caught:
        load_settings(tmp_path / "none.yaml", {"INDEXER_CRAWL__SEDE": "x"})
    assert [problem.key for problem in caught.value.problems] == [
        str(tmp_path / "none.yaml"),
        "INDEXER_CRAWL__SEDE",
    ]
    assert caught.value.exit_code == 2
    assert caught.value.code == "configuration"


@pytest.mark.parametrize(
    "content",
    [
        "server: {adminToken: [hunter2]}",
        "server: {admin_token: hunter2}",
        "backends: {meiliApiKey: hunter2}",
        "backends: {meiliAPIKey: {hunter2: 1}}",
        "backends: {postgresDsn: 'postgres://me:hunter2@db:port/x'}",
        "backends: {postgresDsn: 'postgres://me:hun#ter2@db/hunter2'}",
        "backends: {postgresDSN: 'postgres://me:hunter2@db/x'}",
        "backends: {postgresDsn: 'password hunter2'}",
        "backends: {meiliHost: 'http://me:hunter2@meili:7700'}",
        "crawl: {hostOverrides: {a.example: 'http://me:hunter2@b.example'}}",
        "crawl: {somePassword: hunter2}",
        "adminToken: hunter2",
    ],
)
def test_errors_never_show_a_secret(problems: Problems, content: str) -> None:
    """Masked, also under a misspelt name."""
    for problem in problems(content).values():
        assert "hunter2" not in str(problem)
        assert "hunter2" not in repr(problem)


def test_settings_never_show_a_secret(load: Load) -> None:
    """Neither when printed, nor when shown as `config show` does; what is no secret stays readable."""
    content = "server: {adminToken: hunter2}\nbackends: {meiliAPIKey: hunter2, postgresDsn: '%s'}"
    for dsn in (
        "postgres://me:hunter2@db:5432/x?sslmode=disable",
        "postgres://db/x?user=me&password=hunter2",
        "host=db user=me password=hunter2",
    ):
        settings = load(content % dsn).settings
        shown = {name: key.shown(settings) for name, key in keys().items()}
        assert "hunter2" not in repr(settings)
        assert "hunter2" not in str(shown)
        assert "me" in str(shown["backends.postgresDsn"])
        assert shown["server.adminToken"] == "***"


def test_settings_are_immutable() -> None:
    """Nobody changes them behind another's back."""
    settings = Settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.crawl.seed = "x"  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        settings.crawl = settings.crawl  # type: ignore[misc]


def test_the_file_is_the_first_that_is_named_or_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--config, then our variable, then the Go crawler's, then the usual places."""
    monkeypatch.chdir(tmp_path)
    assert SEARCHED[:2] == (Path("config.local.yaml"), Path("config.yaml"))
    assert SEARCHED[2] == Path("/etc/concrnt-indexer/config.yaml")
    for name in ("option", "ours", "theirs", "config.local", "config"):
        (tmp_path / f"{name}.yaml").write_text(f"crawl: {{layer: {name}}}")
    environ = {"CONCRNT_INDEXER_CONFIG": "ours.yaml", "CONCRNT_CRAWLER_CONFIG": "theirs.yaml"}
    assert load_settings(Path("option.yaml"), environ).crawl.layer == "option"
    assert load_settings(None, environ).crawl.layer == "ours"
    assert load_settings(None, environ | {"CONCRNT_INDEXER_CONFIG": ""}).crawl.layer == "theirs"
    assert load_settings(None, {}).crawl.layer == "config.local"
    Path("config.local.yaml").unlink()
    assert load_settings(None, {}).crawl.layer == "config"
    Path("config.yaml").unlink()
    assert find_file({}) in {None, SEARCHED[2]}


def test_a_file_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not passed over for the next place."""
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text("")
    with pytest.raises(ConfigurationError, match=r"gone\.yaml: can not be read"):
        load_settings(None, {"CONCRNT_INDEXER_CONFIG": "gone.yaml"})

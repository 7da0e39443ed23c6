"""The settings: every key, its default, and what it accepts.

Inside, names are snake_case and values have their final type (`timedelta`, `ListenAddress`, `Path`, …). In
files they are camelCase, as the Go crawler writes them; its files work unchanged. `config.example.yaml` is
the reference for people and is tested against this module.
"""

import enum
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from indexer.config.forms import (
    ListenAddress,
    choice,
    connection_string,
    duration,
    folder,
    hostname,
    http_url,
    listen_address,
    origin_map,
    schema_urls,
    size,
    switch,
    whole_number,
    word,
)
from indexer.config.quantities import format_duration

LogFormat = Literal["auto", "human", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

PROFILE_SCHEMAS = ("https://schema.concrnt.world/p/main.json",)
COMMUNITY_SCHEMAS = ("https://schema.concrnt.world/t/community.json",)
POST_SCHEMAS = tuple(
    f"https://schema.concrnt.world/m/{name}.json"
    for name in ("markdown", "reply", "reroute", "plaintext", "media", "gfm", "mfm", "cfm")
)
ACK_SCHEMAS = ("https://schema.concrnt.world/ack/follow.json",)

_MIN_POLL_INTERVAL = timedelta(seconds=15)
_ODD_ALIASES = {"public_url": "publicURL", "meili_api_key": "meiliAPIKey"}


def _alias(attribute: str) -> str:
    return _ODD_ALIASES.get(attribute) or to_camel(attribute)


class TrustMode(enum.StrEnum):
    """Which commits are accepted: all, those of authoritative servers or proven ones, or only proven ones."""

    OFF = "off"
    AUTHORITY = "authority"
    STRICT = "strict"


class Section(BaseModel):
    """What the sections have in common: immutable, closed, built by either spelling of a name."""

    model_config = ConfigDict(
        alias_generator=_alias,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # some of it is secret
        validate_by_alias=True,
        validate_by_name=True,
    )


class ServerSettings(Section):
    """The listeners."""

    listen: Annotated[ListenAddress, listen_address()] = ListenAddress("", 8080)
    internal_listen: Annotated[ListenAddress, listen_address()] = Field(
        ListenAddress("", 8081), validate_default=True
    )
    public_url: Annotated[str, http_url()] = ""
    rate_limit: Annotated[int, whole_number(0, 1_000_000)] = 0
    admin_token: Annotated[str, word('any text, or ""', empty=True, secret=True)] = Field("", repr=False)

    @field_validator("internal_listen")
    @classmethod
    def _keeps_apart(cls, internal: ListenAddress, info: ValidationInfo) -> ListenAddress:
        """Two listeners can not share a port, the default one included."""
        public = info.data.get("listen")
        if public is not None and internal.clashes_with(public):
            raise _refusal(f"shares its port with server.listen, {public}", "a port of its own")
        return internal


class CrawlSettings(Section):
    """Whom to follow, how often, and what to index."""

    seed: Annotated[str, hostname()] = "ariake.concrnt.net"
    layer: Annotated[str, word('the name of a network layer, or "" for any', empty=True)] = "concrnt-mainnet"
    known_servers_interval: Annotated[timedelta, duration("100ms", "720h")] = timedelta(minutes=10)
    incremental_interval: Annotated[timedelta, duration("100ms", "720h")] = timedelta(minutes=15)
    min_poll_interval: Annotated[timedelta, duration("100ms", "720h")] = Field(
        default_factory=lambda data: min(
            _MIN_POLL_INTERVAL, data.get("incremental_interval", _MIN_POLL_INTERVAL)
        )
    )
    request_timeout: Annotated[timedelta, duration("100ms", "1h")] = timedelta(seconds=30)
    global_concurrency: Annotated[int, whole_number(1, 1000)] = 8
    per_server_concurrency: Annotated[int, whole_number(0, 1000)] = 1
    page_limit: Annotated[int, whole_number(1, 100)] = 100
    overlap: Annotated[timedelta, duration("0s", "720h")] = timedelta(seconds=10)
    max_pages_per_run: Annotated[int, whole_number(1, 1_000_000)] = 1000
    max_response_bytes: Annotated[int, size("1KiB", "1GiB")] = 32 * 1024 * 1024
    max_servers: Annotated[int, whole_number(1, 1_000_000)] = 20_000
    host_overrides: Annotated[Mapping[str, str], origin_map()] = {}
    profile_schemas: Annotated[tuple[str, ...], schema_urls()] = PROFILE_SCHEMAS
    community_schemas: Annotated[tuple[str, ...], schema_urls()] = COMMUNITY_SCHEMAS
    post_schemas: Annotated[tuple[str, ...], schema_urls()] = POST_SCHEMAS
    ack_schemas: Annotated[tuple[str, ...], schema_urls()] = ACK_SCHEMAS
    activity_interval: Annotated[timedelta, duration("100ms", "168h")] = timedelta(minutes=10)
    activity_half_life: Annotated[timedelta, duration("1s", "876000h")] = timedelta(hours=168)
    activity_history_days: Annotated[int, whole_number(1, 366)] = 30

    @field_validator("min_poll_interval")
    @classmethod
    def _not_above_longest(cls, shortest: timedelta, info: ValidationInfo) -> timedelta:
        """The shortest time between polls can not exceed the longest; the default gives way to it."""
        longest = info.data.get("incremental_interval")
        if longest is not None and shortest > longest:
            limit = format_duration(longest)
            raise _refusal(f"is longer than crawl.incrementalInterval, {limit}", f"a duration up to {limit}")
        return shortest


class TrustSettings(Section):
    """Whose word counts."""

    mode: Annotated[TrustMode, choice(*TrustMode, kind=TrustMode)] = TrustMode.AUTHORITY


class BackendsSettings(Section):
    """The stores."""

    postgres_dsn: Annotated[str, connection_string()] = Field("", repr=False)
    data_dir: Annotated[Path, folder()] = Path(".indexer")
    meili_host: Annotated[str, http_url()] = ""
    meili_api_key: Annotated[str, word('any text, or ""', empty=True, secret=True)] = Field("", repr=False)


class SearchSettings(Section):
    """The limits of searching."""

    max_total_hits: Annotated[int, whole_number(1, 1_000_000)] = 10_000


class ObservabilitySettings(Section):
    """What the process tells about itself."""

    enable_trace: Annotated[bool, switch()] = False
    trace_endpoint: Annotated[str, http_url(bare_host=True)] = ""
    log_format: Annotated[LogFormat, choice("auto", "human", "json")] = "auto"
    log_level: Annotated[LogLevel, choice("debug", "info", "warning", "error")] = "info"


class Settings(BaseSettings):
    """All settings. `Settings()` are the built-in defaults; `load_settings` reads file and environment."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    server: ServerSettings = ServerSettings()
    crawl: CrawlSettings = CrawlSettings()
    trust: TrustSettings = TrustSettings()
    backends: BackendsSettings = BackendsSettings()
    search: SearchSettings = SearchSettings()
    observability: ObservabilitySettings = ObservabilitySettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the library's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what `load_settings` collected and nothing else.

        The environment source of the library knows one spelling of a name and passes over misspelt ones.
        """
        return (init_settings,)


def _refusal(reason: str, accepted: str) -> PydanticCustomError:
    context: dict[str, Any] = {"reason": reason, "accepted": accepted}
    return PydanticCustomError("refused", "{reason}; accepted: {accepted}", context)

"""The stack's files fit each other and the program: what a container engine would find out, without one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from indexer.app import Role
from indexer.config import load_configuration
from indexer.config.catalogue import keys
from indexer.config.load import SEARCHED

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "concrnt-indexer" in service["image"]}
EXAMPLE = (ROOT / "deploy" / "stack.env.example").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
SERVICE_KEYS = {
    *("image", "build", "restart", "init", "stop_grace_period", "read_only", "tmpfs", "cap_drop"),
    *("security_opt", "environment", "depends_on", "networks", "logging", "profiles", "command", "ports"),
    *("deploy", "shm_size", "volumes", "healthcheck"),
}
SECRETS = {"POSTGRES_PASSWORD", "MEILI_MASTER_KEY", "GRAFANA_PASSWORD"}


def _filled(text: str, values: dict[str, str]) -> str:
    """A text with its variables filled in, as compose does."""
    return VARIABLE.sub(lambda match: values.get(match[1]) or (match[3] if match[2] == "-" else ""), text)


def test_only_keys_that_compose_knows() -> None:
    """A misspelt key would be refused at start."""
    assert COMPOSE.keys() <= {"name", "services", "networks", "volumes", "x-indexer"}
    for name, service in SERVICES.items():
        assert service.keys() <= SERVICE_KEYS, name
        assert ("healthcheck" in service) != (name in OURS), name  # ours is in the image


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_bounded_and_pinned(name: str) -> None:
    """It has limits, restarts, rotates its logs, and its image names a version."""
    service = SERVICES[name]
    assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}
    assert service["restart"] == "unless-stopped"
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert re.search(r":[\w.-]+\}?$", service["image"])
    assert not service["image"].endswith(":latest")


def test_what_is_named_is_there() -> None:
    """Volumes, networks, services that others wait for, and files that are mounted."""
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            is_file = source.startswith(".")
            assert (ROOT / source).exists() if is_file else source in COMPOSE["volumes"], volume
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            profiles = SERVICES[other].get("profiles")
            assert profiles is None or set(service["profiles"]) <= set(profiles), name


def test_secrets_come_from_the_environment() -> None:
    """Without one, compose says which; none has a default, and the example names every one."""
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    named = {match[1]: match[2] for match in VARIABLE.finditer(text)}
    assert {variable for variable, how in named.items() if how == "?"} == SECRETS
    assert not re.search(r"(?i)(password|_key|token): (?!\$)\S", text)
    for variable in SECRETS:
        assert re.search(rf"^{variable}=$", EXAMPLE, re.MULTILINE)


def test_profiles() -> None:
    """A small deployment is one process; a split one has every role once."""
    by_profile = {
        profile: {
            name: service["command"] for name, service in OURS.items() if profile in service["profiles"]
        }
        for profile in ("small", "split")
    }
    assert by_profile["small"] == {"indexer": ["up"]}
    roles = [word for command in by_profile["split"].values() for word in command[1:] if word != "--role"]
    assert sorted(roles) == sorted(role.value for role in Role)
    for name, service in OURS.items():
        public = [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")]
        assert bool(public) == (name in ("indexer", "api"))
        assert all(port.endswith(":8080") for port in public)


def _environment(name: str, values: dict[str, str]) -> dict[str, str]:
    """What a service is started with: what has no value in the file is passed on where it has one."""
    passed = {
        key: values.get(key) if value is None else _filled(value, values)
        for key, value in OURS[name]["environment"].items()
    }
    return {key: value for key, value in passed.items() if value is not None}


@pytest.mark.parametrize("name", OURS)
def test_the_operators_file_counts(name: str, tmp_path: Path) -> None:
    """It is mounted where it is looked for; only what .env says goes before its settings."""
    mounts = dict(volume.split(":")[:2] for volume in OURS[name]["volumes"])
    assert Path(mounts["./deploy/configuration"]) / "config.yaml" in SEARCHED
    written = {
        "server": {"adminToken": "a-token-of-the-file", "publicURL": "https://file.example", "rateLimit": 7},
        "crawl": {"seed": "file.example", "postSchemas": ["https://file.example/post.json"]},
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(written), encoding="utf-8")
    secrets = dict.fromkeys(SECRETS, "0123456789abcdef")
    configuration = load_configuration(path, _environment(name, secrets))
    mine = [key for key in keys().values() if key.section in written]
    assert "environment" not in {configuration.origin(key) for key in mine}
    assert configuration.settings.crawl.seed == "file.example"
    assert configuration.settings.server.public_url == "https://file.example"
    said = secrets | {"INDEXER_CRAWL__SEED": "env.example"}
    assert load_configuration(path, _environment(name, said)).settings.crawl.seed == "env.example"


@pytest.mark.parametrize("name", OURS)
def test_the_settings_are_settings(name: str) -> None:
    """The environment of each service is one that the program starts with."""
    values = dict.fromkeys(SECRETS, "0123456789abcdef")
    environment = _environment(name, values)
    settings = load_configuration(None, environment).settings
    assert settings.backends.meili_host == "http://meilisearch:7700"
    assert settings.backends.meili_api_key == values["MEILI_MASTER_KEY"]
    assert settings.backends.postgres_dsn == "postgres://indexer:0123456789abcdef@postgres:5432/indexer"
    assert settings.server.public_url == ""


def test_ours_are_confined() -> None:
    """Read-only, without capabilities, not root; and time enough to end in order."""
    for service in OURS.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["stop_grace_period"] == "60s"
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    assert all(stage.startswith("python:3.") and "-slim" in stage.splitlines()[0] for stage in stages)
    assert re.search(r"^USER 10001$", stages[1], re.MULTILINE)
    assert "build-essential" not in stages[1]
    assert "127.0.0.1:8081/health'" in stages[1]  # alive, not ready (C57)
    assert "--require-hashes" in stages[0]


def test_the_image_holds_what_it_copies() -> None:
    """The build's context has every file that the Dockerfile names, and nothing else."""
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE))
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_grafana_finds_its_data_source_and_dashboard() -> None:
    """The provisioned folder is the mounted one, and the dashboard asks for a Prometheus."""
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    provider = yaml.safe_load((ROOT / "deploy/grafana/dashboards/files.yaml").read_text(encoding="utf-8"))
    source = yaml.safe_load((ROOT / "deploy/grafana/datasources/prometheus.yaml").read_text(encoding="utf-8"))
    assert provider["providers"][0]["options"]["path"] == mounts["./docs/dashboards"]
    assert source["datasources"][0]["type"] == "prometheus"
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    dashboard = ROOT / "docs/dashboards" / Path(home).name
    variables = json.loads(dashboard.read_text(encoding="utf-8"))["templating"]["list"]
    assert {"name": "datasource", "query": "prometheus"}.items() <= variables[0].items()


def test_prometheus_scrapes_every_process() -> None:
    """On the internal port, in either profile."""
    scraped = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    (job,) = scraped
    (found,) = job["dns_sd_configs"]
    assert set(found["names"]) == set(OURS)
    assert found["port"] == 8081

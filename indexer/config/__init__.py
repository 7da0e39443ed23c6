"""Settings: a YAML file, then the environment, over built-in defaults.

`cli` and `app` name this room; the others get the few values they need as arguments.
"""

from indexer.config.errors import ConfigurationError, Problem
from indexer.config.forms import ListenAddress
from indexer.config.load import Configuration, load_configuration, load_settings
from indexer.config.model import (
    BackendsSettings,
    CrawlSettings,
    LogFormat,
    LogLevel,
    ObservabilitySettings,
    SearchSettings,
    ServerSettings,
    Settings,
    TrustMode,
    TrustSettings,
)

__all__ = [
    "BackendsSettings",
    "Configuration",
    "ConfigurationError",
    "CrawlSettings",
    "ListenAddress",
    "LogFormat",
    "LogLevel",
    "ObservabilitySettings",
    "Problem",
    "SearchSettings",
    "ServerSettings",
    "Settings",
    "TrustMode",
    "TrustSettings",
    "load_configuration",
    "load_settings",
]

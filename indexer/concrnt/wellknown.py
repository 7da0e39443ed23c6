"""What servers say of themselves: well-known documents and known-servers lists (protocol.md, section 4).

Both are claims. A well-known is read with tolerance: a member of a wrong type is absent, but without a
domain there is nothing to know. In a list, an entry that is none is counted and skipped; the others are kept.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from indexer.concrnt.identifiers import MalformedName, canonical_fqdn, is_csid
from indexer.concrnt.payload import (
    MAX_NESTING,
    BadPayload,
    decode_leniently,
    decode_text,
    nesting_exceeds,
    repair,
    split_array,
    split_object,
    string_in,
)
from indexer.concrnt.templates import MAX_TEMPLATE_LENGTH

WELL_KNOWN_PATH: Final = "/.well-known/concrnt"

RESOLVE: Final = "net.concrnt.core.resolve"
KNOWN_SERVERS: Final = "net.concrnt.core.known-servers"
REPLICATION: Final = "net.concrnt.core.replication"
QUERY: Final = "net.concrnt.core.query"
ASSOCIATIONS: Final = "net.concrnt.core.associations"
REALTIME: Final = "net.concrnt.core.realtime"

MAX_TEXT_CHARACTERS: Final = 512
MAX_META_CHARACTERS: Final = 64 * 1024
MAX_ENDPOINTS: Final = 256
MAX_LIST_ENTRIES: Final = 100_000

_UNSTORABLE: Final = dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd")


@dataclass(frozen=True, slots=True)
class SoftwareInfo:
    """``softwareInfo``; what is absent or no text is ``""``."""

    version: str = ""
    build_machine: str = ""
    build_time: str = ""
    go_version: str = ""


@dataclass(frozen=True, slots=True)
class WellKnown:
    """A server's well-known document. Texts are cut to 512 characters; what is absent or mistyped is ``""``.

    Attributes:
        domain: the name that it gives itself, canonical. Whether to believe it is the caller's matter.
        csid: of the right form, else ``""``.
        version: of the protocol.
        layer: the network.
        endpoints: templates by endpoint name, unchecked; :func:`~indexer.concrnt.templates.expand` checks.
        software: what runs there.
        meta: the JSON text of ``meta``; None where it is absent, no object, nested deeper than documents may
            be, or over 64 Ki characters.

    """

    domain: str
    csid: str = ""
    version: str = ""
    layer: str = ""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    software: SoftwareInfo = SoftwareInfo()
    meta: str | None = None


class Skip(StrEnum):
    """Why an entry of a known-servers list was passed over."""

    NOT_A_WELL_KNOWN = "not_a_well_known"
    NO_DOMAIN = "no_domain"
    MALFORMED_NAME = "malformed_name"


class KnownServer(NamedTuple):
    """An entry of a known-servers list: a canonical name, and the layer if the list gives one."""

    name: str
    layer: str | None


class KnownServers(NamedTuple):
    """A known-servers list: each entry once, in its order, and what was skipped.

    A name stands once for each layer that it is given.
    """

    entries: tuple[KnownServer, ...]
    skipped: Mapping[Skip, int]


def decode_well_known(body: bytes) -> WellKnown:
    """Decode a well-known document.

    Raises:
        BadPayload: no JSON object, or without a domain that is a server's name.

    """
    members = split_object(decode_text(body))
    domain = _member(members, "domain")
    if not isinstance(domain, str) or not domain:
        raise BadPayload("a well-known without a domain")
    try:
        name = canonical_fqdn(domain)
    except MalformedName as error:
        raise BadPayload("a well-known whose domain is no server's name") from error
    csid = _text(_member(members, "csid"))
    return WellKnown(
        domain=name,
        csid=csid if is_csid(csid) else "",
        version=_text(_member(members, "version")),
        layer=_text(_member(members, "layer")),
        endpoints=_endpoints(_member(members, "endpoints")),
        software=_software(_member(members, "softwareInfo")),
        meta=_meta(members.get("meta", "")),
    )


def decode_known_servers(body: bytes) -> KnownServers:
    """Decode a known-servers list; ``null`` is an empty one.

    Raises:
        BadPayload: no JSON list, or more than 100,000 entries.

    """
    text = decode_text(body)
    rows = [] if text.strip() == "null" else split_array(text, at_most=MAX_LIST_ENTRIES)
    entries: dict[KnownServer, None] = {}
    skipped: Counter[Skip] = Counter()
    for row in rows:
        entry = _known_server(row)
        if isinstance(entry, Skip):
            skipped[entry] += 1
        else:
            entries.setdefault(entry)
    return KnownServers(tuple(entries), MappingProxyType(skipped))


def _known_server(row: str) -> KnownServer | Skip:
    try:
        members = split_object(row)
    except BadPayload:
        return Skip.NOT_A_WELL_KNOWN
    domain = _member(members, "domain")
    if domain is None or domain == "":
        return Skip.NO_DOMAIN
    if not isinstance(domain, str):
        return Skip.MALFORMED_NAME
    try:
        name = canonical_fqdn(domain)
    except MalformedName:
        return Skip.MALFORMED_NAME
    return KnownServer(name, _text(_member(members, "layer")) or None)


def _member(members: Mapping[str, str], name: str) -> Any:
    try:
        return decode_leniently(members.get(name, "null"))
    except BadPayload:
        return None


def _text(value: Any) -> str:
    return value[:MAX_TEXT_CHARACTERS].translate(_UNSTORABLE) if isinstance(value, str) else ""


def _endpoints(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        return {}
    templates = {
        name: template
        for name, template in list(value.items())[:MAX_ENDPOINTS]
        if isinstance(template, str) and 0 < len(template) <= MAX_TEMPLATE_LENGTH
    }
    return MappingProxyType(templates)


def _software(value: Any) -> SoftwareInfo:
    if not isinstance(value, dict):
        return SoftwareInfo()
    return SoftwareInfo(
        version=_text(string_in(value, "version")),
        build_machine=_text(string_in(value, "buildMachine")),
        build_time=_text(string_in(value, "buildTime")),
        go_version=_text(string_in(value, "goVersion")),
    )


def _meta(text: str) -> str | None:
    if not text.startswith("{") or len(text) > MAX_META_CHARACTERS or nesting_exceeds(text, MAX_NESTING):
        return None
    try:
        decode_leniently(text)
    except BadPayload:
        return None
    return repair(text)

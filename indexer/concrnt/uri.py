"""CCURIs and the targets of deletes, as frozen values made by one parser (protocol.md, section 1; CIP-4).

Two spellings of one key are one record, so a parsed URI carries one *canonical* spelling, and identity is
that text, compared byte for byte. It has no hint; its steps are decoded, and then only ``/``, ``%``, ``?``
and ``#`` inside a step are encoded again. So ``/`` in a canonical key always parts two steps: prefixes of
the text
are prefixes of the path. What was decided where the protocol is silent:

* Schemes are lower case. An owner is a CCID or CSID as it stands, or a server's name in its canonical
  spelling (:func:`~indexer.concrnt.identifiers.canonical_fqdn`); anything else is no owner.
* ``cckv://o/`` is the bare owner. Further empty steps are steps: ``a`` and ``a/``, ``a/b`` and ``a//b`` are
  four keys. ``.`` and ``..`` are letters.
* ``?`` and ``#`` have no meaning in a key: they are letters of their step.
* A ``%`` that two hex digits do not follow, bytes that are no UTF-8 once decoded, NUL and lone surrogates
  make a URI malformed: no database holds them, and none is a spelling of another key.
* The ``*`` of a delete's target is read before percent-decoding; ``%2A`` is a letter.
"""

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Final, assert_never
from urllib.parse import unquote_to_bytes

import msgspec

from indexer.concrnt.cdid import is_cdid
from indexer.concrnt.identifiers import MAX_FQDN_LENGTH, MalformedName, canonical_fqdn, is_ccid, is_csid

MAX_KEY_BYTES: Final = 1024

_MAX_AUTHORITY_LENGTH: Final = 2 * (MAX_FQDN_LENGTH + 1) + 1

_KV: Final = "cckv://"
_FS: Final = "ccfs://"
_LINKS: Final = ("https://", "http://")
_DOCUMENT_FOLDER: Final = "concrnt"
_BLOB_FOLDER: Final = "blob"

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENCODED_AGAIN: Final = str.maketrans({"/": "%2F", "%": "%25", "?": "%3F", "#": "%23"})
_SPECIAL = re.compile(r"[%?#]")


class UriFault(StrEnum):
    """Why a text is no CCURI, or no target of a delete."""

    SCHEME = "scheme"
    OWNER = "owner"
    HINT = "hint"
    FORM = "form"
    ESCAPE = "escape"
    ENCODING = "encoding"
    CHARACTER = "character"
    BARE_OWNER = "bare_owner"
    STAR = "star"
    KEY_TOO_LONG = "key_too_long"


class MalformedURI(ValueError):  # noqa: N818 - says what the text is
    """The text is no CCURI, or no target of a delete; ``reason`` says why."""

    def __init__(self, reason: UriFault) -> None:
        super().__init__(reason.value)
        self.reason = reason


class CCURI(msgspec.Struct, frozen=True, eq=False):
    """A parsed URI; made by :func:`parse_ccuri` only.

    A msgspec Struct: as frozen as a dataclass, and made in a tenth of the time, once for each commit.

    Attributes:
        scheme: ``cckv``, ``ccfs``, ``https`` or ``http`` (a plain link).
        owner: CCID, CSID, canonical FQDN, or ``@`` and a canonical FQDN (an alias); empty for a link.
        hint: the resolver's canonical FQDN, never part of the identity.
        steps: the path, decoded; of a document ``("concrnt", cdid)``, of a file ``("blob", hex)``; empty
            for a bare owner and for a link.
        canonical: the one spelling. Two URIs are equal when this is.

    """

    scheme: str
    owner: str
    hint: str | None
    steps: tuple[str, ...]
    canonical: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CCURI) and self.canonical == other.canonical

    def __ne__(self, other: object) -> bool:
        # A Struct brings its own, which does not ask __eq__.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __str__(self) -> str:
        return self.canonical

    @property
    def key(self) -> str:
        """The canonical key; of any other URI than a ``cckv`` one its canonical spelling, which is no key."""
        return self.canonical

    @property
    def is_key(self) -> bool:
        """Whether a record can stand here: a ``cckv`` URI with a path, and no alias."""
        return self.scheme == "cckv" and bool(self.steps) and not self.is_alias

    @property
    def is_alias(self) -> bool:
        """Whether the owner is an alias, which no commit may hold."""
        return self.owner.startswith("@")

    @property
    def parent(self) -> str | None:
        """The key one step up, the owner at last; None without a path."""
        return parent_of(self.canonical) if self.scheme == "cckv" else None

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The keys above this one, the owner's first; empty without a path."""
        return ancestors_of(self.canonical) if self.scheme == "cckv" else ()

    @property
    def cdid(self) -> str | None:
        """The CDID of the document that a ``ccfs`` URI names, in either form; else None."""
        is_document = self.scheme == "ccfs" and self.steps[0] == _DOCUMENT_FOLDER
        return self.steps[1] if is_document else None

    @property
    def decoded_path_bytes(self) -> int:
        """How many UTF-8 bytes the decoded path has, its first ``/`` not counted (1,024 at most in a key)."""
        return len("/".join(self.steps).encode())


def parse_ccuri(text: str) -> CCURI:
    """Parse a CCURI or a plain link.

    Raises:
        MalformedURI: with the fault; see the module for what is one.

    """
    _refuse_unstorable(text)
    if text.startswith(_KV):
        authority, _, path = text[len(_KV) :].partition("/")
        owner, hint = _parse_authority(authority)
        steps = _parse_steps(path) if path else ()
        return CCURI("cckv", owner, hint, steps, _key(owner, path, steps))
    if text.startswith(_FS):
        authority, _, path = text[len(_FS) :].partition("/")
        owner, hint = _parse_authority(authority)
        folder, name = _parse_content(_parse_steps(path))
        return CCURI("ccfs", owner, hint, (folder, name), f"{_FS}{owner}/{folder}/{name}")
    for link in _LINKS:
        if text.startswith(link) and len(text) > len(link):
            return CCURI(link.removesuffix("://"), "", None, (), text)
    raise MalformedURI(UriFault.SCHEME)


def compose_key(owner: str, *steps: str) -> str:
    """Return the canonical key of decoded steps below an owner (itself canonical already)."""
    return "/".join([f"{_KV}{owner}", *[step.translate(_ENCODED_AGAIN) for step in steps]])


def compose_document(owner: str, cdid: str) -> str:
    """Return the canonical ``ccfs`` URI of a document."""
    return f"{_FS}{owner}/{_DOCUMENT_FOLDER}/{cdid}"


def owner_of(key: str) -> str:
    """Return the owner of a canonical key or ``ccfs`` URI (both schemes are as long)."""
    return key[len(_KV) :].partition("/")[0]


def parent_of(key: str) -> str | None:
    """Return the parent of a canonical key, None for a bare owner."""
    parent, slash, _ = key.rpartition("/")
    return parent if slash and len(parent) >= len(_KV) else None


def ancestors_of(key: str) -> tuple[str, ...]:
    """Return the keys above a canonical key, the owner's first (protocol.md, section 1)."""
    ancestors = []
    end = key.find("/", len(_KV))
    while end >= 0:
        ancestors.append(key[:end])
        end = key.find("/", end + 1)
    return tuple(ancestors)


def covering_targets(uri: str) -> tuple[str, ...]:
    """Return what deletes that cover a canonical key or ``ccfs`` URI name: itself or an ancestor."""
    return (uri, *ancestors_of(uri)) if uri.startswith(_KV) else (uri,)


class Scope(Enum):
    """How much a delete's target takes."""

    KEY = "key"
    BELOW = "below"
    TREE = "tree"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class DeleteTarget:
    """What a delete takes away (CIP-4); made by :func:`parse_delete_target`.

    Attributes:
        scope: one key, all below it, both, or one document.
        owner: whose key or document it is.
        key: the canonical key; None for a document.
        cdid: the document; None for keys.

    """

    scope: Scope
    owner: str
    key: str | None
    cdid: str | None

    def covers(self, key: str) -> bool:
        """Tell whether the target takes a canonical key; a document's target takes none (see its CDID)."""
        match self.scope:
            case Scope.KEY:
                return key == self.key
            case Scope.BELOW:
                return key.startswith(f"{self.key}/")
            case Scope.TREE:
                return key == self.key or key.startswith(f"{self.key}/")
            case Scope.DOCUMENT:
                return False
            case _:
                assert_never(self.scope)

    def covers_document(self, owner: str, cdid: str) -> bool:
        """Tell whether the target names this one document of this owner."""
        return self.scope is Scope.DOCUMENT and self.cdid == cdid and self.owner == owner


def parse_delete_target(text: str) -> DeleteTarget:
    """Parse the value of a delete.

    Args:
        text: ``key``, ``key/*``, ``key*``, or the ``ccfs`` URI of a document. A hint is dropped.

    Raises:
        MalformedURI: ``*`` elsewhere than once at the end, a bare owner with or without a range, a file, a
            link, an alias, a key over 1,024 bytes, or no CCURI at all.

    """
    scope, base = _split_range(text)
    uri = parse_ccuri(base)
    if uri.is_alias:
        raise MalformedURI(UriFault.OWNER)
    if uri.scheme == "cckv":
        if not uri.steps:
            raise MalformedURI(UriFault.BARE_OWNER)
        if uri.decoded_path_bytes > MAX_KEY_BYTES:
            raise MalformedURI(UriFault.KEY_TOO_LONG)
        return DeleteTarget(scope, uri.owner, uri.canonical, None)
    if uri.cdid is None:
        raise MalformedURI(UriFault.FORM)
    if scope is not Scope.KEY:
        raise MalformedURI(UriFault.STAR)
    return DeleteTarget(Scope.DOCUMENT, uri.owner, None, uri.cdid)


def _split_range(text: str) -> tuple[Scope, str]:
    """Take the range sign off the raw text: it has to be gone before anything is decoded."""
    star = text.find("*")
    if star < 0:
        return Scope.KEY, text
    if star != len(text) - 1:
        raise MalformedURI(UriFault.STAR)
    if text.endswith("/*"):
        return Scope.BELOW, text[:-2]
    return Scope.TREE, text[:-1]


def _refuse_unstorable(text: str) -> None:
    if "\0" in text:
        raise MalformedURI(UriFault.CHARACTER)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise MalformedURI(UriFault.CHARACTER) from error


def _parse_authority(authority: str) -> tuple[str, str | None]:
    """Part the owner from the hint: ``owner``, ``owner@resolver`` or ``@alias``."""
    # The bound keeps megabytes out of the cache; two names and a sign are no longer.
    if len(authority) > _MAX_AUTHORITY_LENGTH:
        raise MalformedURI(UriFault.OWNER)
    return _parse_short_authority(authority)


@lru_cache(maxsize=65_536)
def _parse_short_authority(authority: str) -> tuple[str, str | None]:
    owner, at, hint = authority.partition("@")
    if not at:
        return _parse_owner(owner), None
    if not owner:
        return f"@{_parse_fqdn(hint, UriFault.OWNER)}", None
    return _parse_owner(owner), _parse_fqdn(hint, UriFault.HINT)


def _parse_owner(owner: str) -> str:
    if is_ccid(owner) or is_csid(owner):
        return owner
    name = _parse_fqdn(owner, UriFault.OWNER)
    # CON1… folded to lower case would pass for a person whom nobody named.
    if is_ccid(name) or is_csid(name):
        raise MalformedURI(UriFault.OWNER)
    return name


def _parse_fqdn(name: str, fault: UriFault) -> str:
    try:
        return canonical_fqdn(name)
    except MalformedName as error:
        raise MalformedURI(fault) from error


def _parse_steps(path: str) -> tuple[str, ...]:
    steps = path.split("/")
    if "%" in path:
        if _BROKEN_ESCAPE.search(path):
            raise MalformedURI(UriFault.ESCAPE)
        return tuple([_decode_step(step) for step in steps])
    return tuple(steps)


def _decode_step(step: str) -> str:
    try:
        decoded = unquote_to_bytes(step).decode()
    except UnicodeDecodeError as error:
        raise MalformedURI(UriFault.ENCODING) from error
    if "\0" in decoded:
        raise MalformedURI(UriFault.CHARACTER)
    return decoded


def _key(owner: str, path: str, steps: tuple[str, ...]) -> str:
    """Spell a key canonically; nearly every path is so spelled already."""
    if _SPECIAL.search(path):
        return compose_key(owner, *steps)
    return f"{_KV}{owner}/{path}" if path else f"{_KV}{owner}"


def _parse_content(steps: tuple[str, ...]) -> tuple[str, str]:
    """Recognise ``concrnt/<cdid>``, ``<cdid>`` (the old flat form) and ``blob/<sha256>``."""
    match steps:
        case (name,) if is_cdid(name):
            return _DOCUMENT_FOLDER, name
        case ("concrnt", name) if is_cdid(name):
            return _DOCUMENT_FOLDER, name
        case ("blob", name) if _SHA256.fullmatch(name.lower()):
            return _BLOB_FOLDER, name.lower()
        case _:
            raise MalformedURI(UriFault.FORM)

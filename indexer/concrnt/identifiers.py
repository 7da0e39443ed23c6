"""Names of people, servers and keys: their *form* only (protocol.md, section 1).

A key id is 42 ASCII letters and digits with a known prefix; whether it is valid bech32 matters only where a
signature is checked, and old data holds ids that are not. A server's name is an RFC 1123 hostname. Its
canonical spelling has lower case, no final dot and IDNA labels in ASCII; a server is known under that
spelling and no other.

What :func:`canonical_fqdn` refuses, because it would lead somewhere else than to a public name: schemes,
ports, userinfo, literal addresses in every spelling that a C library reads (``127.0.0.1``, ``0x7f.1``,
``2130706433``, ``[::1]``: any name whose last label is a number), and ``localhost`` with what is below it.
A name of one label is legal: private networks have them, and a public resolver answers for none.
"""

import re
from functools import lru_cache
from typing import Final

import idna

MAX_FQDN_LENGTH: Final = 253

_KEY_ID = re.compile(r"(con|ccs|cck)[0-9A-Za-z]{39}")
_LABEL = r"[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?"
_HOSTNAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# The rule of the URL standard ("ends in a number"): such a name is an IPv4 address to getaddrinfo().
_NUMERIC_LAST_LABEL = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)")


class MalformedName(ValueError):  # noqa: N818 - says what the text is
    """The text is not a name under which a server can be known."""


def is_ccid(text: str) -> bool:
    """Tell whether the text has the form of a person's id (42 characters, ``con…``)."""
    return text.startswith("con") and _KEY_ID.fullmatch(text) is not None


def is_csid(text: str) -> bool:
    """Tell whether the text has the form of a server key's id (42 characters, ``ccs…``)."""
    return text.startswith("ccs") and _KEY_ID.fullmatch(text) is not None


def is_fqdn(text: str) -> bool:
    """Tell whether the text has the form of a server's name: an ASCII hostname that is no literal address.

    Either letter case passes; a final dot does not. See :func:`canonical_fqdn` for the one spelling.
    """
    return (
        len(text) <= MAX_FQDN_LENGTH
        and _HOSTNAME.fullmatch(text) is not None
        and _NUMERIC_LAST_LABEL.fullmatch(text) is None
    )


def is_domain_owner(owner: str) -> bool:
    """Tell whether an owner is a server's name: neither a CCID nor a CSID, and a hostname."""
    return not is_ccid(owner) and not is_csid(owner) and is_fqdn(owner)


def canonical_fqdn(name: str) -> str:
    """Return the one spelling under which a server is known.

    Args:
        name: a hostname as somebody wrote it: any letter case, one final dot, international labels.

    Returns:
        Lower-case ASCII without a final dot, at most 253 characters.

    Raises:
        MalformedName: no hostname, a literal address in some spelling, or the local host.

    """
    # One character more for the final dot. The bound comes first: IDNA is slow on long input.
    if len(name) > MAX_FQDN_LENGTH + 1:
        raise MalformedName("longer than 253 characters")
    return _canonical_fqdn(name)


@lru_cache(maxsize=65_536)
def _canonical_fqdn(name: str) -> str:
    if not name.isascii():
        name = _to_ascii(name)
    name = name.removesuffix(".").lower()
    if not is_fqdn(name):
        raise MalformedName("not a hostname")
    if name == "localhost" or name.endswith(".localhost"):
        raise MalformedName("names the local host")
    return name


def _to_ascii(name: str) -> str:
    try:
        return idna.encode(name, uts46=True, std3_rules=True, transitional=False).decode("ascii")
    except UnicodeError as error:  # idna.IDNAError is one
        raise MalformedName("not an international hostname") from error

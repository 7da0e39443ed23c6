"""PostgreSQL connection strings.

The Go crawler's driver takes two spellings, a URL and libpq's `host=db user=me password='se cret'`; ours
takes URLs only. The second spelling is turned into the first here, so that its files work unchanged.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from indexer.config.errors import MASK, Refused

_SCHEMES = frozenset({"postgres", "postgresql"})
_PAIR = re.compile(r"\s*([A-Za-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))\s*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def parse_dsn(text: str) -> str:
    """Return the connection string as a URL. Raises `Refused`."""
    if "://" not in text.split("=", 1)[0]:
        return _url_of_pairs(text)
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise Refused(
            "has a host or port that can not be read (is `/`, `#` or `@` in it escaped?)"
        ) from error
    if parts.scheme not in _SCHEMES:
        raise Refused("is a URL of another kind")
    if parts.fragment:
        raise Refused("has a `#` in it that is not escaped (write %23)")
    return text


def _url_of_pairs(text: str) -> str:
    pairs: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            raise Refused("is neither a URL nor a list of keyword=value")
        quoted, plain = match[2], match[3]
        pairs[match[1]] = _ESCAPE.sub(r"\1", plain if quoted is None else quoted)
        position = match.end()
    if not pairs:
        raise Refused("is neither a URL nor a list of keyword=value")
    return "postgresql://?" + urlencode(pairs, quote_via=quote)


def masked_dsn(dsn: str) -> str:
    """Return the URL with its password hidden, wherever it stands in it."""
    if not dsn:
        return dsn
    parts = urlsplit(dsn)
    netloc = parts.netloc
    credentials, at, host = netloc.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if colon:
        netloc = f"{user}:{MASK}{at}{host}"
    pairs = [(key, MASK if key == "password" else value) for key, value in parse_qsl(parts.query)]
    query = f"?{urlencode(pairs, safe='*/:,')}" if pairs else ""
    return f"{parts.scheme}://{netloc}{parts.path}{query}"

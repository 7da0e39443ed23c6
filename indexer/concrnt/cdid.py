"""CDIDs: the name of a document by its time and its content (protocol.md, section 1).

16 bytes: ``createdAt`` in Unix milliseconds (6 bytes, big-endian), then the first 10 bytes of the keccak256
of the document string; written in base32, most significant bits first, without padding. So CDIDs sort as
their documents' times do.
"""

import re
from datetime import datetime
from itertools import product
from typing import Final

from eth_hash.backends.pysha3 import keccak256

from indexer.concrnt.times import NANOSECONDS_PER_MILLISECOND, from_datetime

ALPHABET: Final = "0123456789abcdefghjkmnpqrstuvwyz"
LENGTH: Final = 26

_FORM = re.compile(rf"[{ALPHABET}]{{{LENGTH}}}")
# Two letters (ten bits) a look-up: half the work of one letter at a time.
_PAIRS: Final = tuple("".join(pair) for pair in product(ALPHABET, repeat=2))
# 128 bits fill 26 letters (130 bits) from the left: two zero bits end the text.
_SPARE_BITS: Final = 2
_SHIFTS: Final = tuple(range(120, -1, -10))
_MAX_MILLISECONDS: Final = (1 << 48) - 1


def cdid(document: str, created_at: datetime) -> str:
    """Return the CDID of a document.

    Args:
        document: the document string, exactly as signed.
        created_at: its ``createdAt``, aware; cut to the millisecond.

    Raises:
        ValueError: ``created_at`` is naive or before 1970.
        UnicodeEncodeError: the document holds lone surrogates, so it has no bytes.

    """
    milliseconds = from_datetime(created_at) // NANOSECONDS_PER_MILLISECOND
    return cdid_at(document.encode(), milliseconds)


def cdid_at(document: bytes, milliseconds: int) -> str:
    """Return the CDID of a document's bytes and its ``createdAt`` in Unix milliseconds.

    Raises:
        ValueError: the time does not fit into six bytes: it is before 1970 (or after the year 10000).

    """
    if not 0 <= milliseconds <= _MAX_MILLISECONDS:
        raise ValueError("createdAt does not fit into a CDID")
    digest = int.from_bytes(keccak256(document)[:10], "big")
    bits = ((milliseconds << 80) | digest) << _SPARE_BITS
    pairs = _PAIRS
    return "".join([pairs[(bits >> shift) & 1023] for shift in _SHIFTS])


def is_cdid(text: str) -> bool:
    """Tell whether the text has the form of a CDID."""
    return _FORM.fullmatch(text) is not None

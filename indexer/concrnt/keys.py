"""Key pairs, addresses and signatures (protocol.md, sections 1 and 3).

An *address* is the 20 bytes ``ripemd160(sha256(compressed public key))``; a CCID, CSID or CKID is its
bech32 text under the prefix ``con``, ``ccs`` or ``cck``. A *signature* is 65 bytes, r ‖ s ‖ v with v = 0 or
1, in hex, over the keccak256 of the document string's UTF-8 bytes.

Pure Python bech32 costs as much as recovering a key does. Its checksum is linear: that of an address is the
exclusive or of one table entry a character, and the library makes the tables (:func:`_checksum_tables`).
Signatures met lately are not recovered again: a derived follow embeds another commit, a reference leans on
one.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Self

import bech32
from coincurve import PrivateKey, PublicKey
from Crypto.Hash import RIPEMD160
from eth_hash.backends.pysha3 import keccak256

CCID_PREFIX: Final = "con"
CSID_PREFIX: Final = "ccs"
CKID_PREFIX: Final = "cck"

_PREFIXES: Final = frozenset({CCID_PREFIX, CSID_PREFIX, CKID_PREFIX})
_ADDRESS_BYTES: Final = 20
_ADDRESS_WORDS: Final = 32
_CHECKSUM_BITS: Final = 30
_CHECKSUM_MASK: Final = 2**_CHECKSUM_BITS - 1
_KEY_ID = re.compile(rf"[a-z]{{3}}1[{bech32.CHARSET}]{{38}}")
_VALUES: Final = str.maketrans({character: chr(value) for value, character in enumerate(bech32.CHARSET)})
_REMEMBERED_SIGNATURES: Final = 16_384
_SIGNATURE = re.compile(r"[0-9a-fA-F]{128}0[01]")
_SEED_DOMAIN: Final = b"concrnt-indexer key seed\x00"


def _ripemd160_here() -> Callable[[bytes], bytes]:
    """OpenSSL's, many times as fast as the other, where the build still has it."""
    try:
        hashlib.new("ripemd160")
    except ValueError:
        return lambda data: RIPEMD160.new(data).digest()
    return lambda data: hashlib.new("ripemd160", data).digest()


_ripemd160: Final = _ripemd160_here()


class MalformedSignature(ValueError):  # noqa: N818 - says what the text is
    """The text is no signature, or no key can be recovered from it."""


class MalformedAddress(ValueError):  # noqa: N818 - says what the text is
    """The text is no bech32 key id with the prefix asked for."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A secp256k1 key pair and the ids made from it.

    Made by :meth:`from_hex` or :meth:`from_seed`. The private key is never shown.
    """

    address: bytes
    ccid: str
    csid: str
    ckid: str
    _private_key: PrivateKey = field(repr=False, compare=False)

    @classmethod
    def from_hex(cls, private_key: str) -> Self:
        """Make the pair of a private key given as 64 hex digits.

        Raises:
            ValueError: not 64 hex digits, or no valid secp256k1 key.

        """
        secret = bytes.fromhex(private_key)
        if len(secret) != 32:
            raise ValueError("a private key has 32 bytes")
        return cls._of(PrivateKey(secret))

    @classmethod
    def from_seed(cls, seed: str | bytes) -> Self:
        """Make a pair from a seed: equal seeds give equal keys.

        For simulations and tests. A guessable seed is a guessable key.
        """
        material = seed.encode() if isinstance(seed, str) else seed
        # All but about 2^-128 of all digests are valid keys; the loop is for the proof, not for the practice.
        secret = hashlib.sha256(_SEED_DOMAIN + material).digest()
        while True:
            try:
                return cls._of(PrivateKey(secret))
            except ValueError:
                secret = hashlib.sha256(secret).digest()

    @classmethod
    def _of(cls, private_key: PrivateKey) -> Self:
        address = address_of_public_key(private_key.public_key.format(compressed=True))
        return cls(
            address=address,
            ccid=encode_address(CCID_PREFIX, address),
            csid=encode_address(CSID_PREFIX, address),
            ckid=encode_address(CKID_PREFIX, address),
            _private_key=private_key,
        )

    def sign(self, document: str) -> str:
        """Sign a document string: 130 lower-case hex digits, r ‖ s ‖ v."""
        return self._private_key.sign_recoverable(keccak256(document.encode()), hasher=None).hex()


def address_of_public_key(compressed: bytes) -> bytes:
    """Return the 20-byte address of a public key in its compressed form (33 bytes)."""
    return _ripemd160(hashlib.sha256(compressed).digest())


def encode_address(prefix: str, address: bytes) -> str:
    """Return the bech32 id of an address under ``con``, ``ccs`` or ``cck``."""
    words = bech32.convertbits(address, 8, 5)
    if words is None or len(address) != _ADDRESS_BYTES:
        raise MalformedAddress("an address has 20 bytes")
    return bech32.bech32_encode(prefix, words)


def decode_address(key_id: str) -> bytes:
    """Return the 20-byte address of a CCID, CSID or CKID, whichever it is.

    Raises:
        MalformedAddress: no bech32 of 20 bytes under one of the three prefixes, as ids of old data may be.

    """
    prefix = key_id[: len(CCID_PREFIX)]
    if prefix not in _PREFIXES or _KEY_ID.fullmatch(key_id) is None:
        raise MalformedAddress("not a key id in bech32")
    words = key_id.translate(_VALUES).encode("latin-1")[len(prefix) + 1 :]
    zeros, tables = _checksum_tables(prefix)
    checksum = zeros
    for table, word in zip(tables, words, strict=False):  # the words of the address, without the checksum's
        checksum ^= table[word]
    number = 0
    for word in words:
        number = number << 5 | word
    if number & _CHECKSUM_MASK != checksum:
        raise MalformedAddress("not a key id in bech32")
    return (number >> _CHECKSUM_BITS).to_bytes(_ADDRESS_BYTES, "big")


@lru_cache
def _checksum_tables(prefix: str) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Return the checksum of the address of zeros, and what each character at each place changes in it."""

    def checksum(words: list[int]) -> int:
        number = 0
        for word in bech32.bech32_create_checksum(prefix, words):
            number = number << 5 | word
        return number

    def changed_by(place: int, word: int) -> int:
        return of_zeros ^ checksum([*zeros[:place], word, *zeros[place + 1 :]])

    zeros = [0] * _ADDRESS_WORDS
    of_zeros = checksum(zeros)
    tables = []
    for place in range(_ADDRESS_WORDS):
        table = [0]
        for bit in range(5):  # each further bit changes the same bits, whatever the lower ones are
            changed = changed_by(place, 1 << bit)
            table += [entry ^ changed for entry in table]
        tables.append(tuple(table))
    return of_zeros, tuple(tables)


def recover_address(document: str, signature: str) -> bytes:
    """Return the address of the key that signed a document string.

    Args:
        document: the document string, exactly as signed.
        signature: 130 hex digits in either case, r ‖ s ‖ v with v = 0 or 1.

    Returns:
        20 bytes, to be compared with :func:`decode_address` of the author.

    Raises:
        MalformedSignature: not 65 bytes of hex, another v, or no key fits.

    """
    if _SIGNATURE.fullmatch(signature) is None:
        raise MalformedSignature("not 65 bytes of hex that end in 00 or 01")
    address = _recovered(keccak256(document.encode()), signature)
    if address is None:
        raise MalformedSignature("no key fits the signature")
    return address


@lru_cache(maxsize=_REMEMBERED_SIGNATURES)
def _recovered(digest: bytes, signature: str) -> bytes | None:
    try:
        public_key = PublicKey.from_signature_and_message(bytes.fromhex(signature), digest, hasher=None)
    except ValueError:
        return None
    return address_of_public_key(public_key.format(compressed=True))

"""Response bodies: decompressed while they come in, counted, and checked to be whole.

httpx decodes a gzip stream without noticing that it ends early, and without a bound on what comes out. So the
raw bytes are decoded here: a stream has to reach its own end, trailer included, and what comes out is counted
before it is kept.
"""

import zlib
from typing import Final

from indexer.concrnt.failures import FailureClass, PeerError

ACCEPT_ENCODING: Final = "gzip, deflate"

_GZIP: Final = 16 + zlib.MAX_WBITS
_ZLIB: Final = zlib.MAX_WBITS
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_STEP_BYTES: Final = 1 << 20


class Body:
    """Collects one body.

    All methods raise :class:`PeerError`: ``too_large`` when more than ``max_bytes`` come in or come out,
    ``bad_payload`` for a broken stream, for one that ends early, and for a coding that we did not ask for.
    """

    def __init__(self, coding: str, max_bytes: int) -> None:
        self._inflater = _inflater_for(coding)
        self._max_bytes = max_bytes
        self._received = 0
        self._size = 0
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Take in the next raw bytes."""
        self._received += len(data)
        if self._received > self._max_bytes:
            raise self._too_large()
        if self._inflater is None:
            self._keep(data)
            return
        while data:
            # A megabyte at a time: a bomb is noticed before it is in memory.
            part, data = self._inflater.feed(data)
            self._keep(part)

    def finish(self) -> bytes:
        """Return the whole body, once the raw bytes have ended."""
        if self._inflater is not None and self._received:
            self._keep(self._inflater.finish())
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_bytes:
            raise self._too_large()
        self._parts.append(part)

    def _too_large(self) -> PeerError:
        return PeerError(FailureClass.TOO_LARGE, f"more than {self._max_bytes} bytes")


class _Inflater:
    """A zlib stream, or a row of gzip members, that has to end by itself."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._stream = zlib.decompressobj(_GZIP) if gzip else None

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return up to a megabyte of output, and the input that is still to be fed."""
        if self._stream is None:
            # "deflate" is the zlib format, yet some send it bare. Only zlib's first byte ends in the digit 8.
            self._stream = zlib.decompressobj(_ZLIB if data[0] & 0x0F == 8 else _RAW_DEFLATE)
        elif self._stream.eof and self._gzip:
            self._stream = zlib.decompressobj(_GZIP)
        if self._stream.eof:
            raise PeerError(FailureClass.BAD_PAYLOAD, "bytes after the end of the compressed stream")
        try:
            part = self._stream.decompress(data, _STEP_BYTES)
        except zlib.error as error:
            raise PeerError(FailureClass.BAD_PAYLOAD, "a broken compressed stream") from error
        return part, self._stream.unconsumed_tail or self._stream.unused_data

    def finish(self) -> bytes:
        """Return what the stream still held back; it must have reached its end."""
        rest = b""
        if self._stream is not None:
            try:
                rest = self._stream.flush()
            except zlib.error as error:
                raise PeerError(FailureClass.BAD_PAYLOAD, "a broken compressed stream") from error
        if self._stream is None or not self._stream.eof:
            raise PeerError(FailureClass.BAD_PAYLOAD, "the compressed stream ends early")
        return rest


def _inflater_for(coding: str) -> _Inflater | None:
    match coding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return _Inflater(gzip=True)
        case "deflate":
            return _Inflater(gzip=False)
        case _:
            raise PeerError(FailureClass.BAD_PAYLOAD, "a content coding that was not asked for")

"""Bodies: bounded after decompression, and whole."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.bodies import Body
from indexer.concrnt.failures import FailureClass, PeerError


def compress(coding: str, data: bytes) -> bytes:
    match coding:
        case "gzip" | "x-gzip":
            return gzip.compress(data, mtime=0)
        case "deflate":
            return zlib.compress(data)
        case "bare deflate":
            stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            return stream.compress(data) + stream.flush()
        case _:
            return data


def read(coding: str, raw: bytes, *, step: int = 7, at_most: int = 10_000_000) -> bytes:
    body = Body(coding.removeprefix("bare "), at_most)
    for start in range(0, len(raw), step):
        body.feed(raw[start : start + step])
    return body.finish()


CODINGS = ["", "identity", "gzip", "x-gzip", "deflate", "bare deflate", " GZIP "]


@given(st.binary(max_size=300), st.sampled_from(CODINGS), st.integers(1, 40))
def test_bodies_come_out_as_they_went_in(data: bytes, coding: str, step: int) -> None:
    """However the raw bytes are cut on the way."""
    assert read(coding, compress(coding.strip().lower(), data), step=step) == data


def test_gzip_members_follow_each_other() -> None:
    """Several members are one body (RFC 1952)."""
    assert read("gzip", gzip.compress(b"one", mtime=0) + gzip.compress(b"two")) == b"onetwo"


def test_output_that_waits_inside_the_decompressor_is_not_lost() -> None:
    """Megabytes that come out of one small step arrive whole."""
    data = b"x" * 9_000_000
    for coding in ("gzip", "deflate", "bare deflate"):
        assert read(coding, compress(coding, data), step=1_000_000) == data


@pytest.mark.parametrize("coding", ["gzip", "deflate", "bare deflate"])
def test_a_stream_that_ends_early_is_bad_payload(coding: str) -> None:
    """Every cut is noticed, one within the trailer too, although all the data may have come out."""
    raw = compress(coding, b"some text that is long enough")
    for end in range(1, len(raw)):
        with pytest.raises(PeerError) as caught:
            read(coding, raw[:end])
        assert caught.value.failure is FailureClass.BAD_PAYLOAD


@pytest.mark.parametrize(
    ("coding", "raw"),
    [
        ("gzip", b"plain text"),
        ("gzip", gzip.compress(b"a", mtime=0)[:-8] + b"\0" * 8),
        ("gzip", gzip.compress(b"a", mtime=0) + b"trailing"),
        ("deflate", b"xplain text"),
        ("deflate", zlib.compress(b"a") + b"trailing"),
        ("br", b""),
        ("gzip, gzip", b""),
    ],
)
def test_a_broken_stream_is_bad_payload(coding: str, raw: bytes) -> None:
    """Other bytes, a wrong checksum, bytes after the end, codings that we did not ask for."""
    with pytest.raises(PeerError) as caught:
        read(coding, raw)
    assert caught.value.failure is FailureClass.BAD_PAYLOAD


def test_an_empty_body_needs_no_stream() -> None:
    """An answer without a body may still name a coding."""
    assert read("gzip", b"") == b""


@pytest.mark.parametrize("coding", ["", "gzip", "deflate", "bare deflate"])
def test_a_body_is_bounded_in_what_comes_out(coding: str) -> None:
    """Exactly the bound passes; a byte more, or a bomb, does not."""
    assert len(read(coding, compress(coding, b"x" * 1000), at_most=1000)) == 1000
    for size in (1001, 100_000_000 if coding else 1_000_000):
        with pytest.raises(PeerError) as caught:
            read(coding, compress(coding, b"x" * size), at_most=1000, step=100_000)
        assert caught.value.failure is FailureClass.TOO_LARGE


def test_raw_bytes_are_bounded_too() -> None:
    """A stream that gives nothing for its bytes does not run on."""
    empty = zlib.compressobj(wbits=31)
    raw = empty.compress(b"") + b"".join(empty.flush(zlib.Z_FULL_FLUSH) for _ in range(1000))
    with pytest.raises(PeerError) as caught:
        read("gzip", raw + b"\0\0\0\xff\xff" * 1000, at_most=1000)
    assert caught.value.failure is FailureClass.TOO_LARGE

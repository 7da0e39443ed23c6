"""Pages: what is none never passes for an empty one, and one bad row costs one row."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.pages import MAX_ROWS, BadPayload, decode_page

T1 = "2025-03-01T00:00:00.000000001Z"
T2 = "2025-03-02T09:00:00+09:00"


def test_rows_and_cursors_come_as_they_were_sent() -> None:
    """Rows keep their bytes, cursors their text; instants stand beside them."""
    page = decode_page(f'{{"items":[{{"document" : "ね"}},null],"prev":"{T1}","next":"{T2}"}}'.encode())
    assert page.items == ('{"document" : "ね"}'.encode(), b"null")
    assert (page.prev, page.next) == (T1, T2)
    assert page.prev_ns == 1_740_787_200_000_000_001
    assert page.next_ns == 1_740_873_600_000_000_000


@pytest.mark.parametrize(
    "body",
    [
        b'{"items":null,"next":null}',
        b'{"items":[],"prev":null,"next":null}',
        b'{"next":null}',
        b' {"items":[]} \n',
    ],
)
def test_an_empty_end_is_a_page(body: bytes) -> None:
    """Old servers send null for no rows; a missing cursor is none."""
    page = decode_page(body)
    assert (page.items, page.prev, page.next, page.prev_ns, page.next_ns) == ((), None, None, None, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<!doctype html><title>just a moment</title>",
        b"{}",
        b'{"error":"no"}',
        b"[]",
        b"null",
        b'"x"',
        b"3",
        b'{"items":{}}',
        b'{"items":"x","next":null}',
        b'{"items":[],"next":5}',
        b'{"items":[],"prev":[]}',
        b'{"items":[],"next":""}',
        b'{"items":[],"next":"tomorrow"}',
        b'{"items":[],"next":"2025-03-02T00:00:00"}',
        b'{"items":[],"next":"2025-03-02T00:00:00Z\\u0000"}',
        b'{"items":[],"next":"\\ud800"}',
        b'{"items":[{"document":"x"}],"next":null',
        b'{"items":[{"document":"x"}',
        b'{"items":[],"next":null} trailing',
        b'{"items":[1 2]}',
        b'{"items":' + b"[" * 100_000,
        b'{"next":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"items":[' + b"0," * MAX_ROWS + b"0]}",
        b'{"items":["\xff",' + b"0," * MAX_ROWS + b"0]}",
    ],
)
def test_what_is_no_page_is_bad_payload(body: bytes) -> None:
    """HTML, other shapes, broken cursors, cut or endless text: never an empty page."""
    with pytest.raises(BadPayload):
        decode_page(body)


GOOD = '{"document":"good"}'
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "bad",
    [
        r'{"document":"\ud800"}',
        '{"document":"a\nb"}',
        '{"document":"a\0b"}',
        '{"document":' + DEEP + "}",
        DEEP,
        '{"document":"[ ] { } \\" \\\\"}',
    ],
    ids=["surrogate", "line break", "nul", "deep member", "deep row", "brackets in a string"],
)
def test_a_bad_row_costs_one_row(bad: str) -> None:
    """The rows around it arrive, and the cursor does."""
    page = decode_page(f'{{"items":[{GOOD},{bad},{GOOD}],"prev":"{T1}","next":null}}'.encode())
    assert page.items == (GOOD.encode(), bad.encode(), GOOD.encode())
    assert page.prev == T1


def test_bytes_that_are_no_utf8_cost_themselves() -> None:
    """The row that holds them arrives, whichever decoder reads the page."""
    for spoiler in (b"", b'"\\ud800":0,'):
        page = decode_page(b"{" + spoiler + b'"items":[{"document":"a\xffb"}, 1],"next":null,"\xfe":0}')
        assert [item.decode("utf-8", "replace") for item in page.items] == ['{"document":"a\ufffdb"}', "1"]


@given(
    st.lists(
        st.dictionaries(st.text(max_size=4), st.text(max_size=4) | st.integers(), max_size=3), max_size=4
    ),
    st.sampled_from([None, T1, T2]),
    st.sampled_from(["", '"\\ud800":0,', '"deep":' + "[" * 2000 + "]" * 2000 + ","]),
)
def test_both_decoders_read_the_same_page(rows: list[Any], cursor: str | None, spoiler: str) -> None:
    """A member that the fast decoder refuses changes nothing in what is read."""
    plain = json.dumps({"items": rows, "prev": T1, "next": cursor})
    spoilt = "{" + spoiler + plain[1:]
    assert decode_page(spoilt.encode()) == decode_page(plain.encode())

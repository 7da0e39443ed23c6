"""Highlights: what is marked, that all else is text, and that cuts fall between characters."""

from __future__ import annotations

import re
from html import escape, unescape
from unicodedata import normalize

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from indexer.engines import highlighting
from indexer.engines.highlighting import SHOWN_CHARACTERS, Highlighter
from indexer.engines.indexes import BY_UID, COMMUNITIES, POSTS, USERS
from indexer.engines.text import parse_query
from indexer.engines.typos import distance

FAMILY = "👨‍👩‍👧"


def marked(query: str, body: str) -> str:
    return Highlighter(BY_UID[POSTS], parse_query(query)).formatted({"body": body})["body"]


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ("猫", "東京の猫カフェ、猫", "東京の<em>猫</em>カフェ、<em>猫</em>"),
        ("ネコ", "ﾈｺ歓迎", "<em>ﾈｺ</em>歓迎"),
        ("ガイド", normalize("NFD", "旅のガイド"), normalize("NFD", "旅の<em>ガイド</em>")),
        ("abc", "ＡＢＣ and abcdef", "<em>ＡＢＣ</em> and <em>abc</em>def"),
        ("株式", "㍿は", "<em>㍿</em>は"),
        ("cat dog", "cats, cat & dogs", "cats, <em>cat</em> &amp; <em>dog</em>s"),
        ("planet", "a plamet", "a <em>plamet</em>"),
        ("fedre", "federation", "<em>feder</em>ation"),
        ("hund", "hand", "hand"),
        ("ねこ img", "<img src=x onerror=1> ねこ", "&lt;<em>img</em> src=x onerror=1&gt; <em>ねこ</em>"),
        ("em", "<em>x</em>", "&lt;<em>em</em>&gt;x&lt;/<em>em</em>&gt;"),
        ('"', "say \"hi\" & 'bye'", "say &quot;hi&quot; &amp; &#x27;bye&#x27;"),
        (FAMILY, f"うち{FAMILY}です", f"うち<em>{FAMILY}</em>です"),
        ("👍", "いい👍🏽ね", "いい<em>👍🏽</em>ね"),
        ("⛄", "雪⛄\ufe0fだ", "雪<em>⛄\ufe0f</em>だ"),
        ("straße", "STRASSE", "<em>STRASSE</em>"),
        ("aaa", "aaaaa", "<em>aaa</em>aa"),
        ("ああ", "あああ", "<em>あああ</em>"),
        ("", "猫 & 犬", "猫 &amp; 犬"),
        ("( & !", "(猫)", "(猫)"),
    ],
)
def test_marks(query: str, body: str, expected: str) -> None:
    """What the query found is marked, in every width, case and normal form; the rest is escaped."""
    assert marked(query, body) == expected


def test_every_searchable_text_is_shown() -> None:
    """Ids too, but without typos; names are never cropped; what is no text is left out."""
    document = {
        "username": "concrnt " * 60,
        "description": "x" * 400,
        "ccid": "concrnt",
        "owner": "conkrnt",
        "cckv": 1,
        "avatar": "concrnt",
    }
    shown = Highlighter(BY_UID[USERS], parse_query("concrnt")).formatted(document)
    assert list(shown) == ["username", "description", "ccid", "owner"]
    assert shown["username"].count("<em>concrnt</em>") == 60
    assert shown["description"] == "x" * SHOWN_CHARACTERS + "…"
    assert shown["ccid"] == "<em>concrnt</em>"
    assert shown["owner"] == "conkrnt"
    assert Highlighter(BY_UID[COMMUNITIES], parse_query("x")).formatted({}) == {}


@pytest.mark.parametrize("filler", ["長い話。", "long story, ", FAMILY])
@pytest.mark.parametrize("before", [0, 30, 300, 1_000])
@pytest.mark.parametrize("after", [0, 30, 300])
def test_long_texts_are_cropped_around_the_match(filler: str, before: int, after: int) -> None:
    """The match is shown whole, near the beginning of the window; what is left out is told."""
    body = f"{filler * before}ねこ {filler * after}"
    shown = marked("ねこ", body)
    assert "<em>ねこ</em>" in shown
    text = unescape(shown.replace("<em>", "").replace("</em>", ""))
    assert len(regex.findall(r"\X", text.strip("…"))) <= SHOWN_CHARACTERS
    assert text.strip("…") in body
    assert text.startswith("…") == (not body.startswith(text.strip("…")))
    assert text.endswith("…") == (not body.endswith(text.strip("…")))


def test_a_match_beyond_the_bound_is_no_error() -> None:
    """Giant texts are shown by their beginning."""
    assert marked("ねこ", "あ" * 100_000 + "ねこ") == "あ" * SHOWN_CHARACTERS + "…"


TEXTS = st.text(
    st.one_of(st.sampled_from(f"猫ねこcat<>&'\" が゙ﾞ{FAMILY}🏽\u200d\ufe0f①İß\0"), st.characters()),
    max_size=300,
)


@given(st.sampled_from(["ねこ", "cat", "cta", "<", "&amp;", FAMILY, "ﾈｺ", "x"]), TEXTS, TEXTS)
def test_what_is_cropped_is_a_piece_of_the_text(query: str, before: str, after: str) -> None:
    """Without marks and escapes it stands in the text, whole characters from end to end."""
    body = f"{before * 5} {query} {after * 5}"
    text = unescape(re.sub(r"</?em>", "", marked(query, body)))
    pieces = [text[first : len(text) - last] for first in (0, 1) for last in (0, 1)]
    assert any(piece in body for piece in pieces)
    characters = regex.findall(r"\X", body)
    joined = {"".join(characters[at : at + SHOWN_CHARACTERS]) for at in range(len(characters))}
    assert any(whole.startswith(piece) for piece in pieces for whole in joined)


@given(TEXTS, TEXTS)
def test_nothing_but_text_and_marks(query: str, body: str) -> None:
    """Whatever is asked and written: the text is all there, or cropped, and marks are paired."""
    shown = marked(query, body)
    assert re.sub(r"</?em>|&(?:lt|gt|amp|quot|#x27);|[^<>&'\"]", "", shown) == ""
    assert re.fullmatch(r"(?:[^<]|<em>[^<]+</em>)*", shown)
    characters = regex.findall(r"\X", body)
    if len(characters) <= SHOWN_CHARACTERS:
        assert re.sub(r"</?em>", "", shown) == escape(body)
    text = unescape(re.sub(r"</?em>", "", shown))
    assert any(cropped in body for cropped in (text, text[1:], text[:-1], text[1:-1]))
    for mark in re.findall("<em>(.*?)</em>", shown, re.DOTALL):
        assert escape(body).count(mark)


def _words(count: int, letters: str, first: int = 0) -> list[str]:
    return ["".join(letters[(first + n) // 7**place % 7] for place in range(11)) for n in range(count)]


def _costly() -> dict[str, tuple[str, str]]:
    """Queries with texts that were made to be looked at for long."""
    near = " ".join(f"abcdefg{word[:4]}" for word in _words(1_400, "hijklmn"))
    return {
        "no word near": ("-".join(_words(32, "stuvwxy")), " ".join(_words(1_400, "abcdefg"))),
        "every word near": ("-".join(f"abcdefg{word[:4]}z" for word in _words(32, "opqrstu")), near),
        "every run": (" ".join("あ" * size for size in range(1, 11)), "あ" * 16_000),
        "many runs": ("-".join("猫" * size for size in range(2, 34)), "犬 " * 8_000),
        "short words": ("-".join(_words(32, "stuvwxy")), " ".join(f"{n:x}" for n in range(5_000))),
    }


@pytest.mark.parametrize("name", _costly())
@pytest.mark.parametrize("index", [POSTS, USERS])
def test_the_work_is_bounded(name: str, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever query and texts hold, few pairs of words are compared, and few marks made."""
    query, text = _costly()[name]
    compared = 0

    def counted(word: str, other: str, most: int) -> int | None:
        nonlocal compared
        compared += 1
        return distance(word, other, most)

    monkeypatch.setattr(highlighting, "distance", counted)
    document = {"body": text, "username": text, "description": text}
    highlighter = Highlighter(BY_UID[index], parse_query(query))
    shown = [highlighter.formatted(document) for _ in range(40)]
    assert compared <= highlighting.WORK_OF_ANSWER / 100
    marks = sum(text.count("<em>") for one in shown for text in one.values())
    assert marks <= highlighting.WORK_OF_ANSWER / 5
    again = Highlighter(BY_UID[index], parse_query(query))
    assert [again.formatted(document) for _ in range(40)] == shown


def test_words_as_they_are_spelled_are_marked_past_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's long text takes the marks of another's away."""
    monkeypatch.setattr(highlighting, "WORK_OF_ANSWER", 500)
    near, _ = _costly()["every word near"]
    highlighter = Highlighter(BY_UID[USERS], parse_query(f"planet {near}"))
    for _ in range(3):
        shown = highlighter.formatted(
            {"username": "a planet", "description": _costly()["every word near"][1]}
        )
        assert shown["username"] == "a <em>planet</em>"

"""Folding and cutting: what is found by what, for any text."""

from __future__ import annotations

import sys
import time
from unicodedata import normalize

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import example, given
from hypothesis import strategies as st

from indexer.engines.text import (
    INDEXED_CHARACTERS,
    MAX_WORD_CHARACTERS,
    QUERY_PARTS,
    QUERY_TERMS,
    Query,
    clip,
    field_terms,
    fold,
    parse_query,
)

FAMILY = "👨‍👩‍👧"
UNSPACED = st.text(
    st.one_of(
        st.sampled_from("今日は雨が降る東京の猫カフェーガイド高〆々〇ｶﾞ゙゚𠮷고양이กำลังລາວ"),
        st.characters(min_codepoint=0x3041, max_codepoint=0x30FE),
        st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF),
        st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),
    ),
    min_size=1,
    max_size=40,
)


def finds(query: str | Query, text: str) -> bool:
    """Whether a document of one field would match: what an engine does, in few words."""
    parsed = parse_query(query) if isinstance(query, str) else query
    terms = field_terms(text)
    if not parsed.terms:
        return parsed.is_blank
    return all(
        (
            any(found.startswith(term.lexemes[0]) for found in terms.lexemes)
            if term.is_prefix or (parsed.open_ended and term is parsed.terms[-1])
            else terms.lexemes.issuperset(term.lexemes)
        )
        and (term.substring is None or any(term.substring in run for run in terms.runs))
        for term in parsed.terms
    )


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("雨", "今日は雨が降る"),
        ("今日は雨が降る", "今日は雨が降る"),
        ("猫カ", "東京の猫カフェ"),
        ("カフェ", "東京の猫カフェ"),
        ("db", "db設計メモ"),
        ("DB", "db設計メモ"),
        ("設計", "db設計メモ"),
        ("ネコ", "ﾈｺ歓迎"),
        ("ﾈｺ", "ネコ歓迎"),
        ("고양", "이 고양이"),
        ("𠮷", "𠮷野家"),
        ("ｅｘａｍｐｌｅ", "alpha.example"),
        ("alpha.exa", "cckv://alpha.example/concrnt.world"),
        ("con100", "con100000"),
        ("30", "第300回"),
        ("葛", "葛\U000e0100城"),
        ("soft", "so\u00adft"),
        ("straße", "STRASSE"),
        ("Ⅳ", "iv"),
        ("①", "1"),
        ("㍿", "株式会社"),
        ("株式", "㍿"),
        ("İ", "İ"),
        ("ไทย", "ภาษาไทย"),
    ],
)
def test_found(query: str, text: str) -> None:
    """Width, case, normal form and script changes do not keep a text from being found."""
    assert finds(query, text)
    assert finds(normalize("NFD", query), normalize("NFC", text))
    assert finds(normalize("NFC", query), normalize("NFD", text))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("ねこ", "ネコ歓迎"),  # katakana and hiragana are as typed
        ("猫カフェ", "猫カ カフ フェ"),  # neighbours alone do not make a substring
        ("東京都", "京都の東"),
        ("cat", "concatenate"),
        ("cats dogs", "cat dogs"),  # only the last word may be unfinished
        ("istanbul", "İstanbul"),  # the dot above is not folded away
        ("👩", FAMILY),
        ("👨‍👩", FAMILY),
    ],
)
def test_not_found(query: str, text: str) -> None:
    """What only looks alike is not found."""
    assert not finds(query, text)


@pytest.mark.parametrize("width", ["ガイド", "ｶﾞｲﾄﾞ", normalize("NFD", "ガイド")])
@pytest.mark.parametrize("other", ["ガイド", "ｶﾞｲﾄﾞ", normalize("NFD", "ガイド")])
def test_one_word_in_other_code_points(width: str, other: str) -> None:
    """Every width and normal form finds every other."""
    assert finds(width, f"東京{other}の会")


@pytest.mark.parametrize("snowman", ["⛄", "⛄\ufe0f", "⛄\ufe0e"])
def test_variation_selectors_do_not_matter(snowman: str) -> None:
    """An emoji is found with and without a variation selector."""
    assert finds("⛄", f"冬{snowman}だ")
    assert finds(snowman, "冬⛄だ")


def test_emoji_are_whole() -> None:
    """Emoji are found as people see them: joined ones whole, toned ones also by their plain form."""
    assert finds(FAMILY, f"うちの{FAMILY}です")
    assert finds("👍", "いいね👍🏽")
    assert finds("👍🏽", "いいね👍🏽")
    assert not finds("👍🏽", "いいね👍")
    assert finds("🇯🇵", "🇫🇷🇯🇵")
    assert not finds("🇷🇯", "🇫🇷🇯🇵")
    assert finds("♡", "すき♡")


@pytest.mark.parametrize("blank", ["", " ", "\t\n　", "\ufe0f"])
def test_blank_asks_for_everything(blank: str) -> None:
    """Nothing but space is no query."""
    assert parse_query(blank) == Query((), is_blank=True, open_ended=False)


@pytest.mark.parametrize(
    "signs", [*"(%_@#-'\\\0\ufffd", "&|!", '"', "<->", ":*", "。、", chr(0xD800), "\x7f"]
)
def test_signs_find_nothing(signs: str) -> None:
    """Signs alone are a query that nothing matches."""
    assert parse_query(signs) == Query((), is_blank=False, open_ended=False)


def test_operators_are_text() -> None:
    """What is syntax elsewhere separates words here."""
    assert parse_query("a:b* & !(-cat <-> \"x'\\").terms == parse_query("a b cat x").terms


def test_parts_are_what_stands_between_spaces() -> None:
    """A link, or a word that changes its script, is one part of a query, whatever it is cut into."""
    query = parse_query("alpha.example 猫カフェ　db設計 cat cat")
    assert [term.lexemes[0] for term in query.terms] == ["alpha", "example", "猫カ", "db", "設計", "cat"]
    assert query.parts == (2, 3, 5, 6)


def test_queries_are_bounded() -> None:
    """A query of any length asks for a bounded number of terms; the cut-off one is not taken for a prefix."""
    query = parse_query(" ".join(f"word{number}" for number in range(10_000)))
    assert len(query.terms) == QUERY_PARTS
    assert not query.open_ended
    assert len(parse_query(".".join(f"word{number}" for number in range(10_000))).terms) == QUERY_TERMS
    assert sum(len(term.lexemes) for term in parse_query("あいう" * 5_000).terms) <= 64
    assert parse_query("x" * 100_000).terms[0].lexemes == ("x" * MAX_WORD_CHARACTERS,)
    assert len(parse_query("猫 " * 5_000).terms) == 1


def test_what_is_beyond_the_bounds_is_cut() -> None:
    """A giant text is indexed up to a bound, and a giant word by its beginning."""
    assert finds("x" * 100, "x" * 100_000)
    assert finds("x" * 100_000, "x" * 100_000)
    assert finds("まえ", "まえ" + "あ" * INDEXED_CHARACTERS + "うしろ")
    assert not finds("うしろ", "まえ" + "あ" * INDEXED_CHARACTERS + "うしろ")
    terms = field_terms("".join(chr(0x4E00 + number % 20_000) for number in range(5_000_000)))
    assert sum(len(lexeme.encode()) + 1 for lexeme in terms.lexemes) < 2**20 / 3
    worst = field_terms("".join(chr(0x20000 + number) for number in range(INDEXED_CHARACTERS)))
    assert sum(len(lexeme.encode()) + 1 for lexeme in worst.lexemes) < 2**20 / 3


def test_lexemes_are_bounded() -> None:
    """Neither a mountain of marks nor an endless joined emoji makes a lexeme beyond a tsvector's 2 kB."""
    starts_and_marks = [("猫", "\u0301"), ("a", "\u0301"), ("각", "\u11a8"), ("👨", "\u200d👨")]
    for text in (start + mark * 5_000 for start, mark in starts_and_marks):
        for lexeme in field_terms(text).lexemes:
            assert len(lexeme.encode()) < 2_000
        assert finds(text, text)


@pytest.mark.parametrize("limit", range(12))
def test_clip_never_cuts_within_a_character(limit: int) -> None:
    """Cuts fall between characters as people see them."""
    text = f"あ{FAMILY}e\u0301猫"
    characters = regex.findall(r"\X", text)
    clipped = clip(text, limit)
    assert len(clipped) <= limit
    assert regex.findall(r"\X", clipped) == characters[: len(regex.findall(r"\X", clipped))]


@given(st.text())
@example("ͅ")
@example("ﷺ")
def test_folding_is_idempotent(text: str) -> None:
    """What is folded stays as it is."""
    assert fold(fold(text)) == fold(text)


def test_folding_is_idempotent_for_every_character() -> None:
    """Of all characters there are, none folds further the second time."""
    for code_point in range(sys.maxunicode + 1):
        character = chr(code_point)
        folded = fold(character)
        assert folded == character or fold(folded) == folded


@given(UNSPACED, st.data())
def test_any_substring_of_a_run_finds_it(text: str, data: st.DataObject) -> None:
    """Any stretch of one character or more of an unspaced run finds the text."""
    terms = field_terms(text)
    for run in terms.runs or [fold(text)]:
        characters = regex.findall(r"\X", run)
        start = data.draw(st.integers(0, len(characters) - 1))
        end = data.draw(st.integers(start + 1, len(characters)))
        query = parse_query("".join(characters[start:end]))
        assert finds(query, text) or not query.terms


@given(st.text())
def test_a_text_finds_itself(text: str) -> None:
    """Whatever the text, all of its terms are terms of it."""
    assert finds(text, text) or not parse_query(text).terms


@given(st.text(), st.text())
def test_terms_hold_no_separator(text: str, other: str) -> None:
    """No lexeme holds a control character, so that lexemes can be joined by one."""
    for lexeme in field_terms(text + other).lexemes:
        assert not regex.search(r"[\p{Cc}\p{Cs}\s]", lexeme)


def test_cutting_is_fast() -> None:
    """Cutting posts takes microseconds (a generous bound: machines that test are busy)."""
    text = "今日は雨が降るので東京の猫カフェに行きたい hello world db設計メモ 🎉 また来週も楽しみにしています"
    started = time.process_time()
    for _ in range(2_000):
        field_terms(text)
    assert (time.process_time() - started) / 2_000 < 0.0005

"""A YAML file as the words that stand in it."""

import re
from pathlib import Path

import pytest

from indexer.config.document import Entry, read_document
from indexer.config.errors import ConfigurationError


def _read(tmp_path: Path, content: str | bytes) -> dict[str, Entry]:
    file = tmp_path / "config.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_document(file)


def _reason(tmp_path: Path, content: str | bytes) -> str:
    with pytest.raises(ConfigurationError) as caught:
        _read(tmp_path, content)
    assert len(caught.value.problems) == 1
    return str(caught.value.problems[0])


@pytest.mark.parametrize(
    "word", ["off", "1:30", "010", "1_000", "2", "1e3", "2025-01-01", "y", "0x1f", ".nan", "=", "true"]
)
def test_scalars_stay_the_text_that_was_written(tmp_path: Path, word: str) -> None:
    """YAML 1.1 would make a boolean, a number or a date of each of these."""
    assert _read(tmp_path, f"a: {word}")["a"].value == word
    assert _read(tmp_path, f'a: "{word}"')["a"].value == word


@pytest.mark.parametrize("nothing", ["", "~", "null", "Null", "NULL"])
def test_an_empty_value_is_nothing_unless_it_is_quoted(tmp_path: Path, nothing: str) -> None:
    """A key without a value sets nothing; a quoted one sets its text."""
    assert _read(tmp_path, f"a: {nothing}")["a"].value is None
    assert _read(tmp_path, f"a: '{nothing}'")["a"].value == nothing


@pytest.mark.parametrize("content", ["", "\n", "# only a comment\n", "---\n", "\ufeff", "---\n...\n", "~"])
def test_an_empty_file_is_an_empty_mapping(tmp_path: Path, content: str) -> None:
    """Nothing is set where nothing stands."""
    assert _read(tmp_path, content) == {}


def test_entries_know_their_lines(tmp_path: Path) -> None:
    """Messages can point at the line of a key, behind a byte order mark too."""
    document = _read(tmp_path, "\ufeff# first\na: 1\nb:\n  c: [x, y]\n")
    assert document == {
        "a": Entry("1", 2),
        "b": Entry({"c": Entry(["x", "y"], 4)}, 3),
    }


def test_anchors_aliases_and_merges_work(tmp_path: Path) -> None:
    """What is written beside a merge goes before it, as in Go; of several merges the first."""
    document = _read(
        tmp_path,
        "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], a: 3}\nw: *x\nv: {a: 4, <<: *y}\n",
    )

    def words(name: str) -> dict[str, object]:
        mapping = document[name].value
        assert isinstance(mapping, dict)
        return {key: entry.value for key, entry in mapping.items()}

    assert words("z") == {"a": "3", "b": "1", "c": "2"}
    assert words("w") == {"a": "1", "b": "1"}
    assert words("v") == {"a": "4", "b": "2", "c": "2"}


def test_aliases_do_not_make_a_small_file_large(tmp_path: Path) -> None:
    """Nine levels of nine aliases each would be 387 million values, were they copied."""
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert len(_read(tmp_path, "\n".join(lines))) == 10


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- a\n- b\n", "line 1.*no settings"),
        ("just words", "line 1.*no settings"),
        ("a: 1\nb: 2\na: 3\n", "line 3.*sets `a` twice, first on line 1"),
        ("a:\n\tb: 1\n", "line 2.*tab"),
        ("a:\n  b: 1\n\tc: 2\n", "line 3.*tab"),
        ("a: [1, 2\nb: 3\n", "line 2.*no valid YAML"),
        ("a: *nowhere\n", "line 1.*undefined alias"),
        ("a: !!python/object/apply:os.system [ls]\n", "line 1.*tag .*python/object"),
        ("a: !secret x\n", "line 1.*tag !secret"),
        ("? [a, b]\n: 1\n", "line 1.*a list or a mapping where a key belongs"),
        ("a: {<<: 5}\n", "line 1.*merges"),
        ("a: 1\n---\nb: 2\n", "line 2.*single document"),
        ("a: &a [*a]\n", "nested too deeply"),
        ("a: " + "[" * 30 + "]" * 30, "nested too deeply"),
        ("a: " + "[" * 20_000, "nested too deeply"),
        (b"a: 1\nb: \xff\xfe\n", "line 2.*not UTF-8"),
        ("a: 1\nb: \x01\n", "line 2.*does not allow"),
        ("a: \x00\n", "line 1.*does not allow"),
    ],
)
def test_a_file_that_can_not_be_read_is_one_sentence_with_file_and_line(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    """The sentence names the file, the line and what is wrong."""
    reason = _reason(tmp_path, content)
    assert str(tmp_path / "config.yaml") in reason
    assert "\n" not in reason
    assert re.search(said, reason), reason


def test_broken_yaml_never_shows_the_line_that_is_broken(tmp_path: Path) -> None:
    """It may hold a password."""
    assert "hunter2" not in _reason(tmp_path, 'adminToken: "hunter2\nb: 1\n')


def test_a_missing_file_and_a_folder_are_one_sentence(tmp_path: Path) -> None:
    """The system's own words say what is wrong."""
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml: can not be read: No such file"):
        read_document(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigurationError, match="can not be read: Is a directory"):
        read_document(tmp_path)

"""Endpoint templates: a path on their own host, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.concrnt.templates import UnsafeTemplate, expand


@pytest.mark.parametrize(
    ("template", "values", "expanded"),
    [
        (
            "/api/v2/replication{?owner,since,until,limit,order}",
            {"since": "2025-03-01T00:00:00.000000001+09:00", "limit": 100, "owner": None},
            "/api/v2/replication?since=2025-03-01T00%3A00%3A00.000000001%2B09%3A00&limit=100",
        ),
        (
            "/api/v2/resolve?uri={uri}",
            {"uri": "cckv://o/あ"},
            "/api/v2/resolve?uri=cckv%3A%2F%2Fo%2F%E3%81%82",
        ),
        ("/api/v2/resolve?uri={uri}", {"uri": "cckv%3A%2F%2Fo"}, "/api/v2/resolve?uri=cckv%253A%252F%252Fo"),
        ("/api/v2/known-servers", {"since": "x"}, "/api/v2/known-servers"),
        ("/x{/a,b}", {"a": "1", "b": "/"}, "/x/1/%2F"),
        ("/x{+a}", {"a": "/y?z"}, "/x/y?z"),
        ("/x?a=1{&b}", {"b": "&"}, "/x?a=1&b=%26"),
        ("/x", {}, "/x"),
        ("/", {}, "/"),
    ],
)
def test_templates_expand_as_rfc_6570_says(
    template: str, values: dict[str, str | int | None], expanded: str
) -> None:
    """Values are escaped where the template says so; None is left out."""
    assert expand(template, **values) == expanded


@pytest.mark.parametrize(
    "template",
    [
        "",
        "x",
        "api/v2",
        "@127.0.0.1:7700/x",
        "//10.0.0.5/x",
        ":7700/x",
        "http://10.0.0.5/x",
        "{+a}",
        "{/a}",
        "/{+slash}",
        "/\\10.0.0.5/x",
        "/a b",
        "/a\nHost: b",
        "/a\0",
        "/あ",
        "/a#b",
        "/a{#b}",
        "/a%zz",
        "/a{",
        "/a}",
        "/a{b:x}",
        "/a{}",
        "/a{b{c}}",
        "/" + "a" * 3000,
    ],
)
def test_what_could_lead_elsewhere_is_unsafe(template: str) -> None:
    """Schemes, hosts, userinfo, ports, controls, fragments and what is no template are refused."""
    with pytest.raises(UnsafeTemplate):
        expand(template, a="//10.0.0.5/", slash="/10.0.0.5", b="x")


@given(st.text("/{}+#?&a:@\\.%\n*=,;", max_size=20), st.text(max_size=8))
def test_an_expansion_is_a_path_and_query_in_ascii(template: str, value: str) -> None:
    """Whatever the template and the value, what comes out begins with one slash and is visible ASCII."""
    try:
        expanded = expand(template, a=value)
    except UnsafeTemplate:
        return
    assert expanded.startswith("/")
    assert not expanded.startswith("//")
    assert expanded.isascii()
    assert expanded.isprintable()
    assert not set(expanded) & set('\\# "<>')

r"""Endpoint templates (RFC 6570), as servers publish them in their well-known documents.

A template is a stranger's text that decides what we ask for, so it may only ever choose a path and a query
on that stranger's own host: it begins with one ``/``, and what comes out is visible ASCII without ``\`` or
``#``. Anything that a URL parser could take for a scheme, a host, userinfo or a port is
:class:`UnsafeTemplate`.
"""

import re
from functools import lru_cache
from typing import Final

import uritemplate
from uritemplate.variable import VariableValue  # noqa: TC002 - one place for imports reads better

from indexer.concrnt.payload import BadPayload

MAX_TEMPLATE_LENGTH: Final = 2048

# RFC 3986: what a path and a query may hold, percent signs only as escapes.
_SAFE = re.compile(r"/(?!/)(?:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_SAFE_TEMPLATE = re.compile(r"/(?!/)[!-~]*")


class UnsafeTemplate(BadPayload):
    """A template that is no path on its own host, or none at all."""


def expand(template: str, **values: str | int | None) -> str:
    """Expand an endpoint's template.

    Args:
        template: for example ``/api/v2/replication{?since,limit}``.
        values: by name; None is left out.

    Returns:
        A path and query in ASCII that begins with one ``/``: the ``path_and_query`` of the client.

    Raises:
        UnsafeTemplate: the template or its expansion is not path-absolute, or not well-formed.

    """
    given: dict[str, VariableValue] = {
        name: str(value) for name, value in values.items() if value is not None
    }
    try:
        expanded = _parse(template).expand(given)
    except (ValueError, TypeError) as error:
        raise UnsafeTemplate("not a URI template") from error
    if _SAFE.fullmatch(expanded) is None:
        raise UnsafeTemplate("does not expand to an absolute path")
    return expanded


@lru_cache(maxsize=1024)
def _parse(template: str) -> uritemplate.URITemplate:
    # One server has one template for each endpoint, and asks for it page after page.
    if len(template) > MAX_TEMPLATE_LENGTH or _SAFE_TEMPLATE.fullmatch(template) is None or "\\" in template:
        raise UnsafeTemplate("not an absolute path")
    try:
        return uritemplate.URITemplate(template)
    except (ValueError, IndexError) as error:
        raise UnsafeTemplate("not a URI template") from error

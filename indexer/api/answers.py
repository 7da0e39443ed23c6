"""How answers are written: JSON as fast as it gets, always ``application/json`` in UTF-8."""

from typing import Any

import msgspec
from starlette.responses import Response


class JsonAnswer(Response):
    """A response whose content is encoded by msgspec; takes dicts, lists, dataclasses and datetimes."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode ``content``."""
        return msgspec.json.encode(content)

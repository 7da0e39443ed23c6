"""How answers are written: JSON as fast as it gets, always ``application/json`` in UTF-8."""

from typing import Any

import msgspec
from starlette.responses import JSONResponse


class JsonAnswer(JSONResponse):
    """A response whose content is encoded by msgspec; takes dicts, lists, dataclasses and datetimes."""

    def render(self, content: Any) -> bytes:
        """Encode ``content``."""
        return msgspec.json.encode(content)

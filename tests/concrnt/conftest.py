"""What the tests of the network's language share."""

from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import settings

# Machines that build are busy machines: how long one example takes says nothing here.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

NOW: Final = datetime(2026, 9, 20, 12, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    """The clock of a test: it stands still."""
    return NOW

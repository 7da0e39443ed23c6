"""What the tests of the network's language share."""

from hypothesis import settings

# Machines that build are busy machines: how long one example takes says nothing here.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

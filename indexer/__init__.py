"""Search for the Concrnt network."""

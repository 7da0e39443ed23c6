"""A simulated Concrnt network that speaks the protocol over real HTTP: for the demo, tests and benchmarks.

`scripted` is what tests use; `network` grows whole networks from a seed; `run` puts either on ports.
"""

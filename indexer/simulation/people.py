"""The people of a simulated network: their keys, where they live, and what the network knows of them by now.

Who a person is follows from the network's seed and the person's number alone; what they did is learned
from commits, whether these were just made or read from a log, so a network that was stored goes on with
the same people.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from indexer.concrnt.keys import KeyPair
from indexer.simulation.texts import Language, Writer

REMEMBERED_POSTS = 40
"""How many of somebody's latest posts others may answer, like or see deleted."""
_MOST_ACTIVE = 400.0


@dataclass(frozen=True, slots=True)
class RememberedPost:
    """A post that is there: `step` is the decoded last step of its key."""

    profile: str
    step: str
    schema: str
    cdid: str


class Person:
    """Somebody with a key, a home server and a temperament (`weight`: how much they do)."""

    def __init__(self, seed: str, number: int, domains: tuple[str, ...], ccid: str | None = None) -> None:
        self._ccid = ccid
        self._seed = f"{seed}/person/{number}"
        traits = Random(self._seed)
        self.number = number
        self.home = traits.choices(domains, [1 / (place + 1) for place in range(len(domains))])[0]
        self.weight = min(_MOST_ACTIVE, traits.paretovariate(1.1))
        writer = Writer(traits)
        self.language: Language = writer.language()
        self.name = writer.person_name(self.language)
        self.known = Knowledge()

    @cached_property
    def key(self) -> KeyPair:
        """The person's own key."""
        return KeyPair.from_seed(self._seed)

    @property
    def ccid(self) -> str:
        """The person's id, made from the key unless it was known."""
        if self._ccid is None:
            self._ccid = self.key.ccid
        return self._ccid

    def subkey(self, number: int) -> KeyPair:
        """Return one of the person's subkeys."""
        if self.known.subkey_pair is None or self.known.subkey_pair[0] != number:
            self.known.subkey_pair = (number, KeyPair.from_seed(f"{self._seed}/subkey/{number}"))
        return self.known.subkey_pair[1]

    def profile_key(self, name: str) -> str:
        """Return the key of a profile."""
        return f"cckv://{self.ccid}/concrnt.world/profiles/{name}"


@dataclass(slots=True)
class Knowledge:
    """What somebody has done so far, as far as it matters for what they may do next."""

    joined: bool = False
    profiles: dict[str, None] = field(default_factory=dict)
    posts: deque[RememberedPost] = field(default_factory=lambda: deque(maxlen=REMEMBERED_POSTS))
    follows: dict[str, None] = field(default_factory=dict)
    last_created_ms: int = 0
    subkeys_made: int = 0
    subkey_enacted: int | None = None
    subkey_enactment: str | None = None
    """The enact commit, as a revocation quotes it."""
    subkey_pair: tuple[int, KeyPair] | None = None


@dataclass(slots=True)
class Community:
    """A community: owned by a domain, made and kept by a person."""

    domain: str
    identity: str
    keeper: str
    weight: float

    @property
    def key(self) -> str:
        """The community's key, under which its references lie."""
        return f"cckv://{self.domain}/concrnt.world/communities/{self.identity}"

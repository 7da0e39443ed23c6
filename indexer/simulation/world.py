"""What has happened in a simulated network, as far as it decides what can happen next.

`observe` learns from every commit, in log order per server, whether it was just made or is read again from a
stored log: there is one way to learn, so a resumed network knows what the first one knew.
"""

from bisect import bisect
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from indexer.concrnt.times import NANOSECONDS_PER_MILLISECOND, parse_instant
from indexer.simulation import schemas
from indexer.simulation.addresses import read_address, read_target
from indexer.simulation.people import Community, Person, RememberedPost

_FARTHEST_NEWCOMER = 1_000


class ForeignLogError(ValueError):
    """The log was not written by this network: it names people that the seed does not make."""


class _Weighted:
    """Numbers 0, 1, 2 … drawn with the weight that each was added with."""

    def __init__(self) -> None:
        self._sums: list[float] = []

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, weight: float) -> None:
        self._sums.append((self._sums[-1] if self._sums else 0.0) + weight)

    def draw(self, random: Random) -> int:
        return bisect(self._sums, random.random() * self._sums[-1])


class World:
    """People, communities and who has joined; all of it a function of seed, domains and commits observed."""

    def __init__(self, seed: str, domains: tuple[str, ...]) -> None:
        self.seed = seed
        self.domains = domains
        self.joined: list[Person] = []
        self._made: list[Person] = []
        self._by_ccid: dict[str, Person] = {}
        self._people = _Weighted()
        self.communities: list[Community | None] = []
        self._community_at: dict[str, int] = {}
        self._communities = _Weighted()

    def expect(self, ccids: Iterable[str]) -> None:
        """Take the ids of the first people as known: making keys is what costs."""
        for ccid in ccids:
            self._add(Person(self.seed, len(self._made), self.domains, ccid))

    @property
    def made(self) -> list[str]:
        """The ids of everybody thought of so far, in the order of their numbers."""
        return [person.ccid for person in self._made]

    # -- drawing -----------------------------------------------------------------------------------

    def newcomer(self) -> Person:
        """Return the next person who has not joined yet."""
        return self._person(len(self.joined))

    def somebody(self, random: Random) -> Person:
        """Draw a person, the active ones more often."""
        return self.joined[self._people.draw(random)]

    def some_community(self, random: Random) -> Community | None:
        """Draw a community that is there, the lively ones more often."""
        for _ in range(4 if self.communities else 0):
            found = self.communities[self._communities.draw(random)]
            if found is not None:
                return found
        return None

    def person(self, ccid: str) -> Person | None:
        """Return somebody who has joined."""
        return self._by_ccid.get(ccid)

    @property
    def community_count(self) -> int:
        """How many communities there are, gone ones included."""
        return len(self.communities)

    # -- learning ----------------------------------------------------------------------------------

    def observe(self, document: Mapping[str, Any], cdid: str, signed: bytes, *, hidden: bool = False) -> None:
        """Learn from one commit of one of the network's servers."""
        kind = document["kind"]
        if kind == "entity":
            self._join(document["author"])
        author = self._by_ccid.get(document["author"])
        if author is None or kind in ("acked", "unacked", "association"):
            return
        known = author.known
        if document.get("schema") != schemas.REFERENCE:
            created_ms = parse_instant(document["createdAt"]) // NANOSECONDS_PER_MILLISECOND
            known.last_created_ms = max(known.last_created_ms, created_ms)
        if kind == "record" and not hidden:
            self._observe_record(author, document, cdid, signed)
        elif kind == "delete":
            self._observe_delete(document["value"])
        elif kind == "ack":
            known.follows[document["associate"]] = None
        elif kind == "unack":
            known.follows.pop(document["associate"], None)

    def _join(self, ccid: str) -> None:
        while ccid not in self._by_ccid:
            if len(self._made) > len(self.joined) + _FARTHEST_NEWCOMER:
                raise ForeignLogError(f"nobody of this network has the id {ccid}")
            self._person(len(self._made))
        person = self._by_ccid[ccid]
        if not person.known.joined:
            person.known.joined = True
            self.joined.append(person)
            self._people.add(person.weight)

    def _person(self, number: int) -> Person:
        while len(self._made) <= number:
            self._add(Person(self.seed, len(self._made), self.domains))
        return self._made[number]

    def _add(self, person: Person) -> None:
        self._made.append(person)
        self._by_ccid[person.ccid] = person

    def _observe_record(self, author: Person, document: Mapping[str, Any], cdid: str, signed: bytes) -> None:
        schema, known = document["schema"], author.known
        address = read_address(document["key"])
        if address is None:
            return
        if schema == schemas.PROFILE:
            known.profiles[address.path[2]] = None
        elif schema in schemas.POSTS:
            profile, step = address.path[2], address.path[4]
            self._forget_posts(author, profile, step)
            known.posts.append(RememberedPost(profile, step, schema, cdid))
        elif schema == schemas.COMMUNITY:
            self._observe_community(author, address.owner, address.path[2])
        elif schema == schemas.SUBKEY:
            known.subkey_enacted, known.subkey_enactment = known.subkeys_made, signed.decode()
            known.subkeys_made += 1
        elif schema == schemas.REVOKED_SUBKEY:
            known.subkey_enacted = known.subkey_enactment = None

    def _observe_community(self, keeper: Person, domain: str, identity: str) -> None:
        weight = min(200.0, Random(f"{self.seed}/community/{domain}/{identity}").paretovariate(1.0))
        community = Community(domain, identity, keeper.ccid, weight)
        at = self._community_at.get(community.key)
        if at is not None:
            self.communities[at] = community
            return
        self._community_at[community.key] = len(self.communities)
        self.communities.append(community)
        self._communities.add(weight)

    def _observe_delete(self, value: str) -> None:
        target = read_target(value)
        if target is None:
            return
        owner = self._by_ccid.get(target.owner)
        if owner is None:
            self._lose_communities(value)
        elif target.reach == "document":
            kept = [post for post in owner.known.posts if post.cdid != target.cdid]
            owner.known.posts.clear()
            owner.known.posts.extend(kept)
        elif target.path[1] == "profiles":
            _, _, profile, *below = target.path
            if not below and target.reach != "below":
                owner.known.profiles.pop(profile, None)
            if target.reach != "key" or below:
                self._forget_posts(owner, profile, below[1] if len(below) > 1 else None)

    def _lose_communities(self, value: str) -> None:
        at = self._community_at.get(value.rstrip("/*"))
        if at is not None and not value.endswith("/*"):
            self.communities[at] = None

    def _forget_posts(self, person: Person, profile: str, step: str | None) -> None:
        posts = person.known.posts
        kept = [post for post in posts if post.profile != profile or step not in (None, post.step)]
        if len(kept) != len(posts):
            posts.clear()
            posts.extend(kept)

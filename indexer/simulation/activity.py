"""What people do: `Activity.happen` makes one event and gives the commits that servers log for it.

An event is one thing somebody does; it may leave commits on several servers, in the order in which they
come: a post and the references in its communities, a reply and its association, a follow and what the
ackee's server derives from it. All documents of a person carry rising times, so `createdAt` under one
key rises along a log and a delete is never older than what it deletes. Deleting a post drops its
references without a commit of their own.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec

from indexer.concrnt.times import NANOSECONDS_PER_MILLISECOND, format_instant
from indexer.simulation import schemas
from indexer.simulation.people import Community, Person, RememberedPost
from indexer.simulation.signing import (
    cdid_of,
    commit_bytes,
    direct_proof,
    document_text,
    embedding_proof,
    enactment_key,
    reference_proof,
    subkey_proof,
)
from indexer.simulation.texts import Language, Writer
from indexer.simulation.world import World

_TOKYO_NS = 9 * 3_600 * 1_000_000_000
_LONGEST_LAG_MS = 2_000
"""How far a writer's clock lies before the receipt, at most."""
_POST_SHARES = {
    schemas.MARKDOWN: 52,
    schemas.PLAINTEXT: 11,
    schemas.REPLY: 13,
    schemas.REROUTE: 7,
    schemas.MEDIA: 7,
    schemas.MFM: 5,
    schemas.GFM: 3,
    schemas.CFM: 2,
}


@dataclass(frozen=True, slots=True)
class NewCommit:
    """A commit for the log of one server."""

    domain: str
    signed: bytes
    hidden: bool = False


class Activity:
    """Makes events in a world with one random source."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._writer = Writer(random)
        self._at_ms = 0
        shares: Mapping[Callable[[Person], Iterator[NewCommit]], float] = {
            self._post: 58,
            self._react: 14,
            self._follow: 11,
            self._unfollow: 1.5,
            self._delete_post: 4,
            self._edit_profile: 2.5,
            self._make_subprofile: 1.5,
            self._delete_subprofile: 0.5,
            self._edit_post: 1.5,
            self._hide_post: 0.5,
            self._found_community: 0.5,
            self._edit_community: 0.5,
            self._close_community: 0.12,
            self._use_subkey: 0.9,
            self._revoke_subkey: 0.15,
            self._keep_list: 1.2,
            self._affirm_home: 0.2,
        }
        self._events = tuple(shares)
        self._shares = tuple(shares.values())

    def happen(self, at_ns: int, *, joining: bool = False, founding: bool = False) -> Iterator[NewCommit]:
        """Make one event at an instant; it gives at least one commit.

        `joining` brings somebody new, `founding` a community; otherwise people do what they do.
        """
        self._at_ms = at_ns // NANOSECONDS_PER_MILLISECOND
        if joining or not self._world.joined:
            yield from self._join()
            return
        somebody = self._world.somebody(self._random)
        if founding:
            yield from self._found_community(somebody)
            return
        event = self._random.choices(self._events, self._shares)[0]
        made = False
        for commit in event(somebody):
            made = True
            yield commit
        if not made:  # nothing to delete, unfollow, answer …: then they write something
            yield from self._post(somebody)

    def surface_late(self, at_ns: int) -> Iterator[NewCommit]:
        """Let somebody's post surface behind the end of a log; gives nothing when nobody is fit for it.

        Fit is who wrote nothing since, and the post stays off timelines: no delete of what it touches comes
        after it in the log but was written before it.
        """
        self._at_ms = at_ns // NANOSECONDS_PER_MILLISECOND
        somebody = self._world.somebody(self._random)
        if somebody.known.last_created_ms < self._at_ms - _LONGEST_LAG_MS:
            key, value = self._post_key(somebody), self._post_value(somebody, schemas.PLAINTEXT, None)
            yield self._record(somebody, somebody.home, key, schemas.PLAINTEXT, value)

    # -- joining and profiles ----------------------------------------------------------------------

    def _join(self) -> Iterator[NewCommit]:
        person = self._world.newcomer()
        yield self._entity(person)
        yield self._profile(person, "main")
        if self._chance(0.25):
            yield from self._use_subkey(person)

    def _affirm_home(self, person: Person) -> Iterator[NewCommit]:
        yield self._entity(person)

    def _entity(self, person: Person) -> NewCommit:
        value = {"domain": person.home}
        if person.number % 17 == 3:
            value["alias"] = f"person-{person.number}.{person.home}"
        return self._commit(
            person, person.home, master=True, kind="entity", schema=schemas.ENTITY, value=value
        )

    def _edit_profile(self, person: Person) -> Iterator[NewCommit]:
        yield self._profile(person, self._random.choice(tuple(person.known.profiles) or ("main",)))

    def _make_subprofile(self, person: Person) -> Iterator[NewCommit]:
        yield self._profile(person, self._random.choice(("sub", "work", "photo", "裏", "game")))

    def _delete_subprofile(self, person: Person) -> Iterator[NewCommit]:
        names = [name for name in person.known.profiles if name != "main"]
        if names:
            key = person.profile_key(quote(self._random.choice(names)))
            shape = self._random.choice(("{}", "{}*", "{}*", "{}/*", "{}/posts/*"))
            yield self._delete(person, shape.format(key))

    def _profile(self, person: Person, name: str) -> NewCommit:
        token = f"{self._random.getrandbits(40):010x}"
        shown = person.name if name == "main" else self._writer.person_name(person.language)
        value: dict[str, Any] = {
            "username": shown,
            "avatar": f"https://media.example/avatar/{token}.webp",
            "description": self._writer.self_description(person.language),
        }
        if self._chance(0.4):
            value["banner"] = f"https://media.example/banner/{token}.webp"
        if name == "main" and len(person.known.profiles) > 1:
            value["subprofiles"] = [person.profile_key(sub) for sub in person.known.profiles if sub != "main"]
        if self._chance(0.05):
            value["badges"] = [{"seriesId": "festival", "badgeId": token[:4]}]
        return self._record(person, person.home, person.profile_key(name), schemas.PROFILE, value)

    # -- posts -------------------------------------------------------------------------------------

    def _post(self, person: Person) -> Iterator[NewCommit]:
        schema = self._random.choices(tuple(_POST_SHARES), tuple(_POST_SHARES.values()))[0]
        answered = self._others_post() if schema in (schemas.REPLY, schemas.REROUTE) else None
        if answered is None and schema in (schemas.REPLY, schemas.REROUTE):
            schema = schemas.MARKDOWN
        communities = self._chosen_communities()
        key, value = self._post_key(person), self._post_value(person, schema, answered)
        targets = {"distributes": [community.key for community in communities]} if communities else {}
        draft = self._draft(person, kind="record", key=key, schema=schema, value=value, **targets)
        yield self._signed(person, person.home, draft)
        for community in communities:
            yield self._reference(person, community, draft)
        if answered is not None:
            author, post = answered
            kind = schemas.REPLY_ASSOCIATION if schema == schemas.REPLY else schemas.REROUTE_ASSOCIATION
            yield self._association(person, author, _post_uri(author, post), kind, {"messageId": key})

    def _hide_post(self, person: Person) -> Iterator[NewCommit]:
        value = self._post_value(person, schemas.MARKDOWN, None)
        policy = {"policy": "https://policy.concrnt.world/m/whisper.json"}
        draft = self._draft(
            person, kind="record", key=self._post_key(person), schema=schemas.MARKDOWN, value=value, **policy
        )
        yield self._signed(person, person.home, draft, hidden=True)

    def _edit_post(self, person: Person) -> Iterator[NewCommit]:
        own = [post for post in person.known.posts if post.schema not in (schemas.REPLY, schemas.REROUTE)]
        if own:
            post = self._random.choice(own)
            value = self._post_value(person, post.schema, None)
            yield self._record(person, person.home, _post_uri(person, post), post.schema, value)

    def _delete_post(self, person: Person) -> Iterator[NewCommit]:
        if not person.known.posts:
            return
        post = self._random.choice(person.known.posts)
        key = _post_uri(person, post)
        shape = self._random.choices(
            (
                key,
                f"{key}*",
                f"ccfs://{person.ccid}/concrnt/{post.cdid}",
                f"ccfs://{person.ccid}/{post.cdid}",
            ),
            (6, 2, 2, 1),
        )[0]
        yield self._delete(person, shape)

    def _post_key(self, person: Person) -> str:
        names = tuple(person.known.profiles)
        sub = len(names) > 1 and self._chance(0.2)
        profile = self._random.choice(names) if sub else "main"
        step = f"{self._at_ms:011x}{self._random.getrandbits(24):06x}"
        if self._chance(0.01):
            step = f"日記 {step}" if self._chance(0.5) else quote(f"日記/{step}", safe="")
        return f"{person.profile_key(profile)}/posts/{step}"

    def _post_value(
        self, person: Person, schema: str, answered: tuple[Person, RememberedPost] | None
    ) -> dict[str, Any]:
        language = person.language if self._chance(0.9) else self._writer.language()
        value: dict[str, Any] = {"body": self._written(schema, language)}
        if schema == schemas.MEDIA:
            value["medias"] = [self._media() for _ in range(self._random.randint(1, 4))]
        if answered is not None:
            uri = _post_uri(*answered)
            if schema == schemas.REPLY:
                return {**value, "replyToMessageId": uri, "replyToMessageAuthor": answered[0].ccid}
            return {"rerouteMessageId": uri} if self._chance(0.7) else {**value, "rerouteMessageId": uri}
        if self._chance(0.05):
            value["emojis"] = {"neko": {"imageURL": "https://media.example/emoji/neko.webp"}}
        return value

    def _written(self, schema: str, language: Language) -> str:
        if schema in (schemas.GFM, schemas.CFM) or (schema == schemas.MARKDOWN and self._chance(0.15)):
            return self._writer.markdown(language)
        return self._writer.mfm(language) if schema == schemas.MFM else self._writer.body(language)

    def _media(self) -> dict[str, str]:
        name = f"{self._random.getrandbits(48):012x}"
        return {"mediaURL": f"https://media.example/file/{name}.webp", "mediaType": "image/webp"}

    def _chosen_communities(self) -> list[Community]:
        wanted = self._random.choices((0, 1, 2, 3), (25, 62, 10, 3))[0]
        drawn = [self._world.some_community(self._random) for _ in range(wanted)]
        return list({community.key: community for community in drawn if community is not None}.values())

    def _reference(self, person: Person, community: Community, post: Mapping[str, Any]) -> NewCommit:
        cdid = cdid_of(document_text(post), post["createdAt"])
        key, href = f"{community.key}/{cdid}", post["key"]
        document = {
            "kind": "record",
            "key": key,
            "value": {"href": href, "contentType": post["schema"]},
            "author": person.ccid,
            "schema": schemas.REFERENCE,
            "createdAt": post["createdAt"],
        }
        return self._finished(community.domain, community.domain, document, reference_proof(href))

    # -- associations, follows ---------------------------------------------------------------------

    def _react(self, person: Person) -> Iterator[NewCommit]:
        liked = self._others_post()
        if liked is None:
            return
        author, post = liked
        if self._chance(0.7):
            yield self._association(person, author, _post_uri(author, post), schemas.LIKE, {})
            return
        value = {"imageUrl": f"https://media.example/emoji/{self._random.randrange(99)}.webp"}
        variant = {"associationVariant": self._writer.emoji()}
        yield self._association(person, author, _post_uri(author, post), schemas.REACTION, value, **variant)

    def _association(
        self, person: Person, author: Person, target: str, schema: str, value: object, **more: str
    ) -> NewCommit:
        draft = self._draft(person, kind="association", schema=schema, value=value, associate=target, **more)
        return self._signed(person, author.home, draft, owner=author.ccid)

    def _others_post(self) -> tuple[Person, RememberedPost] | None:
        for _ in range(3):
            author = self._world.somebody(self._random)
            if author.known.posts:
                return author, self._random.choice(author.known.posts)
        return None

    def _follow(self, person: Person) -> Iterator[NewCommit]:
        followee = self._world.somebody(self._random)
        if followee is not person and f"cckv://{followee.ccid}" not in person.known.follows:
            yield from self._acknowledge(person, followee.ccid, "ack")

    def _unfollow(self, person: Person) -> Iterator[NewCommit]:
        if person.known.follows:
            followee = self._random.choice(tuple(person.known.follows))
            yield from self._acknowledge(person, followee.removeprefix("cckv://"), "unack")

    def _acknowledge(self, person: Person, followee: str, kind: str) -> Iterator[NewCommit]:
        draft = self._draft(
            person, kind=kind, schema=schemas.FOLLOW, value={}, associate=f"cckv://{followee}"
        )
        text = document_text(draft)
        proof = self._proof(person, text)
        yield self._finished(person.home, followee, draft, proof)
        ackee = self._world.person(followee)
        if ackee is not None:
            derived = {
                "kind": f"{kind}ed",
                "key": "",
                **{name: draft[name] for name in draft if name != "kind"},
            }
            yield self._finished(ackee.home, followee, derived, embedding_proof(text, proof))

    # -- communities -------------------------------------------------------------------------------

    def _found_community(self, person: Person) -> Iterator[NewCommit]:
        identity = f"c{self._at_ms:011x}{self._random.getrandbits(16):04x}"
        yield self._community(person, Community(person.home, identity, person.ccid, 0.0))

    def _edit_community(self, _person: Person) -> Iterator[NewCommit]:
        community = self._world.some_community(self._random)
        keeper = self._world.person(community.keeper) if community is not None else None
        if community is not None and keeper is not None:
            yield self._community(keeper, community)

    def _close_community(self, _person: Person) -> Iterator[NewCommit]:
        community = self._world.some_community(self._random)
        keeper = self._world.person(community.keeper) if community is not None else None
        if community is not None and keeper is not None:
            target = community.key + self._random.choice(("*", "*", ""))
            yield self._delete(keeper, target, domain=community.domain)

    def _community(self, keeper: Person, community: Community) -> NewCommit:
        name = self._writer.community_name()
        value = {
            "name": name,
            "shortname": name[:6],
            "description": self._writer.community_description(),
            "icon": f"https://media.example/icon/{community.identity}.webp",
        }
        return self._record(keeper, community.domain, community.key, schemas.COMMUNITY, value)

    # -- subkeys, lists, deletes -------------------------------------------------------------------

    def _use_subkey(self, person: Person) -> Iterator[NewCommit]:
        if person.known.subkey_enacted is not None:
            return
        subkey = person.subkey(person.known.subkeys_made)
        yield self._record(
            person,
            person.home,
            enactment_key(person.ccid, subkey),
            schemas.SUBKEY,
            {"ckid": subkey.ckid},
            master=True,
        )

    def _revoke_subkey(self, person: Person) -> Iterator[NewCommit]:
        known = person.known
        if known.subkey_enacted is None or known.subkey_enactment is None:
            return
        key = enactment_key(person.ccid, person.subkey(known.subkey_enacted))
        quoted = msgspec.json.decode(known.subkey_enactment)
        value = {"document": quoted["document"], "proof": quoted["proof"]}
        yield self._record(person, person.home, key, schemas.REVOKED_SUBKEY, value, master=True)

    def _keep_list(self, person: Person) -> Iterator[NewCommit]:
        key = f"cckv://{person.ccid}/concrnt.world/lists/{self._random.randrange(5)}"
        community = self._world.some_community(self._random)
        items = [community.key] if community is not None else []
        value = {"title": self._writer.community_name(), "items": items}
        yield self._record(person, person.home, key, schemas.LIST, value)

    def _delete(self, person: Person, target: str, *, domain: str | None = None) -> NewCommit:
        schema = {"schema": schemas.DELETE} if self._chance(0.7) else {}
        draft = self._draft(person, kind="delete", value=target, **schema)
        return self._signed(person, domain or person.home, draft)

    # -- making commits ----------------------------------------------------------------------------

    def _record(
        self, person: Person, domain: str, key: str, schema: str, value: object, *, master: bool = False
    ) -> NewCommit:
        return self._commit(person, domain, master=master, kind="record", key=key, schema=schema, value=value)

    def _commit(self, person: Person, domain: str, *, master: bool, **fields: object) -> NewCommit:
        return self._signed(person, domain, self._draft(person, **fields), master=master)

    def _draft(self, person: Person, **fields: object) -> dict[str, Any]:
        """Return a document by a person, written now."""
        return {**fields, "author": person.ccid, "createdAt": self._created_at(person)}

    def _created_at(self, person: Person) -> str:
        """Return the writer's clock: a little before the receipt, later than anything they wrote before."""
        lag = min(_LONGEST_LAG_MS, int(self._random.expovariate(1 / 250)) + 20)
        created_ms = max(self._at_ms - lag, person.known.last_created_ms + 1)
        person.known.last_created_ms = created_ms
        created_ns = created_ms * NANOSECONDS_PER_MILLISECOND
        if self._chance(0.03):
            return format_instant(created_ns + _TOKYO_NS).removesuffix("Z") + "+09:00"
        return format_instant(created_ns)

    def _signed(
        self,
        person: Person,
        domain: str,
        document: Mapping[str, Any],
        *,
        owner: str | None = None,
        hidden: bool = False,
        master: bool = False,
    ) -> NewCommit:
        proof = self._proof(person, document_text(document), master=master)
        return self._finished(domain, owner or _owner(document), document, proof, hidden=hidden)

    def _proof(self, person: Person, text: str, *, master: bool = False) -> dict[str, Any]:
        number = person.known.subkey_enacted
        if master or number is None or self._chance(0.2):
            return direct_proof(text, person.key)
        subkey = person.subkey(number)
        return subkey_proof(text, subkey, enactment_key(person.ccid, subkey))

    def _finished(
        self,
        domain: str,
        owner: str,
        document: Mapping[str, Any],
        proof: Mapping[str, Any],
        *,
        hidden: bool = False,
    ) -> NewCommit:
        """Close a commit as a server logs it, and let the world know."""
        text = document_text(document)
        cdid = cdid_of(text, document["createdAt"])
        addresses = {"cckv": document["key"]} if document.get("key") else {}
        signed = commit_bytes(text, proof, **addresses, ccfs=f"ccfs://{owner}/concrnt/{cdid}")
        self._world.observe(document, cdid, signed, hidden=hidden)
        return NewCommit(domain, signed, hidden)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def _owner(document: Mapping[str, Any]) -> str:
    key: str = document.get("key", "")
    return key.split("/", 3)[2] if key else str(document["author"])


def _post_uri(person: Person, post: RememberedPost) -> str:
    """Return a post's key in the spelling that clients use: what is not plain is encoded."""
    return f"{person.profile_key(quote(post.profile, safe=''))}/posts/{quote(post.step, safe='')}"

"""Generated networks: deterministic, really signed, as conforming servers write them, kept and taken up."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indexer.concrnt.cdid import cdid_at
from indexer.concrnt.keys import CKID_PREFIX, decode_address, encode_address, recover_address
from indexer.concrnt.times import from_datetime, parse_instant
from indexer.simulation import schemas
from indexer.simulation.addresses import read_address, read_target
from indexer.simulation.journal import OtherNetworkError
from indexer.simulation.log import LoggedCommit
from indexer.simulation.model import expected_of
from indexer.simulation.network import Network, domains_of
from indexer.simulation.world import ForeignLogError

START = datetime(2026, 9, 1, tzinfo=UTC)
END = START + timedelta(days=30)
COMMITS = 3_000


def generate(seed: int = 7, commits: int = COMMITS) -> Network:
    return Network.generate(seed=seed, commits=commits, start=START)


@pytest.fixture(scope="module")
def network() -> Network:
    return generate()


def rows(network: Network) -> Iterator[tuple[str, LoggedCommit]]:
    for domain, server in network.servers.items():
        for row in server.log:
            yield domain, row


def documents(network: Network) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield (signed document, document) of every commit, feed by feed in log order."""
    for _, row in rows(network):
        outer = json.loads(row.signed)
        yield outer, json.loads(outer["document"])


def everything(network: Network) -> list[tuple[str, LoggedCommit]]:
    return list(rows(network))


def test_equal_arguments_give_equal_bytes(network: Network) -> None:
    """Seed, size and start decide every byte and every receipt time; another seed gives other ones."""
    assert everything(generate()) == everything(network)
    assert everything(generate(seed=8)) != everything(network)


def test_size_and_span(network: Network) -> None:
    """There are exactly as many commits as asked for, in the span, times rising in each log."""
    assert network.commit_count == COMMITS
    assert list(network.servers) == ["hakoniwa.example", "minato.example", "yama.example"]
    for server in network.servers.values():
        times = [row.receipt_ns for row in server.log]
        assert times == sorted(set(times))
        assert from_datetime(START) <= times[0]
        assert times[-1] <= from_datetime(END)
        assert all(time % 1_000 == 0 for time in times)
    assert domains_of(25)[24] == "mura-25.example"


def test_every_kind_and_shape_occurs(network: Network) -> None:
    """All kinds, schemas and shapes of deletes are there."""
    kinds: Counter[str] = Counter()
    seen: set[str] = set()
    shapes: set[str] = set()
    proofs: Counter[str] = Counter()
    for outer, document in documents(network):
        kinds[document["kind"]] += 1
        seen.add(document.get("schema", ""))
        proofs[outer["proof"]["type"]] += 1
        if document["kind"] == "delete":
            target = read_target(document["value"])
            assert target is not None
            shapes.add(target.reach if target.reach != "document" else f"document {len(target.path)}")
    assert set(kinds) == {"entity", "record", "delete", "ack", "unack", "acked", "unacked", "association"}
    assert schemas.POSTS | {schemas.PROFILE, schemas.COMMUNITY, schemas.REFERENCE, schemas.SUBKEY} <= seen
    assert {schemas.LIKE, schemas.REPLY_ASSOCIATION, schemas.REROUTE_ASSOCIATION, schemas.LIST} <= seen
    assert shapes == {"key", "below", "tree", "document 1", "document 2"}
    assert min(proofs.values()) > 10
    assert len(proofs) == 4
    assert any(row.hidden for _, row in rows(network))


def test_activity_is_heavy_tailed(network: Network) -> None:
    """A tenth of the people write more than a third of the posts."""
    authors = Counter(d["author"] for _, d in documents(network) if d.get("schema") in schemas.POSTS)
    busiest = sorted(authors.values(), reverse=True)
    assert sum(busiest[: max(1, len(busiest) // 10)]) > sum(busiest) / 3


def test_signatures_hold(network: Network) -> None:
    """Every proof verifies by the rules of its type, and every commit states its right CDID."""
    enacted = {
        document["key"]: document
        for _, document in documents(network)
        if document.get("schema") == schemas.SUBKEY
    }

    def holds(text: str, document: dict[str, Any], proof: dict[str, Any]) -> bool:
        if proof["type"] == "concrnt-ecrecover-direct":
            return recover_address(text, proof["signature"]) == decode_address(document["author"])
        if proof["type"] == "concrnt-ecrecover-subkey":
            enactment = enacted[proof["key"]]
            ckid = encode_address(CKID_PREFIX, recover_address(text, proof["signature"]))
            earlier = parse_instant(enactment["createdAt"]) <= parse_instant(document["createdAt"])
            return earlier and (ckid, document["author"]) == (enactment["value"]["ckid"], enactment["author"])
        if proof["type"] == "document-direct":
            embedded = json.loads(proof["document"])
            same: bool = {**embedded, "kind": embedded["kind"] + "ed", "key": ""} == document
            return same and holds(proof["document"], embedded, proof["proof"])
        reference: bool = document["schema"] == schemas.REFERENCE
        return reference and bool(proof["href"] == document["value"]["href"])

    for outer, document in documents(network):
        assert holds(outer["document"], document, outer["proof"]), outer
        address = read_address(outer["ccfs"])
        assert address is not None
        milliseconds = parse_instant(document["createdAt"]) // 1_000_000
        assert address.cdid == cdid_at(outer["document"].encode(), milliseconds)


def assert_conforming(network: Network) -> None:
    for server in network.servers.values():
        newest: dict[str, int] = {}
        by_owner: defaultdict[str, set[str]] = defaultdict(set)
        for row in server.log:
            document = json.loads(json.loads(row.signed)["document"])
            created = parse_instant(document["createdAt"])
            assert created < row.receipt_ns
            if document["kind"] == "record":
                address = read_address(document["key"])
                assert address is not None
                assert created > newest.get(address.key, 0)
                newest[address.key] = created
                by_owner[address.owner].add(address.key)
            elif document["kind"] == "delete":
                target = read_target(document["value"])
                assert target is not None
                for key in by_owner[target.owner]:
                    address = read_address(key)
                    assert address is not None
                    assert not target.covers(address.owner, address.path) or created >= newest[key]


def test_logs_are_as_conforming_servers_write_them(network: Network) -> None:
    """createdAt rises under a key, a delete is not older than what it deletes, receipts come last."""
    assert_conforming(network)


def test_text_is_in_many_scripts(network: Network) -> None:
    """Japanese, Latin, Korean, emoji families, half-width and full-width forms are all written."""
    written = "".join(json.dumps(document, ensure_ascii=False) for _, document in documents(network))
    for sample in ("猫", "コーヒー", "ねこ", "coffee", "고양이", "👨‍👩‍👧", "ﾈｺ", "ＯＫ", "𠮷", "日記"):
        assert sample in written, sample


def test_servers_and_the_model_agree(network: Network) -> None:
    """What the servers answer at the end of their logs is what the naive model expects."""
    expected = expected_of(network.servers, now=END)
    current = {held.key for server in network.servers.values() for held in server.current_records()}
    assert current == set(expected.records)
    assert len(expected.users) > 50
    assert len(expected.communities) > 5
    assert len(expected.posts) > 500


def test_growing_goes_on_from_the_end() -> None:
    """Each call lets one more thing happen now, some of it late; the logs stay conforming."""
    network = generate(commits=300)
    now, before = END, [server.log.generation for server in network.servers.values()]
    for _ in range(400):
        now += timedelta(seconds=1)
        count = network.commit_count
        assert network.grow(now) == network.commit_count - count >= 1
    assert [server.log.generation for server in network.servers.values()] != before
    assert_conforming(network)
    current = {held.key for server in network.servers.values() for held in server.current_records()}
    assert current == set(expected_of(network.servers, now=now).records)


def test_empty_and_tiny_networks() -> None:
    """A network may have one server and no commit at all, and starts with somebody joining."""
    network = Network.generate(seed=1, servers=1, commits=0, start=START)
    assert network.commit_count == 0
    network.grow(END)
    assert network.commit_count >= 2
    with pytest.raises(ValueError, match="a network needs"):
        Network.generate(seed=1, servers=0, commits=1)


def test_stored_networks_go_on(tmp_path: Path) -> None:
    """A folder gives the same logs back, live commits included; a line that a crash cut off is dropped."""
    network = generate(commits=400)
    network.save(tmp_path)
    for second in range(20):
        network.grow(END + timedelta(seconds=second))
    kept = everything(network)
    network.close()
    log = tmp_path / f"{network.seed_domain}.log"
    with log.open("ab") as file:
        file.write(b'1790000000000000000 v {"document":"{')

    again = Network.load(tmp_path)
    assert everything(again) == kept
    again.grow(END + timedelta(minutes=1))
    again.close()
    third = Network.load(tmp_path)
    assert everything(third) == everything(again)
    third.close()


def test_foreign_folders_are_refused(tmp_path: Path) -> None:
    """Logs of another seed, and folders of another version, are not gone on with."""
    network = generate(commits=100)
    network.save(tmp_path)
    network.close()
    about = tmp_path / "network.json"
    original = json.loads(about.read_text())
    about.write_text(json.dumps({**original, "version": 0}))
    with pytest.raises(OtherNetworkError):
        Network.load(tmp_path)
    about.write_text(json.dumps({**original, "people": [], "seed": "another"}))
    with pytest.raises(ForeignLogError):
        Network.load(tmp_path)

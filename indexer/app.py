"""The house: the one place where parts are made and wired, and where long-running loops are supervised.

`open_house` makes everything from settings: the store (embedded or given), the engine, followers, projector,
listeners. `House.run` runs the loops as named tasks; when one fails, the process stops, loudly. A store
that is away is no failure: the loops wait for it. Cancelling ends everything in order: listeners, loops,
pools, and at last the embedded server, when nobody else holds it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from indexer import __version__
from indexer.activity.answer import ActivityPresenter
from indexer.activity.explain import explain, subject_of
from indexer.activity.keeper import ActivityKeeper
from indexer.api.internal import Check, make_internal_app
from indexer.api.public import make_public_app
from indexer.api.serving import ListenError, serve
from indexer.api.statistics import statistics_answer
from indexer.concrnt.client import PeerClient, user_agent
from indexer.crawling import HandCrawler
from indexer.engines.base import EngineUnavailable
from indexer.engines.indexes import INDEXES
from indexer.engines.meilisearch import MeilisearchEngine
from indexer.engines.postgres import PostgresEngine
from indexer.errors import ExpectedError, unwrapped
from indexer.instruments import Instruments, MirrorFigures
from indexer.mirror.activity import Activity, Counting
from indexer.mirror.builds import Builds
from indexer.mirror.database import Database, StoreUnavailable, answers_anew
from indexer.mirror.embedded import EMBEDDED_FOLDER, EmbeddedServerError, keep_running, start_embedded
from indexer.mirror.knowledge import Knowledge
from indexer.mirror.lock import role as role_lease
from indexer.mirror.migrate import MigrationError, migrate, migrations, missing_migrations
from indexer.mirror.moves import Moves
from indexer.mirror.queue import ProjectionQueue
from indexer.mirror.ranking import ViewerRanking
from indexer.mirror.servers import Servers
from indexer.mirror.statistics import ServerReport, server_reports
from indexer.mirror.trust import OpenQuestions
from indexer.observability.logging import setup_logging
from indexer.observability.metrics import Metrics, PoolState
from indexer.observability.tracing import setup_tracing
from indexer.projection.building import IndexKeeper
from indexer.projection.figures import FigureDelivery
from indexer.projection.kinds import Kinds
from indexer.projection.projector import BatchLimits, Projector
from indexer.replication.crawl import ManualCrawl
from indexer.replication.discovery import Discovery, DiscoverySettings
from indexer.replication.feeds import Feeds
from indexer.replication.follower import Follower, FollowerSettings
from indexer.replication.judge import Judge
from indexer.replication.left_homes import LeftHomes
from indexer.replication.moving import Moving
from indexer.replication.plan import Schemas
from indexer.replication.residents import Residents
from indexer.replication.schedule import Schedule, ScheduleSettings
from indexer.replication.trust import TrustMode
from indexer.replication.writer import PageWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from indexer.api.serving import Listener
    from indexer.concrnt.client import OnRequest
    from indexer.config import Settings
    from indexer.engines.base import BuildingEngine, Engine
    from indexer.mirror.embedded import EmbeddedServer

log = structlog.get_logger(__name__)

_SEARCH_CONNECTIONS = 6
_SPARE_CONNECTIONS = 6
_RETRY_SECONDS = 5.0
_PREPARE_SECONDS = 60.0
_PREPARE_AT_START_SECONDS = 10.0
"""New settings may mean that everything is indexed again: that is waited for in the background."""
_MEILISEARCH_LIMITS = BatchLimits(marks=10_000, bytes=32 * 1024 * 1024, in_flight=3)
"""It works on few large tasks far faster than on many small ones."""
_STATEMENT_GRACE_SECONDS = 7.0
"""How long statements may go on when the process is told to stop: a little more than a page in hand."""


def utc_now() -> datetime:
    """The time of the machine's clock, aware."""
    return datetime.now(UTC)


# --- the store -------------------------------------------------------------------------------------


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[str]:
    """The DSN of the store: the configured one, or an embedded server that runs while this is open."""
    async with _open_embedded(settings) as server:
        yield settings.backends.postgres_dsn if server is None else server.dsn


@asynccontextmanager
async def _open_embedded(settings: Settings) -> AsyncIterator[EmbeddedServer | None]:
    """The embedded server, held while this is open; None where another one is configured."""
    if settings.backends.postgres_dsn:
        yield None
        return
    try:
        server = await asyncio.to_thread(start_embedded, settings.backends.data_dir)
    except EmbeddedServerError as error:
        raise ExpectedError(str(error), code="embedded_postgres") from error
    try:
        yield server
    finally:
        await asyncio.shield(asyncio.to_thread(server.stop))


@asynccontextmanager
async def open_database(dsn: str, *, size: int, application: str) -> AsyncIterator[Database]:
    """A pool on the store. Raises `ExpectedError` when it can not be reached."""
    try:
        database = await Database.connect(dsn, size=size, application=application)
    except StoreUnavailable as error:
        raise ExpectedError(str(error), code="database_away") from error
    try:
        yield database
    finally:
        await database.close()


async def bring_up_to_date(database: Database) -> list[str]:
    """Apply missing migrations; returns their names. Raises `ExpectedError`."""
    try:
        return [f"{step.version:04} {step.name}" for step in await migrate(database)]
    except MigrationError as error:
        raise ExpectedError(str(error), code="migration_failed") from error
    except StoreUnavailable as error:
        raise ExpectedError(str(error), code="database_away") from error


# --- the house -------------------------------------------------------------------------------------


class Role(StrEnum):
    """What a process does; all of it unless told otherwise."""

    FOLLOW = "follow"
    PROJECT = "project"
    ACTIVITY = "activity"
    API = "api"


ALL_ROLES = frozenset(Role)


@dataclass(slots=True)
class House:
    """All parts of a running indexer."""

    settings: Settings
    database: Database
    searching: Database
    search_engine: Engine
    projecting_engine: BuildingEngine
    servers: Servers
    residents: Residents | None
    queue: ProjectionQueue
    figures: MirrorFigures
    metrics: Metrics
    instruments: Instruments
    discovery: Discovery
    schedule: Schedule
    projector: Projector
    keeper: IndexKeeper
    builds: Builds
    activity: ActivityKeeper
    ranking: ViewerRanking
    crawl: ManualCrawl
    dsn: str
    embedded: EmbeddedServer | None = None
    roles: frozenset[Role] = ALL_ROLES
    holder: str = field(default_factory=lambda: uuid.uuid4().hex)
    api_url: str = ""
    internal_url: str = ""

    async def run(self) -> None:
        """Listen and do what the roles ask for, until cancelled. Raises what a loop raised."""
        async with AsyncExitStack() as stack:
            loops: list[asyncio.Task[None]] = []
            listeners = {
                "the internal listener": (self._internal_app(loops), self.settings.server.internal_listen)
            }
            if Role.API in self.roles:
                listeners["the public listener"] = (self._public_app(), self.settings.server.listen)
            opened = {
                name: await _listen(stack, app, str(listen)) for name, (app, listen) in listeners.items()
            }
            self._say_where(opened)
            async with asyncio.TaskGroup() as group:
                loops += [group.create_task(work, name=name) for name, work in self._loops()]
                for name, listener in opened.items():
                    group.create_task(_fail_when_ended(listener.task, name))
                group.create_task(self._hurry_when_stopped(), name="hurry")

    async def _hurry_when_stopped(self) -> None:
        """When all is cancelled, statements have so long to end; then their connections are cut."""
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop().call_later(_STATEMENT_GRACE_SECONDS, self._cut_connections)

    def _cut_connections(self) -> None:
        for database in (self.database, self.searching):
            database.pool.terminate()

    def _say_where(self, opened: dict[str, Listener]) -> None:
        self.internal_url = opened["the internal listener"].url
        public = opened.get("the public listener")
        self.api_url = self.settings.server.public_url.rstrip("/") or (public.url if public else "")
        docs = f"{self.api_url}/docs" if public else ""
        log.info("listening", api=self.api_url, docs=docs, internal=self.internal_url)

    def _loops(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """The loops of this process's roles. Followers lease single servers; the others take turns."""
        loops: list[tuple[str, Coroutine[Any, Any, None]]] = []
        if Role.FOLLOW in self.roles:
            loops.append(("schedule", self.schedule.run()))
            loops.append(("discovery", self._in_turn("discovery", self._discover)))
            if self.residents is not None:
                loops.append(("residents", self._in_turn("residents", self.residents.run)))
        if Role.PROJECT in self.roles:
            loops.append(("projector", self.project()))
        if Role.ACTIVITY in self.roles:
            loops.append(("activity", self._in_turn("activity", self.activity.run)))
        if Role.FOLLOW not in self.roles:
            loops.append(("known hosts", self._know_hosts()))
        if self.embedded is not None:
            loops.append(("embedded PostgreSQL", keep_running(self.embedded)))
        loops.append(("search engine", self._prepare_search()))
        return loops

    async def project(self) -> None:
        """Project and keep the indexes whole, whenever it is this process's turn."""

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.projector.run(), name="projector")
                group.create_task(self.keeper.run(), name="index keeper")

        await self._in_turn("projection", work)

    async def _prepare_search(self) -> None:
        """Have engines prepared, also when they were away at the start; who projects prepares its own."""
        engines: list[Engine] = [self.search_engine]
        if Role.PROJECT not in self.roles:
            engines.append(self.projecting_engine)
        while True:
            is_prepared = all([await _prepare(engine) for engine in engines])
            await asyncio.sleep(_PREPARE_SECONDS if is_prepared else _RETRY_SECONDS)

    async def _in_turn(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what one process at a time does, whenever it is this one's turn. Raises what the work raised."""
        while True:
            async with role_lease(self.database, name, self.holder) as lost:
                task = asyncio.create_task(work(), name=name)
                losing = asyncio.create_task(lost.wait())
                try:
                    await asyncio.wait({task, losing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    losing.cancel()
                    if not task.done():
                        task.cancel()
                    await asyncio.wait({task})
                if not task.cancelled():
                    task.result()
                log.warning("a role was lost to another process", role=name)

    async def _know_hosts(self) -> None:
        interval = self.settings.crawl.known_servers_interval.total_seconds()
        while True:
            with suppress(StoreUnavailable):
                self.metrics.set_known_hosts(await self.servers.domains(self.settings.crawl.layer))
            await asyncio.sleep(interval)

    async def _discover(self) -> None:
        interval = self.settings.crawl.known_servers_interval.total_seconds()
        while True:
            try:
                new = await self.discovery.run()
                self.metrics.set_known_hosts(await self.servers.domains(self.settings.crawl.layer))
            except StoreUnavailable as error:
                log.warning("discovery waits for the mirror", why=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if new:
                log.info("servers discovered", count=len(new), first=new[0])
            self.schedule.wake()
            await asyncio.sleep(interval)

    def _public_app(self) -> Any:
        return make_public_app(
            engine=self.search_engine,
            ranking=self.ranking,
            statistics=self.figures,
            crawler=HandCrawler(self.crawl),
            metrics=self.metrics,
            version=__version__,
            present=ActivityPresenter(self.settings.crawl.activity_history_days),
            public_url=self.settings.server.public_url,
            max_total_hits=self.settings.search.max_total_hits,
            requests_per_minute=self.settings.server.rate_limit,
            unavailable=(StoreUnavailable,),
            database_answers=partial(answers_anew, self.dsn),
        )

    def _internal_app(self, loops: list[asyncio.Task[None]]) -> Any:
        async def migrated() -> None:
            if missing := await missing_migrations(self.database):
                raise StoreUnavailable(f"{len(missing)} migrations are missing")

        async def database_answers() -> None:
            await self.database.fetchrow("select 1")

        async def loops_live() -> None:
            if not loops or any(task.done() for task in loops):
                raise StoreUnavailable("a loop has ended")

        return make_internal_app(
            metrics=self.metrics,
            source=self.figures,
            engine=self.search_engine,
            checks=[
                Check("database", database_answers),
                Check("migrations", migrated),
                Check("engine", self.search_engine.ping),
                Check("loops", loops_live),
            ],
            version=__version__,
        )


async def _listen(stack: AsyncExitStack, app: Any, listen: str) -> Listener:
    try:
        return await stack.enter_async_context(serve(app, listen))
    except ListenError as error:
        remedy = "set server.listen and server.internalListen (INDEXER_SERVER__LISTEN=:9080) to free ones"
        raise ExpectedError(f"{error}; {remedy}", code="listen") from error


async def _fail_when_ended(task: asyncio.Task[None], what: str) -> None:
    await asyncio.wait([task])
    raise ExpectedError(f"{what} stopped by itself", code="listener_ended")


def schemas_of(settings: Settings) -> Schemas:
    """The configured schemas by meaning."""
    crawl = settings.crawl
    return Schemas(
        profiles=frozenset(crawl.profile_schemas),
        communities=frozenset(crawl.community_schemas),
        posts=frozenset(crawl.post_schemas),
        acks=frozenset(crawl.ack_schemas),
    )


@asynccontextmanager
async def open_house(settings: Settings) -> AsyncIterator[House]:
    """Make every part and wire it. Raises `ExpectedError` for what an operator can mend."""
    async with AsyncExitStack() as stack:
        embedded = await stack.enter_async_context(_open_embedded(settings))
        dsn = settings.backends.postgres_dsn if embedded is None else embedded.dsn
        size = settings.crawl.global_concurrency + _SPARE_CONNECTIONS
        database = await stack.enter_async_context(open_database(dsn, size=size, application="indexer"))
        for name in await bring_up_to_date(database):
            log.info("migrated", migration=name)
        searching = await stack.enter_async_context(
            open_database(dsn, size=_SEARCH_CONNECTIONS, application="indexer search")
        )
        metrics = Metrics(__version__)
        instruments = Instruments(metrics)
        peers = await stack.enter_async_context(_peers(settings, instruments))
        judge = make_judge(settings)
        house = _wire(settings, database, searching, peers, instruments, judge=judge, dsn=dsn)
        house.embedded = embedded
        stack.push_async_callback(house.search_engine.close)
        stack.push_async_callback(house.projecting_engine.close)
        await _prepare_at_start(house.search_engine)
        if await _prepare_at_start(house.projecting_engine):
            with suppress(EngineUnavailable, StoreUnavailable):
                await house.keeper.look()
        yield house


async def _prepare(engine: Engine) -> bool:
    """Put the engine's indexes in place; when it is away, everything else goes on without it."""
    try:
        await engine.prepare(INDEXES)
    except EngineUnavailable as error:
        log.warning("the search engine is away; what is read is kept for it", why=str(error))
        return False
    return True


async def _prepare_at_start(engine: Engine) -> bool:
    """The same; what takes long goes on in the background, since the loops prepare as well."""
    try:
        async with asyncio.timeout(_PREPARE_AT_START_SECONDS):
            return await _prepare(engine)
    except TimeoutError:
        log.warning("the search engine is still being prepared")
        return False


def make_engine(settings: Settings, database: Database) -> BuildingEngine:
    """The search engine that the settings ask for."""
    backends = settings.backends
    max_hits = settings.search.max_total_hits
    if backends.meili_host:
        return MeilisearchEngine(backends.meili_host, backends.meili_api_key, max_hits)
    return PostgresEngine(database.pool, max_hits)


def _peers(settings: Settings, instruments: Instruments) -> PeerClient:
    return make_peers(settings, instruments.peer_request)


def make_peers(settings: Settings, on_request: OnRequest | None = None) -> PeerClient:
    """The client that talks to strangers."""
    crawl = settings.crawl
    return PeerClient(
        user_agent=user_agent(__version__, settings.server.public_url),
        request_timeout=crawl.request_timeout.total_seconds(),
        max_response_bytes=crawl.max_response_bytes,
        host_overrides=crawl.host_overrides,
        on_request=on_request,
    )


def make_judge(settings: Settings) -> Judge | None:
    """Who judges what other servers say, in the configured mode; None where everybody is believed."""
    mode = TrustMode(settings.trust.mode.value)
    if mode is TrustMode.OFF:
        return None
    return Judge(mode, follows=frozenset(settings.crawl.ack_schemas))


def _wire(
    settings: Settings,
    database: Database,
    searching: Database,
    peers: PeerClient,
    instruments: Instruments,
    *,
    judge: Judge | None,
    dsn: str,
) -> House:
    crawl = settings.crawl
    schemas, servers, queue, feeds = (
        schemas_of(settings),
        Servers(database),
        ProjectionQueue(database),
        Feeds(peers),
    )
    page_writer = PageWriter(database, schemas=schemas, trust=judge, on_marked=queue.notify)
    residents = None
    if judge is not None:
        residents = Residents(
            feeds,
            servers,
            OpenQuestions(database),
            page_writer,
            judge.prover.fetched,
            left_homes=LeftHomes(
                database, page_writer, schemas, on_rejected=instruments.rejected_later, clock=utc_now
            ),
            seed=crawl.seed,
            schemas=schemas,
            metrics=instruments,
            clock=utc_now,
        )
    projecting_engine = make_engine(settings, database)
    kinds = Kinds(
        profile_schemas=crawl.profile_schemas,
        community_schemas=crawl.community_schemas,
        post_schemas=crawl.post_schemas,
    )
    projector = Projector(
        queue,
        projecting_engine,
        kinds,
        dead_letter=_bury(queue),
        metrics=instruments,
        unavailable=(StoreUnavailable,),
        limits=_MEILISEARCH_LIMITS if settings.backends.meili_host else None,
    )
    builds = Builds(database, projecting_engine.name)
    follower = Follower(
        feeds,
        page_writer,
        schemas=schemas,
        settings=FollowerSettings(crawl.page_limit, crawl.overlap, crawl.max_pages_per_run),
        metrics=instruments,
        clock=utc_now,
    )
    discovery = Discovery(
        feeds,
        servers,
        settings=DiscoverySettings(crawl.seed, crawl.layer, crawl.max_servers),
        metrics=instruments,
        clock=utc_now,
    )
    activity = Activity(database, counting_of(settings))
    delivery = FigureDelivery(
        activity,
        projecting_engine,
        profile_schemas=crawl.profile_schemas,
        community_schemas=crawl.community_schemas,
    )
    _watch(instruments.metrics, "mirror", database)
    _watch(instruments.metrics, "search", searching)
    return House(
        settings=settings,
        dsn=dsn,
        database=database,
        searching=searching,
        search_engine=make_engine(settings, searching),
        projecting_engine=projecting_engine,
        servers=servers,
        residents=residents,
        queue=queue,
        figures=MirrorFigures(database, layer=crawl.layer),
        metrics=instruments.metrics,
        instruments=instruments,
        discovery=discovery,
        schedule=Schedule(
            follower,
            feeds,
            servers,
            settings=_schedule_settings(settings),
            metrics=instruments,
            clock=utc_now,
            discover=discovery.add,
            moving=Moving(
                feeds,
                Moves(database, indexed_schemas=schemas.indexed),
                discover=discovery.add,
                layer=crawl.layer,
            ),
        ),
        projector=projector,
        keeper=IndexKeeper(
            projecting_engine,
            INDEXES,
            projector,
            builds,
            kinds,
            unavailable=(StoreUnavailable,),
            swapped=delivery.index_was_built,
        ),
        builds=builds,
        activity=ActivityKeeper(
            activity,
            deliver=delivery.deliver,
            interval_seconds=crawl.activity_interval.total_seconds(),
            metrics=instruments,
            clock=utc_now,
            unavailable=(StoreUnavailable, EngineUnavailable),
        ),
        ranking=ViewerRanking(
            searching,
            half_life_seconds=crawl.activity_half_life.total_seconds(),
            ack_schemas=crawl.ack_schemas,
            profile_schemas=crawl.profile_schemas,
            community_schemas=crawl.community_schemas,
        ),
        crawl=make_manual_crawl(settings, database, feeds, page_writer, judge),
    )


def make_manual_crawl(
    settings: Settings, database: Database, feeds: Feeds, page_writer: PageWriter, judge: Judge | None
) -> ManualCrawl:
    """What fetches single documents by hand."""
    return ManualCrawl(
        feeds,
        Servers(database),
        Knowledge(database),
        page_writer,
        judge.prover.fetched if judge is not None else None,
        seed=settings.crawl.seed,
        layer=settings.crawl.layer,
        schemas=schemas_of(settings),
        clock=utc_now,
    )


def counting_of(settings: Settings) -> Counting:
    """What activity is counted with."""
    crawl = settings.crawl
    return Counting(
        crawl.activity_half_life.total_seconds(),
        crawl.activity_history_days,
        tuple(crawl.post_schemas),
        tuple(crawl.profile_schemas),
    )


def _schedule_settings(settings: Settings) -> ScheduleSettings:
    crawl = settings.crawl
    return ScheduleSettings(
        layer=crawl.layer,
        concurrency=crawl.global_concurrency,
        min_poll_interval=crawl.min_poll_interval,
        incremental_interval=crawl.incremental_interval,
        well_known_interval=crawl.known_servers_interval,
    )


def _watch(metrics: Metrics, name: str, database: Database) -> None:
    pool = database.pool
    metrics.watch_pool(name, lambda: PoolState(pool.get_size(), pool.get_idle_size(), pool.get_max_size()))


def _bury(queue: ProjectionQueue) -> Callable[[str, str], Awaitable[None]]:
    async def bury(key: str, reason: str) -> None:
        log.warning("the engine refuses a document", key=key, reason=reason)
        await queue.bury(key, reason)

    return bury


# --- what the commands do --------------------------------------------------------------------------


async def run_up(
    settings: Settings,
    *,
    roles: frozenset[Role] = ALL_ROLES,
    on_open: Callable[[House], None] | None = None,
) -> None:
    """Run the indexer, or some of its roles, until cancelled."""
    observability = settings.observability
    setup_logging(observability.log_format, observability.log_level)
    end_tracing = setup_tracing(
        enabled=observability.enable_trace, endpoint=observability.trace_endpoint, version=__version__
    )
    _say_what_is_not_built_yet(settings)
    try:
        with unwrapped():
            async with open_house(settings) as house:
                house.roles = roles
                if on_open is not None:
                    on_open(house)
                await house.run()
    finally:
        await asyncio.to_thread(end_tracing)


def _say_what_is_not_built_yet(settings: Settings) -> None:
    if settings.trust.mode.value == "off":
        log.warning("trust.mode is off: every server is believed, whatever it says about anybody")


async def run_migrate(settings: Settings) -> list[str]:
    """Bring the schema up to date; returns the names of what was applied."""
    async with (
        open_store(settings) as dsn,
        open_database(dsn, size=2, application="indexer migrate") as database,
    ):
        return await bring_up_to_date(database)


async def fetch_statistics(settings: Settings) -> dict[str, Any]:
    """What `/api/v1/stats` answers."""
    async with open_for_reading(settings) as database:
        engine = make_engine(settings, database)
        try:
            await engine.look(INDEXES)
            figures = MirrorFigures(database, layer=settings.crawl.layer)
            return statistics_answer(await figures.statistics(), engine.name, await engine.statistics())
        except EngineUnavailable as error:
            raise ExpectedError(str(error), code="engine_away") from error
        finally:
            await engine.close()


async def fetch_servers(settings: Settings) -> list[dict[str, Any]]:
    """Every server that is known, as `servers --json` prints it."""
    async with open_for_reading(settings) as database:
        reports = await server_reports(database, layer="")
        sharing = Counter(report.csid for report in reports if report.csid)
        return [server_row(report, csid_shared=sharing[report.csid or ""] > 1) for report in reports]


async def fetch_activity(settings: Settings, subject: str) -> dict[str, Any]:
    """What a score is made of, as `activity show --json` prints it. `subject` is a key or a CCID.

    Raises `ExpectedError` for what is neither, and for what is not known.
    """
    subject_of(subject)
    async with open_for_reading(settings) as database:
        return await explain(database, subject, counting_of(settings), now=utc_now())


@asynccontextmanager
async def open_for_reading(settings: Settings) -> AsyncIterator[Database]:
    """The store, for commands that report or do one thing; its schema is left as it is.

    None is made where there is none: that is for whoever runs the indexer.
    """
    backends = settings.backends
    if not backends.postgres_dsn and not (backends.data_dir.expanduser() / EMBEDDED_FOLDER).exists():
        raise ExpectedError(
            f"there is no database in {backends.data_dir} (backends.dataDir): `concrnt-indexer up` makes one",
            code="no_database",
        )
    async with (
        open_store(settings) as dsn,
        open_database(dsn, size=2, application="indexer report") as database,
    ):
        try:
            await _refuse_other_schema(database)
            yield database
        except (StoreUnavailable, EngineUnavailable) as error:
            raise ExpectedError(str(error), code="database_away") from error


async def _refuse_other_schema(database: Database) -> None:
    """A report changes no schema that others may be at work on; a database without one is made ready."""
    missing = await missing_migrations(database)
    if len(missing) == len(migrations()):
        await bring_up_to_date(database)
    elif missing:
        raise ExpectedError(
            "the database's schema is older than this program: run `concrnt-indexer migrate` first",
            code="schema_outdated",
        )


def server_row(report: ServerReport, *, csid_shared: bool) -> dict[str, Any]:
    """One server as `servers --json` prints it (behaviour.md, section 9).

    `distrusted`: more than half of what its feed said, in all or of late, was rejected. `csid_shared`:
    another domain claims the same server key. A claim proves nothing; both are followed.
    """
    return {
        "domain": report.domain,
        "csid": report.csid,
        "layer": report.layer,
        "state": report.state,
        "failureClass": report.failure_class,
        "consecutiveFailures": report.consecutive_failures,
        "lastError": report.last_error,
        "lastErrorAt": report.last_error_at,
        "cursor": report.cursor,
        "caughtUp": report.caught_up,
        "lastCrawledAt": report.last_crawled_at,
        "lastSeenAt": report.last_seen_at,
        "nextPollAt": report.next_poll_at,
        "commits": report.commits,
        "malformed": report.malformed,
        "rejected": report.rejected,
        "distrusted": report.distrusted,
        "rejectedReason": report.rejected_reason,
        "partialInstants": report.partial_instants,
        "csidShared": csid_shared,
    }

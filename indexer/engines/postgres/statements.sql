-- Statements that do not depend on an index. Those that do are composed in schema.py, rows.py
-- and searching.py from an IndexDefinition; every value is a parameter in both.

-- name: lock
-- One process at a time puts the schema in place; the lock ends with the transaction, so that it also works
-- behind a pooler of transactions.
select pg_advisory_xact_lock(hashtextextended('concrnt-indexer:search:prepare', 0));

-- name: lock_timeout
-- How long a swap waits for readers.
set local lock_timeout = '1500ms';

-- name: schema_exists
-- Asked of the catalogue itself: what this connection remembers of names may be older than the lock, and
-- "if not exists" asks that memory.
select exists (select from pg_namespace where nspname = 'search');

-- name: create_schema
-- The engine's own room in the database.
create schema search;

-- name: create_definitions
-- What each table was last derived with; another fingerprint means that its rows must be derived again.
create table if not exists search.definitions (
    index_uid text collate "C" primary key,
    fingerprint text not null
);

-- name: existing_relations
-- Which of these tables and indexes exist. $1: names without schema.
select name
from unnest($1::text[]) as wanted (name)
where to_regclass(format('search.%I', name)) is not null;

-- name: existing_columns
-- The columns of a table. $1: its name without schema.
select attribute.attname as name
from pg_attribute as attribute
where attribute.attrelid = to_regclass(format('search.%I', $1::text))
    and attribute.attnum > 0
    and not attribute.attisdropped;

-- name: fingerprints
-- What the tables were derived with.
select index_uid, fingerprint from search.definitions;

-- name: remember_fingerprint
-- $1: index uid, $2: what its rows are derived with now.
insert into search.definitions (index_uid, fingerprint) values ($1, $2)
on conflict (index_uid) do update set fingerprint = excluded.fingerprint;

-- name: write_settings
-- Waiting for the disk at commit would buy nothing: the mark of a document is cleared by a later commit of the
-- same server, which can not be durable without this one, and documents can be made again.
set local synchronous_commit = off;

-- name: search_settings
-- Searches are short: compiling and parallel workers cost more than they save, and a plan for "any query" fits
-- none. The bitmaps of common words stay exact. Without enable_sort a walk along a B-tree is never given up for
-- sorting the whole table, which the planner prefers when it multiplies the odds of conditions that go together;
-- where only a sort will do, it still sorts.
set local jit = off;
set local max_parallel_workers_per_gather = 0;
set local plan_cache_mode = force_custom_plan;
set local work_mem = '32MB';
set local enable_sort = off;

-- name: identities
-- Which of these tables are there, and which very tables they are. $1: names without schema.
select name, to_regclass(format('search.%I', name))::oid::text as identity
from unnest($1::text[]) as wanted (name)
where to_regclass(format('search.%I', name)) is not null;

-- Indexes of search engines: what they were filled from, and builds beside them. $1 is the engine's name.

-- name: indexes
-- What each index was last filled from.
select index_uid, identity, fingerprint from mirror.indexes where engine = $1

-- name: note_filled
-- An index holds all of the mirror.
insert into mirror.indexes (engine, index_uid, identity, fingerprint, filled_at)
values ($1, $2, $3, $4, $5)
on conflict (engine, index_uid) do update
set identity = excluded.identity, fingerprint = excluded.fingerprint, filled_at = excluded.filled_at

-- name: request
-- Ask for builds; one that is asked for already stays as it is.
insert into mirror.index_builds (engine, index_uid, reason, requested_at)
select $1, uid, $3, $4 from unnest($2::text[]) as asked (uid)
on conflict (engine, index_uid) do nothing

-- name: builds
-- Builds asked for or under way, in the order in which they were asked for.
select index_uid, reason, requested_at, started_at, identity, filled, total
from mirror.index_builds where engine = $1
order by requested_at, index_uid

-- name: begin
-- A build begins with an empty index: $3 its identity, $4 how many documents it will hold at most, $5 now.
update mirror.index_builds set identity = $3, total = $4, filled = 0, started_at = $5
where engine = $1 and index_uid = $2

-- name: progress
-- How many keys have been written.
update mirror.index_builds set filled = $3 where engine = $1 and index_uid = $2

-- name: end_build
-- A build is over; one that another process has begun since ($3 is ours) goes on.
delete from mirror.index_builds where engine = $1 and index_uid = $2 and (identity is null or identity = $3)

-- name: count_records
-- How many records have one of these schemas ($1).
select count(*) from mirror.records where schema = any($1::text[])

-- name: count_servers
-- How many servers are shown.
select count(*) from mirror.servers where state <> 'wrong_layer'

-- name: page_records
-- The next records of a schema ($1) after a key ($2), $3 at most, of about $4 bytes, with when they were indexed.
with picked as (
  select key, row_number() over (order by key) as place,
    sum(octet_length(signed) + octet_length(key) * (length(key) - length(replace(key, '/', ''))) / 2)
      over (order by key) as bytes_so_far
  from (select key, signed from mirror.records where schema = $1 and key > $2 order by key limit $3) as next
)
select
  r.key, 0::bigint as generation, r.created_at as marked_at, '{}'::text[] as former_schemas,
  r.owner, r.author, r.schema, r.source, r.cdid, r.created_at, r.first_created_at, r.signed, r.indexed_at,
  null as domain
from picked p
join mirror.records r on r.key = p.key
where p.bytes_so_far <= $4 or p.place = 1
order by r.key

-- name: page_servers
-- The next servers after a name ($1), $2 at most.
select
  s.domain as key, 0::bigint as generation, s.discovered_at as marked_at, '{}'::text[] as former_schemas,
  null as signed, null::timestamptz as indexed_at,
  s.domain, s.csid, s.version, s.software_version, s.software_build_time, s.meta,
  coalesce(s.last_seen_at, s.discovered_at) as last_seen_at, s.last_crawled_at, s.state
from mirror.servers s
where s.domain > $1 and s.state <> 'wrong_layer'
order by s.domain
limit $2

-- name: is_read_in
-- Whether there are records, some server was read to its end, and so was every other, but for those that are not
-- read at all and those that have not answered since $1.
select exists (select from mirror.records)
  and exists (select from mirror.cursors where caught_up_at is not null)
  and not exists (
    select from mirror.servers s
    left join mirror.cursors c on c.domain = s.domain
    where c.caught_up_at is null
      and s.state not in ('no_endpoint', 'wrong_layer', 'paused')
      and (s.failing_since is null or s.failing_since > $1)
  ) as is_read_in

-- name: read_records
-- Records under these keys ($1), with when they were indexed.
select
  r.key, 0::bigint as generation, r.created_at as marked_at, '{}'::text[] as former_schemas,
  r.owner, r.author, r.schema, r.source, r.cdid, r.created_at, r.first_created_at, r.signed, r.indexed_at,
  null as domain
from mirror.records r where r.key = any($1::text[])

-- name: read_servers
-- Servers of these names ($1).
select
  s.domain as key, 0::bigint as generation, s.discovered_at as marked_at, '{}'::text[] as former_schemas,
  null as signed, null::timestamptz as indexed_at,
  s.domain, s.csid, s.version, s.software_version, s.software_build_time, s.meta,
  coalesce(s.last_seen_at, s.discovered_at) as last_seen_at, s.last_crawled_at, s.state
from mirror.servers s
where s.domain = any($1::text[]) and s.state <> 'wrong_layer'

-- name: marked
-- Which of these keys ($1) wait to be projected.
select key from mirror.projection_queue where key = any($1::text[])

-- name: mark
-- Have these keys ($1) projected again; they may stand in the index of these schemas ($2). $3 now.
insert into mirror.projection_queue (key, marked_at, former_schemas)
select key, $3, $2::text[] from unnest($1::text[]) as t (key) order by key
on conflict (key) do update set
  generation = nextval('mirror.projection_generation'),
  former_schemas = array(
    select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
  )

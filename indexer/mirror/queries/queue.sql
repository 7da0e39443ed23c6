-- Statements of the projection queue.

-- name: take_marks
-- The oldest marks with the current state of their keys: $1 marks at most, documents of about $2 bytes, no key of
-- $3. A key without "://" is a server's.
with picked as (
  select key, generation, marked_at, former_schemas
  from mirror.projection_queue
  where key <> all($3::text[])
  order by generation
  limit $1
), sized as (
  select
    p.key, p.generation, p.marked_at, p.former_schemas,
    -- a search document spells out the key's ancestors: half the key for each step
    sum(
      coalesce(octet_length(r.signed), 0)
      + octet_length(p.key) * (length(p.key) - length(replace(p.key, '/', ''))) / 2
    ) over (order by p.generation) as bytes_so_far,
    row_number() over (order by p.generation) as place
  from picked p
  left join mirror.records r on r.key = p.key
)
select
  z.key, z.generation, z.marked_at, z.former_schemas,
  r.owner, r.author, r.schema, r.source, r.cdid, r.created_at, r.first_created_at, r.signed,
  s.domain, s.csid, s.version, s.software_version, s.software_build_time, s.meta, coalesce(s.last_seen_at, s.discovered_at) as last_seen_at,
  s.last_crawled_at, s.state
from sized z
left join mirror.records r on r.key = z.key
left join mirror.servers s on s.domain = z.key and s.state <> 'wrong_layer'
where z.bytes_so_far <= $2 or z.place = 1
order by z.generation

-- name: clear_marks
-- Clear marks that still have the generation that was read; a mark that a follower holds has changed anyway.
delete from mirror.projection_queue
where ctid = any(array(
  select q.ctid
  from unnest($1::text[], $2::bigint[]) as done (key, generation)
  join mirror.projection_queue q on q.key = done.key and q.generation = done.generation
  for update of q skip locked
))
returning key

-- name: mark_uncleared
-- Marks that are gone though this process did not clear them: another projector was at work on the same keys,
-- and whose state was written last nobody knows. They are projected once more.
insert into mirror.projection_queue (key, marked_at)
select uncleared.key, $2 from unnest($1::text[]) as uncleared (key)
where not exists (select from mirror.projection_queue q where q.key = uncleared.key)
on conflict (key) do nothing

-- name: note_indexed
-- When these records were last indexed; one that a follower holds is indexed again soon.
update mirror.records
set indexed_at = $2
where ctid = any(array(
  select ctid from mirror.records where key = any($1::text[]) for update skip locked
))

-- name: bury_refused
-- A record whose document the engine refuses, once for each version of it. $3 characters of it are kept.
insert into mirror.dead_letters (domain, digest, kind, reason, commit, seen_at)
select source, sha256(convert_to(signed, 'UTF8')), 'commit', 'engine: ' || $2, left(signed, $3), clock_timestamp()
from mirror.records where key = $1
on conflict (domain, digest) do nothing

-- name: mark_schemas
-- Mark every record of these schemas.
insert into mirror.projection_queue (key, marked_at)
select key, $2 from mirror.records where schema = any($1::text[])
on conflict (key) do update set generation = nextval('mirror.projection_generation')

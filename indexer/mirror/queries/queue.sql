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
    sum(coalesce(octet_length(r.signed), 0)) over (order by p.generation) as bytes_so_far,
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
left join mirror.servers s on s.domain = z.key
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

-- name: note_indexed
-- When these records were last indexed; one that a follower holds is indexed again soon.
update mirror.records
set indexed_at = $2
where ctid = any(array(
  select ctid from mirror.records where key = any($1::text[]) for update skip locked
))

-- name: queue_state
-- How many changes wait, and since when.
select count(*) as depth, min(marked_at) as oldest from mirror.projection_queue

-- name: mark_schemas
-- Mark every record of these schemas.
insert into mirror.projection_queue (key, marked_at)
select key, $2 from mirror.records where schema = any($1::text[])
on conflict (key) do update set generation = nextval('mirror.projection_generation')

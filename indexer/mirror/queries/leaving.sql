-- Statements that take out what a server said of people who left it.

-- name: next_left_homes
-- The oldest few ($1) of each server, and by which name it is known now.
with recursive noted as (
  (select domain from mirror.left_homes order by domain limit 1)
  union all
  select following.domain from noted n cross join lateral (
    select domain from mirror.left_homes where domain > n.domain order by domain limit 1
  ) as following
)
select l.owner, l.domain, coalesce(m.new, l.domain) as known_as, l.generation
from noted n
cross join lateral (
  select owner, domain, generation from mirror.left_homes where domain = n.domain order by generation limit $1
) as l
left join mirror.moves m on m.old = l.domain

-- name: forget_left_home
-- All of it was judged again, unless it was noted once more meanwhile.
delete from mirror.left_homes where owner = $1 and domain = $2 and generation = $3

-- name: forget_what_went
-- What was replaced or removed of a person's may come back.
delete from mirror.retired where key >= 'cckv://' || $1 || '/' and key < 'cckv://' || $1 || '0'

-- name: restart_first_created
-- The first createdAt under a person's ($1) keys is that of what stands, until logs tell of an earlier one. $2 indexed
-- schemas, $3 now.
with restarted as (
  update mirror.records r set first_created_at = r.created_at
  where r.key >= 'cckv://' || $1 || '/' and r.key < 'cckv://' || $1 || '0' and r.first_created_at < r.created_at
  returning r.key, r.schema
)
insert into mirror.projection_queue (key, marked_at, former_schemas)
select key, $3, array[schema] from restarted where schema = any($2::text[]) order by key
on conflict (key) do update set
  generation = nextval('mirror.projection_generation'),
  former_schemas = array(
    select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
  )

-- name: take_out_records
-- Take out the next $5 records of a person ($1) that came from a server ($2), past a key ($3). $4 indexed schemas, $6 now.
with gone as (
  delete from mirror.records r
  where r.key = any(array(
    select c.key from mirror.records c
    where c.key > greatest($3, 'cckv://' || $1 || '/') and c.key < 'cckv://' || $1 || '0' and c.source = $2
    order by c.key limit $5
  ))
  returning r.key, r.schema, r.signed
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $6, array[schema] from gone where schema = any($4::text[]) order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
)
select key as place, signed from gone order by key

-- name: take_out_deletes
-- Take out the next $4 deletes in a person's name ($1) that came from a server ($2), past a CDID ($3).
with chosen as (
  select distinct t.cdid from mirror.tombstones t
  where t.owner = $1 and t.source = $2 and t.cdid > $3
  order by t.cdid limit $4
), gone as (
  delete from mirror.tombstones t using chosen c where t.cdid = c.cdid and t.source = $2 returning t.cdid, t.signed
)
select cdid as place, max(signed) as signed from gone group by cdid order by cdid

-- name: take_out_follows
-- Take out the next $5 follows of a person ($1) that came from a server ($2), past whom and by which schema ($3, $4).
with gone as (
  delete from mirror.acks a
  where a.acker = $1 and (a.ackee, a.schema) in (
    select c.ackee, c.schema from mirror.acks c
    where c.acker = $1 and c.source = $2 and (c.ackee, c.schema) > ($3, $4)
    order by c.ackee, c.schema limit $5
  )
  returning a.ackee, a.schema, a.signed
)
select ackee, schema, signed from gone order by ackee, schema

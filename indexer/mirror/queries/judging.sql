-- Statements for judging again what is stored: batches in order, and what becomes of those that were judged.

-- name: stored_counts
-- How much there is to judge.
select
  (select count(*) from mirror.entities) as entities,
  (select count(*) from mirror.tombstones where signed is not null) as deletes,
  (select count(*) from mirror.records) as records,
  (select count(*) from mirror.acks where signed is not null)
    + (select count(*) from mirror.provisional_acks where signed is not null) as follows,
  (select count(*) from mirror.dead_letters where reason = any($1::text[])) as rejected

-- name: entities_after
-- Entities past a person.
select ccid, source, cdid, signed, standing from mirror.entities where ccid > $1 order by ccid limit $2

-- name: judge_entity
-- An entity judged again.
update mirror.entities set standing = $3 where ccid = $1 and cdid = $2

-- name: remove_entity
-- An entity that is no longer accepted.
delete from mirror.entities where ccid = $1 and cdid = $2

-- name: deletes_after
-- Deletes past one of them, by CDID.
select cdid, owner, source, signed, provisional, only_author from mirror.tombstones
where signed is not null and cdid > $1
order by cdid
limit $2

-- name: limit_deletes
-- Deletes that are worth less than they were: $1 CDIDs, $2 provisional, $3 only for their author.
update mirror.tombstones t set provisional = j.provisional, only_author = j.only_author
from unnest($1::text[], $2::boolean[], $3::boolean[]) as j (cdid, provisional, only_author)
where t.cdid = j.cdid

-- name: remove_deletes
-- Deletes that are no longer accepted.
delete from mirror.tombstones where cdid = any($1::text[])

-- name: forget_removed
-- What these deletes ($1 CDIDs) took may come back.
delete from mirror.retired where deleted_by = any($1::text[])

-- name: records_after
-- Records past a key.
select key, owner, source, cdid, signed from mirror.records where key > $1 order by key limit $2

-- name: judge_records
-- Records judged again: $1 keys, $2 their documents, $3 provisional.
update mirror.records r set provisional = t.provisional
from unnest($1::text[], $2::text[], $3::boolean[]) as t (key, cdid, provisional)
where r.key = t.key and r.cdid = t.cdid and r.provisional <> t.provisional

-- name: remove_records
-- Records that are no longer accepted: $1 keys, $2 their documents, $3 indexed schemas, $4 now.
with gone as (
  delete from mirror.records r
  using unnest($1::text[], $2::text[]) as t (key, cdid)
  where r.key = t.key and r.cdid = t.cdid
  returning r.key, r.schema
)
insert into mirror.projection_queue (key, marked_at, former_schemas)
select key, $4, array[schema] from gone where schema = any($3::text[]) order by key
on conflict (key) do update set
  generation = nextval('mirror.projection_generation'),
  former_schemas = array(
    select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
  )

-- name: forget_replaced
-- What stood under these keys before may come back.
delete from mirror.retired where key = any($1::text[]) and deleted_by is null

-- name: follows_after
-- Follows past one of them.
select acker, ackee, schema, source, cdid, signed from mirror.acks
where (acker, ackee, schema) > ($1, $2, $3) and signed is not null
order by acker, ackee, schema
limit $4

-- name: judge_follows
-- Follows judged again: $1 CDIDs, $2 provisional, of $3 ackers.
update mirror.acks a set provisional = t.provisional
from unnest($1::text[], $2::boolean[], $3::text[]) as t (cdid, provisional, acker)
where a.acker = t.acker and a.cdid = t.cdid and a.provisional <> t.provisional

-- name: keep_as_provisional
-- Follows that stand provisionally now are kept as what their server said.
insert into mirror.provisional_acks (acker, ackee, schema, valid, created_at, cdid, source, signed)
select a.acker, a.ackee, a.schema, a.valid, a.created_at, a.cdid, a.source, a.signed
from mirror.acks a
join unnest($1::text[], $2::text[]) as t (acker, cdid) using (acker, cdid)
where a.provisional
on conflict (acker, ackee, schema, source) do nothing

-- name: remove_follows
-- Follows that are no longer accepted: $1 ackers, $2 CDIDs.
delete from mirror.acks a
using unnest($1::text[], $2::text[]) as t (acker, cdid)
where a.acker = t.acker and a.cdid = t.cdid

-- name: provisional_follows_after
-- What servers said provisionally of follows, past one of them.
select acker, ackee, schema, source, cdid, signed from mirror.provisional_acks
where (acker, ackee, schema, source) > ($1, $2, $3, $4) and signed is not null
order by acker, ackee, schema, source
limit $5

-- name: remove_provisional_follows
-- Those that are provisional no more, or no longer accepted: $1 ackers, $2 CDIDs, $3 sources.
delete from mirror.provisional_acks a
using unnest($1::text[], $2::text[], $3::text[]) as t (acker, cdid, source)
where a.acker = t.acker and a.cdid = t.cdid and a.source = t.source

-- name: rejected_after
-- Dead letters of these reasons ($1) past one of them, oldest first.
select id, domain, digest, commit from mirror.dead_letters
where reason = any($1::text[]) and id > $2
order by id
limit $3

-- name: drop_letters
-- They are accepted now, or wait for a document.
delete from mirror.dead_letters where id = any($1::bigint[])

-- name: read_again
-- What is said of $1 owners is to be read again where $2 people or domains live; once that is known, where it is not.
insert into mirror.set_aside (owner, domain, seen_at, due_at)
select distinct t.owner, coalesce(h.domain, ''), $3::timestamptz, case when h.domain is not null then $3::timestamptz end
from unnest($1::text[], $2::text[]) as t (owner, of)
left join lateral (
  select coalesce(m.new, e.domain) as domain
  from mirror.entities e left join mirror.moves m on m.old = e.domain
  where e.ccid = t.of and e.standing > 0
  union all
  select m.new from mirror.moves m where m.old = t.of
  union all
  select s.domain from mirror.servers s where s.domain = t.of or s.csid = t.of
  limit 1
) as h on true
on conflict (owner, domain) do update set
  due_at = coalesce(set_aside.due_at, excluded.due_at), read_to = null, read_to_ns = null,
  asked = set_aside.asked + 1

-- name: read_set_aside
-- What was set aside of servers that speak for the owner is due ($1 now); how many owners' logs that is.
update mirror.set_aside a set due_at = $1
where due_at is null
  and (
    a.owner = a.domain
    or exists (
      select from mirror.entities e left join mirror.moves m on m.old = e.domain
      where e.ccid = a.owner and coalesce(m.new, e.domain) = a.domain and e.standing > 0
    )
    or exists (select from mirror.moves m where m.old = a.owner and m.new = a.domain)
  )

-- name: logs_to_read
-- How many logs are due to be read again for an owner.
select count(*) from mirror.set_aside where due_at is not null

-- Statements that carry out a planned page.

-- name: sweep_range
-- Remove what stands in a range ($1 <= key < $2; the target $3 itself only when $4), and the references to it.
-- $5 keys of the page (left alone), $6 source, $7 in log order, $8 createdAt and $9 CDID of the delete,
-- $10 indexed schemas, $11 now; $12 provisional: only what is as provisional and of the same source, and no memory
-- of it is kept; $13 only this author's, null: anybody's. What is ahead of its feed goes by createdAt, and without a
-- memory when the delete is in log order: its feed may bring it yet. What stays, being newer, did not live before
-- the delete: a first createdAt of that time is forgotten.
with removed as (
  delete from mirror.records r
  where r.key >= $1 and r.key < $2
    and (r.key >= $3 || '/' or ($4 and r.key = $3))
    and r.key <> all($5::text[])
    and (($7 and r.source = $6 and not r.ahead) or (r.created_at, r.cdid) <= ($8, $9))
    and (not $12 or (r.provisional and r.source = $6))
    and ($13::text is null or r.author = $13)
  returning r.key, r.cdid, r.schema, r.owner, r.provisional, r.ahead
), referring_keys as (
  select r.key, r.href from mirror.records r
  where r.href >= $1 and r.href < $2 and (r.href >= $3 || '/' or ($4 and r.href = $3))
  union
  -- "offset 0" keeps this an index probe for each record: the planner guesses badly how many were removed
  select r.key, r.href from removed d cross join lateral (
    select key, href from mirror.records
    where href = any(array[d.key, 'ccfs://' || d.owner || '/concrnt/' || d.cdid])
    offset 0
  ) as r
), referring as (
  -- by array, so that each key is an index probe whatever the planner guesses
  delete from mirror.records r
  where r.key = any(array(select key from referring_keys))
    and r.href = any(array(select href from referring_keys))
    and r.key <> all($5::text[])
    and (($7 and r.source = $6 and not r.ahead) or (r.created_at, r.cdid) <= ($8, $9))
    and (not $12 or r.source = $6)
    and ($13::text is null or r.author = $13)
  returning r.key, r.cdid, r.schema, r.provisional, r.ahead
), gone as (
  select key, cdid, schema, provisional, ahead from removed
  union
  select key, cdid, schema, provisional, ahead from referring
), restarted as (
  update mirror.records r set first_created_at = r.created_at
  where (
      (r.key >= $1 and r.key < $2 and (r.key >= $3 || '/' or ($4 and r.key = $3)))
      or (
        r.key = any(array(select key from referring_keys)) and r.href = any(array(select href from referring_keys))
      )
    )
    and r.key <> all($5::text[])
    and not ($7 and r.source = $6 and not r.ahead)
    and r.first_created_at <= $8 and (r.created_at, r.cdid) > ($8, $9)
    and not $12
    and ($13::text is null or r.author = $13)
  returning r.key, r.schema
), kept as (
  insert into mirror.retired (key, cdid, deleted_at, deleted_by)
  select key, cdid, $8, $9 from gone where not $12 and not provisional and not (ahead and $7) order by cdid, key
  on conflict do nothing
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $11, array[schema] from (select key, schema from gone union select key, schema from restarted) as m
  where schema = any($10::text[]) order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
)
select count(*) from gone

-- name: sweep_references
-- Remove the references to these hrefs. $1 hrefs, $2 in log order, $3 createdAt and $4 CDID of each one's
-- delete, $5 keys of the page (left alone), $6 source, $7 indexed schemas, $8 now, $9 provisional and $10 only this
-- author's of each one's delete, as in sweep_range.
with gone as (
  delete from mirror.records r
  using unnest($1::text[], $2::boolean[], $3::timestamptz[], $4::text[], $9::boolean[], $10::text[])
    as d (href, in_log_order, created_at, cdid, provisional, only_author)
  where r.href = d.href
    and r.key <> all($5::text[])
    and ((d.in_log_order and r.source = $6 and not r.ahead) or (r.created_at, r.cdid) <= (d.created_at, d.cdid))
    and (not d.provisional or r.source = $6)
    and (d.only_author is null or r.author = d.only_author)
  returning
    r.key, r.cdid, r.schema, d.created_at as deleted_at, d.cdid as deleted_by,
    d.provisional or (r.ahead and d.in_log_order) as forgotten
), restarted as (
  -- as in sweep_range
  update mirror.records r set first_created_at = r.created_at
  from unnest($1::text[], $2::boolean[], $3::timestamptz[], $4::text[], $9::boolean[], $10::text[])
    as d (href, in_log_order, created_at, cdid, provisional, only_author)
  where r.href = d.href
    and r.key <> all($5::text[])
    and not (d.in_log_order and r.source = $6 and not r.ahead)
    and r.first_created_at <= d.created_at and (r.created_at, r.cdid) > (d.created_at, d.cdid)
    and not d.provisional
    and (d.only_author is null or r.author = d.only_author)
  returning r.key, r.schema
), kept as (
  insert into mirror.retired (key, cdid, deleted_at, deleted_by)
  select key, cdid, deleted_at, deleted_by from gone where not forgotten order by cdid, key
  on conflict do nothing
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $8, array[schema] from (select key, schema from gone union select key, schema from restarted) as m
  where schema = any($7::text[]) order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
)
select count(*) from gone

-- name: remove_keys
-- Remove the page's own keys that are absent after it.
delete from mirror.records where key = any($1::text[])

-- name: put_records
-- Put documents under their keys; planning has decided that they win. The condition settles the one case that
-- planning can not see: another writer that puts the same new key at the same time. Then createdAt decides, also
-- where both speak of one source: a feed has one writer at a time, so the other one is not an earlier page of it.
-- $12 are the keys that planning knew, $13 says which documents are provisional, $14 which are ahead of their feed.
insert into mirror.records as r
  (key, owner, author, schema, parent, href, source, cdid, created_at, first_created_at, signed, provisional, ahead)
select * from unnest(
  $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
  $9::timestamptz[], $10::timestamptz[], $11::text[], $13::boolean[], $14::boolean[]
)
on conflict (key) do update set
  owner = excluded.owner, author = excluded.author, schema = excluded.schema, parent = excluded.parent,
  href = excluded.href, source = excluded.source, cdid = excluded.cdid, created_at = excluded.created_at,
  first_created_at = case
    when r.key = any($12::text[]) or (r.provisional and not excluded.provisional) then excluded.first_created_at
    else least(r.first_created_at, excluded.first_created_at)
  end,
  signed = excluded.signed, provisional = excluded.provisional, ahead = excluded.ahead
where r.key = any($12::text[])
  or (r.provisional and not excluded.provisional)
  or (
    r.provisional = excluded.provisional
    and (r.created_at, r.cdid) <= (excluded.created_at, excluded.cdid)
  )

-- name: lower_first_created
-- An older copy, too old to win, tells that the key is older.
update mirror.records r
set first_created_at = least(r.first_created_at, t.created_at)
from unnest($1::text[], $2::timestamptz[]) as t (key, created_at)
where r.key = t.key

-- name: restart_first_created
-- A delete that is older than what stands ended the life before it; what was the first createdAt was of that life.
update mirror.records r
set first_created_at = t.created_at
from unnest($1::text[], $2::timestamptz[]) as t (key, created_at)
where r.key = t.key and r.created_at >= t.created_at

-- name: retire
-- Documents that were replaced or removed.
insert into mirror.retired (key, cdid, deleted_at, deleted_by)
select * from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[])
on conflict do nothing

-- name: keep_tombstones
-- Deletes, kept for good. One that was applied in part only is kept as what it is worth now.
insert into mirror.tombstones as t
  (owner, target, scope, created_at, cdid, author, source, provisional, only_author, signed)
select * from unnest(
  $1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::boolean[],
  $9::boolean[], $10::text[]
)
on conflict (target, scope, created_at, cdid) do update set
  source = excluded.source, provisional = excluded.provisional, only_author = excluded.only_author,
  signed = excluded.signed
where (t.provisional, t.only_author) > (excluded.provisional, excluded.only_author)

-- name: put_acks
-- Follow transitions; only a strictly newer one applies (CIP-10). A provisional one gives way to any other, and
-- takes nobody else's place.
insert into mirror.acks as a (acker, ackee, schema, valid, created_at, cdid, source, provisional, signed)
select * from unnest(
  $1::text[], $2::text[], $3::text[], $4::boolean[], $5::timestamptz[], $6::text[], $7::text[], $8::boolean[],
  $9::text[]
)
on conflict (acker, ackee, schema) do update set
  valid = excluded.valid, created_at = excluded.created_at, cdid = excluded.cdid, source = excluded.source,
  provisional = excluded.provisional, signed = excluded.signed
where (a.provisional and not excluded.provisional)
  or (
    a.provisional = excluded.provisional
    and excluded.created_at > a.created_at
    and (not a.provisional or a.source = excluded.source)
  )

-- name: keep_provisional_acks
-- Provisional follow transitions, the newest of each server.
insert into mirror.provisional_acks as a (acker, ackee, schema, valid, created_at, cdid, source, signed)
select acker, ackee, schema, valid, created_at, cdid, source, signed from unnest(
  $1::text[], $2::text[], $3::text[], $4::boolean[], $5::timestamptz[], $6::text[], $7::text[], $8::boolean[],
  $9::text[]
) as t (acker, ackee, schema, valid, created_at, cdid, source, provisional, signed)
where provisional
on conflict (acker, ackee, schema, source) do update set
  valid = excluded.valid, created_at = excluded.created_at, cdid = excluded.cdid, signed = excluded.signed
where excluded.created_at > a.created_at

-- name: put_entities
-- Where people live; the surer document wins, of equally sure ones the newest. A domain that moved is where it moved to.
insert into mirror.entities as e (ccid, domain, created_at, cdid, source, signed, standing)
select t.ccid, coalesce(m.new, t.domain), t.created_at, t.cdid, t.source, t.signed, t.standing
from unnest(
  $1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::smallint[]
) as t (ccid, domain, created_at, cdid, source, signed, standing)
left join mirror.moves m on m.old = t.domain
on conflict (ccid) do update set
  domain = excluded.domain, created_at = excluded.created_at,
  cdid = excluded.cdid, source = excluded.source, signed = excluded.signed, standing = excluded.standing
where (excluded.standing, excluded.created_at, excluded.cdid) > (e.standing, e.created_at, e.cdid)

-- name: mark_keys
-- Tell the projection which keys changed; the oldest mark keeps its time.
insert into mirror.projection_queue (key, marked_at, former_schemas)
select key, $2, case when former is null then '{}'::text[] else array[former] end
from unnest($1::text[], $3::text[]) as t (key, former)
on conflict (key) do update set
  generation = nextval('mirror.projection_generation'),
  former_schemas = array(
    select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
  )

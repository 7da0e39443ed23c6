-- Statements over what is stored of one owner.

-- name: home_of
-- Which server speaks for an owner ($1), by its name of today: a domain for itself, a person's home; where words
-- are judged ($2) only a home that is more than a claim.
select coalesce(m.new, t.domain) as domain
from (
  select domain from mirror.entities where ccid = $1 and (standing > 0 or not $2::boolean)
  union all
  select $1 where $3::boolean
) as t
left join mirror.moves m on m.old = t.domain

-- name: keys_of
-- The next keys of an owner ($1) after a key ($2), $3 at most, with their documents. No references: they are
-- answered with what they lead to, and go with it.
select key, cdid from mirror.records
where href is null and key > $2 and key >= 'cckv://' || $1 || '/' and key < 'cckv://' || $1 || '0'
order by key
limit $3

-- name: withdraw
-- Documents ($1 keys, $2 CDIDs) that their own server has no more, and the references to them. $3 now.
with gone as (
  delete from mirror.records r
  using unnest($1::text[], $2::text[]) as t (key, cdid)
  where r.key = t.key and r.cdid = t.cdid
  returning r.key, r.schema, r.owner, r.cdid
), hrefs as (
  select array_agg(key) || array_agg('ccfs://' || owner || '/concrnt/' || cdid) as those from gone
), referring as (
  delete from mirror.records r
  using hrefs where r.href = any(hrefs.those) and r.key <> all($1::text[])
  returning r.key, r.schema
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $3, array[schema] from (select key, schema from gone union all select * from referring) as a order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
)
select (select count(*) from gone) as records, (select count(*) from referring) as refs

-- name: forget_follows
-- Whom a person follows, also what servers said of it provisionally; what others do stays.
with gone as (
  delete from mirror.acks where acker = $1 returning 1
), unsaid as (
  delete from mirror.provisional_acks where acker = $1
)
select count(*) as follows from gone

-- Statements about who may say what: facts for judging a page, and what is still to be found out.

-- name: homes
-- What is known of where these people live.
select ccid, domain, standing, created_at, cdid
from mirror.entities
where ccid = any($1::text[])

-- name: own_csid
-- The server key that a server alone claims: one that two servers claim is nobody's.
select csid from mirror.servers s
where domain = $1 and csid <> ''
  and not exists (select from mirror.servers o where o.csid = s.csid and o.domain <> s.domain)

-- name: documents_by_key
-- The signed documents that stand under these keys.
select key, signed from mirror.records where key = any($1::text[])

-- name: documents_by_cdid
-- The signed documents with these CDIDs.
select owner, cdid, signed from mirror.records where cdid = any($1::text[])

-- name: open_owners
-- Those of these people of whom something is provisional, asked or set aside: of most there is nothing.
select owner from unnest($1::text[]) as t (owner)
where exists (select from mirror.unresolved u where u.owner = t.owner)
  or exists (select from mirror.set_aside a where a.owner = t.owner)
  or exists (select from mirror.records r where r.owner = t.owner and r.provisional)
  or exists (select from mirror.provisional_acks a where a.acker = t.owner)
  or exists (select from mirror.tombstones d where d.owner = t.owner and d.provisional)

-- name: settle_records
-- $1 people and $2 their servers, now known. What their own servers said of them is provisional no more; what other
-- servers said without a proof is withdrawn. $3 indexed schemas, $4 now. Returns what was withdrawn, by source.
with settled as (
  select * from unnest($1::text[], $2::text[]) as t (owner, domain)
), confirmed as (
  update mirror.records r set provisional = false
  from settled s
  where r.owner = s.owner and r.provisional and r.source = s.domain
), withdrawn as (
  delete from mirror.records r
  using settled s
  where r.owner = s.owner and r.provisional and r.source <> s.domain
  returning r.key, r.schema, r.source
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $4, array[schema] from withdrawn where schema = any($3::text[]) order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
)
select source, count(*)::integer as count from withdrawn group by source

-- name: settle_acks
-- The same for follows: those that stand provisionally go ...
with settled as (
  select * from unnest($1::text[], $2::text[]) as t (owner, domain)
), gone as (
  delete from mirror.acks a using settled s where a.acker = s.owner and a.provisional
), withdrawn as (
  delete from mirror.provisional_acks a
  using settled s
  where a.acker = s.owner and a.source <> s.domain
  returning a.source
)
select source, count(*)::integer as count from withdrawn group by source

-- name: confirm_acks
-- ... and what the right server said counts.
with settled as (
  select * from unnest($1::text[], $2::text[]) as t (owner, domain)
), confirmed as (
  delete from mirror.provisional_acks a
  using settled s
  where a.acker = s.owner and a.source = s.domain
  returning a.*
)
insert into mirror.acks as a (acker, ackee, schema, valid, created_at, cdid, source)
select acker, ackee, schema, valid, created_at, cdid, source from confirmed
on conflict (acker, ackee, schema) do update set
  valid = excluded.valid, created_at = excluded.created_at, cdid = excluded.cdid, source = excluded.source
where excluded.created_at > a.created_at

-- name: settle_tombstones
-- The same for deletes. Those of the right server stay provisional: they were applied in part, and reading them
-- again applies them in full.
with settled as (
  select * from unnest($1::text[], $2::text[]) as t (owner, domain)
), withdrawn as (
  delete from mirror.tombstones t
  using settled s
  where t.owner = s.owner and t.provisional and t.source <> s.domain
  returning t.source
)
select source, count(*)::integer as count from withdrawn group by source

-- name: settle_questions
-- Nobody needs to be asked about these people any more; what their own servers said and was set aside is due.
with settled as (
  select * from unnest($1::text[], $2::text[]) as t (owner, domain)
), answered as (
  delete from mirror.unresolved u using settled s where u.owner = s.owner
)
update mirror.set_aside a set due_at = $3
from settled s
where a.owner = s.owner and a.domain = s.domain and a.due_at is null

-- name: count_rejected_later
-- What was withdrawn, or rejected later than its page, counts as rejected.
insert into mirror.rejected_later (domain, number) select * from unnest($1::text[], $2::integer[])

-- name: ask_about
-- Owners to be looked up, unless their home is surely known. $2 the feed that brought them, $3 now.
insert into mirror.unresolved (owner, domain, met_at, ask_at)
select owner, $2, $3, $3 from unnest($1::text[]) as t (owner)
where not exists (select from mirror.entities e where e.ccid = t.owner and e.standing > 0)
on conflict (owner) do nothing

-- name: set_aside
-- Owners of whom a server said what was not wholly accepted.
insert into mirror.set_aside (owner, domain, seen_at)
select owner, $2, $3 from unnest($1::text[]) as t (owner)
on conflict (owner, domain) do nothing

-- name: trim_set_aside
-- Keep the newest $2 of a server.
delete from mirror.set_aside
where domain = $1 and due_at is null and seen_at < (
  select seen_at from mirror.set_aside where domain = $1 order by seen_at desc offset $2 limit 1
)

-- name: keep_waiting
-- Commits whose proof leans on a document that is not here yet.
insert into mirror.waiting (domain, digest, href, is_enactment, commit, seen_at)
select $1, digest, href, is_enactment, commit, $6
from unnest($2::bytea[], $3::text[], $4::boolean[], $5::text[]) as t (digest, href, is_enactment, commit)
on conflict (domain, digest) do nothing

-- name: trim_waiting
-- Keep the newest $2 of a server.
delete from mirror.waiting
where domain = $1 and seen_at < (
  select seen_at from mirror.waiting where domain = $1 order by seen_at desc offset $2 limit 1
)

-- name: owners_to_ask
-- People whose time to be looked up has come, the first met first; at most $2 of each feed, $3 in all. Feeds that
-- have used up their share ($4) are left out.
select owner, domain from (
  select owner, domain, ask_at, row_number() over (partition by domain order by ask_at, owner) as place
  from mirror.unresolved
  where ask_at <= $1 and domain <> all($4::text[])
) as due
where place <= $2
order by ask_at, owner
limit $3

-- name: ask_again_at
-- Nothing was learnt about this person: ask again then.
update mirror.unresolved set ask_at = $2 where owner = $1

-- name: due_again
-- What servers said of their own residents and is due to be read again.
select owner, domain from mirror.set_aside where due_at <= $1 order by due_at, owner limit $2

-- name: put_off
-- The server did not answer: try again then.
update mirror.set_aside set due_at = $3 where owner = $1 and domain = $2

-- name: was_read_again
-- It was.
delete from mirror.set_aside where owner = $1 and domain = $2

-- name: no_longer_waiting
-- Take commits whose document has come, or was asked for ($2).
delete from mirror.waiting w
where (w.domain, w.digest) in (
  select o.domain, o.digest from mirror.waiting o
  where o.href = any($2::text[])
    or exists (select from mirror.records r where r.key = o.href and o.href like 'cckv:%')
    or exists (
      select from mirror.records r
      where r.cdid = substr(o.href, length(o.href) - 25) and o.href like 'ccfs:%'
    )
  order by o.seen_at
  limit $1
)
returning domain, commit

-- name: enactments_to_fetch
-- Enactments that commits wait for, which feed brought those, and where their owner lives: at most $1 of each feed,
-- $2 in all. Feeds that have used up their share ($3) are left out.
select href, domain, home from (
  select w.href, min(w.domain) as domain, min(e.domain) as home,
    row_number() over (partition by min(w.domain) order by min(w.seen_at), w.href) as place
  from mirror.waiting w
  join mirror.entities e on e.ccid = split_part(w.href, '/', 3) and e.standing > 0
  where w.is_enactment and w.domain <> all($3::text[])
  group by w.href
) as due
where place <= $1
order by place, href
limit $2

-- name: forget_waiting
-- Commits that have waited too long.
delete from mirror.waiting where seen_at < $1

-- name: entities_after
-- Entities in order, for checking them again.
select ccid, source, cdid, signed, standing from mirror.entities where ccid > $1 order by ccid limit $2

-- name: records_after
-- Records in order, for judging them again.
select key, owner, source, cdid, signed from mirror.records where key > $1 order by key limit $2

-- name: judge_records
-- Records judged again: $1 keys, $2 their documents, $3 provisional.
update mirror.records r set provisional = t.provisional
from unnest($1::text[], $2::text[], $3::boolean[]) as t (key, cdid, provisional)
where r.key = t.key and r.cdid = t.cdid and r.provisional <> t.provisional

-- name: remove_judged
-- Records that are no longer accepted: $1 keys, $2 their documents, $3 indexed schemas, $4 now.
with gone as (
  delete from mirror.records r
  using unnest($1::text[], $2::text[]) as t (key, cdid)
  where r.key = t.key and r.cdid = t.cdid
  returning r.key, r.schema
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $4, array[schema] from gone where schema = any($3::text[]) order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
)
select count(*) from gone

-- name: judge_entity
-- An entity judged again.
update mirror.entities set standing = $3 where ccid = $1 and cdid = $2

-- name: remove_entity
-- An entity that is no longer accepted.
delete from mirror.entities where ccid = $1 and cdid = $2

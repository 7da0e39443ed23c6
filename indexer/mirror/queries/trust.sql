-- Statements about who may say what: facts for judging a page, and what is still to be found out.

-- name: facts
-- All that judging a page of $5 has to know, in one answer, for owners are locked meanwhile: where these people ($1)
-- live (a page that was under way during a move may have stored the old name); of whom of those it tells of ($2)
-- something is to be asked or set aside (of most nothing; what is provisional never stands without a question about its
-- owner); which domains ($3) have moved; with $4 the server key that $5 alone claims: one that two claim is nobody's;
-- and the signed documents that stand under the keys $6 or have the CDIDs $7.
select 'home' as what, e.ccid as name, coalesce(m.new, e.domain) as value, e.standing, e.created_at, e.cdid
from mirror.entities e left join mirror.moves m on m.old = e.domain
where e.ccid = any($1::text[])
union all
select 'open', owner, null, null, null, null from mirror.unresolved where owner = any($2::text[])
union all
select 'open', owner, null, null, null, null from mirror.set_aside where owner = any($2::text[])
union all
select 'moved', old, new, null, null, null from mirror.moves where old = any($3::text[])
union all
select 'csid', domain, csid, null, null, null from mirror.servers s
where $4::boolean and domain = $5 and csid <> ''
  and not exists (select from mirror.servers o where o.csid = s.csid and o.domain <> s.domain)
union all
select 'document', key, signed, null, null, null from mirror.records where key = any($6::text[])
union all
select 'document', cdid, signed, null, null, null from mirror.records where cdid = any($7::text[])

-- name: documents
-- The signed documents that stand under these keys ($1), and those with these CDIDs ($2).
select key as name, signed from mirror.records where key = any($1::text[])
union all
select cdid, signed from mirror.records where cdid = any($2::text[])

-- name: settle
-- $1 people and $2 their servers, now known. What their own servers said of them is provisional no more; what other
-- servers said without a proof is withdrawn. $3 indexed schemas, $4 now. Returns what was withdrawn, by source;
-- with the documents of $5 of it at most. What waits to be proven is not told of: it is judged when it waits no longer.
-- Also whether there are follows to confirm.
-- Deletes of the right server stay provisional: they were applied in part, and reading them again applies them in full.
-- Nobody needs to be asked about these people any more; what their own servers said and was set aside is due. What was
-- set aside of no domain is to be read wherever they live.
with settled as materialized (
  select * from unnest($1::text[], $2::text[]) as t (owner, domain)
), confirmed as (
  update mirror.records r set provisional = false
  from settled s
  where r.owner = s.owner and r.provisional and r.source = s.domain
), records as (
  delete from mirror.records r
  using settled s
  where r.owner = s.owner and r.provisional and r.source <> s.domain
  returning r.key, r.schema, r.source, r.signed
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $4, array[schema] from records where schema = any($3::text[]) order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
), standing_acks as (
  delete from mirror.acks a using settled s where a.acker = s.owner and a.provisional
), acks as (
  delete from mirror.provisional_acks a
  using settled s
  where a.acker = s.owner and a.source <> s.domain
  returning a.source, a.signed
), tombstones as (
  delete from mirror.tombstones t
  using settled s
  where t.owner = s.owner and t.provisional and t.source <> s.domain
  returning t.source, t.signed
), answered as (
  delete from mirror.unresolved u using settled s where u.owner = s.owner
), anywhere as (
  delete from mirror.set_aside a using settled s where a.owner = s.owner and a.domain = ''
  returning s.owner, s.domain
), owed as (
  select owner, domain from anywhere
  union
  select owner, domain from mirror.set_aside join settled using (owner, domain) where due_at is null
), due as (
  insert into mirror.set_aside (owner, domain, seen_at, due_at)
  select owner, domain, $4, $4 from owed
  on conflict (owner, domain) do update set due_at = excluded.due_at
), withdrawn as (
  select 'commit' as kind, source, signed from records
  union all
  select 'ack', source, signed from acks
  union all
  select 'delete', source, signed from tombstones
)
select w.kind, w.source, count(*)::integer as count, (array_agg(w.signed))[:$5] as signed
from withdrawn w
where not exists (
  select from mirror.waiting o where o.domain = w.source and o.digest = sha256(convert_to(w.signed, 'UTF8'))
)
group by w.kind, w.source
union all
select 'to confirm', null, count(*)::integer, null
from mirror.provisional_acks a join settled s on a.acker = s.owner and a.source = s.domain
having count(*) > 0

-- name: confirm_acks
-- What the right servers ($2) of people ($1) said of their follows counts.
with settled as (
  select * from unnest($1::text[], $2::text[]) as t (owner, domain)
), confirmed as (
  delete from mirror.provisional_acks a
  using settled s
  where a.acker = s.owner and a.source = s.domain
  returning a.*
)
insert into mirror.acks as a (acker, ackee, schema, valid, created_at, cdid, source, signed)
select acker, ackee, schema, valid, created_at, cdid, source, signed from confirmed
on conflict (acker, ackee, schema) do update set
  valid = excluded.valid, created_at = excluded.created_at, cdid = excluded.cdid, source = excluded.source,
  signed = excluded.signed
where excluded.created_at > a.created_at

-- name: note_left_homes
-- Where people ($1) lived ($2) until $3; of several leavings the earliest.
insert into mirror.left_homes as l (owner, domain, since)
select owner, domain, min(since) from unnest($1::text[], $2::text[], $3::timestamptz[]) as t (owner, domain, since)
group by owner, domain
on conflict (owner, domain) do update set since = least(l.since, excluded.since)

-- name: next_left_home
-- One of them.
select owner, domain, since from mirror.left_homes order by owner, domain limit 1

-- name: forget_left_home
-- What was said there from $3 on was judged again.
delete from mirror.left_homes where owner = $1 and domain = $2 and since = $3

-- name: count_rejected_later
-- What was withdrawn, or rejected later than its page, counts as rejected.
insert into mirror.rejected_later (domain, number) select * from unnest($1::text[], $2::integer[])

-- name: ask_about
-- Owners to be looked up, unless their home is surely known. $2 the feed that brought them, $3 now. One whom nobody
-- knew when another feed brought them is not asked about sooner for this one.
insert into mirror.unresolved (owner, domain, met_at, ask_at)
select owner, $2, $3, coalesce((select max(u.ask_at) from mirror.unresolved u where u.owner = t.owner), $3)
from unnest($1::text[]) as t (owner)
where not exists (select from mirror.entities e where e.ccid = t.owner and e.standing > 0)
on conflict (owner, domain) do nothing

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

-- name: lock_look_ups
-- Whoever counts look-ups waits for those who do so already.
lock table mirror.look_ups in share row exclusive mode

-- name: take_owners_to_ask
-- People whose time to be looked up has come ($1 now), feeds in turn, the first met of each first: at most $2 in
-- all, and of each feed what is left of its $3 look-ups in an hour. They are counted here, before anybody is asked.
with waiting as (
  select owner, domain, ask_at, row_number() over (partition by domain order by ask_at, owner) as place
  from mirror.unresolved
  where ask_at <= $1
), affordable as (
  -- a person whom several feeds brought is asked about once
  select distinct on (w.owner) w.owner, w.domain, w.place, w.ask_at
  from waiting w
  left join mirror.look_ups l
    on l.domain = w.domain and l.subject = 'person' and l.since > $1::timestamptz - interval '1 hour'
  where w.place <= $3 - coalesce(l.number, 0)
  order by w.owner, w.place, w.domain
), due as (
  select owner, domain, place, ask_at from affordable
  order by place, ask_at, owner
  limit $2
), counted as (
  insert into mirror.look_ups as l (domain, subject, since, number)
  select domain, 'person', $1, count(*) from due group by domain order by domain
  on conflict (domain, subject) do update set
    since = case when l.since > $1::timestamptz - interval '1 hour' then l.since else $1 end,
    number = excluded.number + case when l.since > $1::timestamptz - interval '1 hour' then l.number else 0 end
)
select owner, domain from due order by place, ask_at, owner

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
-- Take commits whose document has come, or was asked for ($2), or which have waited since $3.
delete from mirror.waiting w
where (w.domain, w.digest) in (
  select o.domain, o.digest from mirror.waiting o
  where o.href = any($2::text[])
    or o.seen_at < $3
    or exists (select from mirror.records r where r.key = o.href and o.href like 'cckv:%')
    or exists (
      select from mirror.records r
      where r.cdid = substr(o.href, length(o.href) - 25) and o.href like 'ccfs:%'
    )
  order by o.seen_at
  limit $1
)
returning domain, digest, href, commit, seen_at < $3 as is_over

-- name: wait_no_more
-- Commits of a server that are not judged again.
delete from mirror.waiting where domain = $1 and digest = any($2::bytea[])

-- name: take_enactments_to_fetch
-- Enactments that commits wait for, which feed brought those, and where their owner lives; $1 to $3 as for people.
with waiting as (
  select w.href, min(w.domain) as domain, min(e.domain) as home,
    row_number() over (partition by min(w.domain) order by min(w.seen_at), w.href) as place
  from mirror.waiting w
  join mirror.entities e on e.ccid = split_part(w.href, '/', 3) and e.standing > 0
  where w.is_enactment
  group by w.href
), due as (
  select w.href, w.domain, w.home, w.place
  from waiting w
  left join mirror.look_ups l
    on l.domain = w.domain and l.subject = 'subkey' and l.since > $1::timestamptz - interval '1 hour'
  where w.place <= $3 - coalesce(l.number, 0)
  order by w.place, w.href
  limit $2
), counted as (
  insert into mirror.look_ups as l (domain, subject, since, number)
  select domain, 'subkey', $1, count(*) from due group by domain order by domain
  on conflict (domain, subject) do update set
    since = case when l.since > $1::timestamptz - interval '1 hour' then l.since else $1 end,
    number = excluded.number + case when l.since > $1::timestamptz - interval '1 hour' then l.number else 0 end
)
select href, domain, home from due order by place, href

-- name: forget_look_ups
-- Hours that are over count no more.
delete from mirror.look_ups where since <= $1::timestamptz - interval '1 hour'

-- name: sum_up_rejected_later
-- One row a server again.
with gone as (
  delete from mirror.rejected_later
  where domain in (select domain from mirror.rejected_later group by domain having count(*) > 100)
  returning domain, number
)
insert into mirror.rejected_later (domain, number) select domain, sum(number) from gone group by domain

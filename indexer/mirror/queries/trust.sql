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
-- set aside of no domain is to be read wherever they live; enactments of theirs are asked for now.
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
  returning r.key, r.owner, r.schema, r.source, r.signed
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
  returning a.acker as owner, a.source, a.signed
), tombstones as (
  delete from mirror.tombstones t
  using settled s
  where t.owner = s.owner and t.provisional and t.source <> s.domain
  returning t.owner, t.source, t.signed
), answered as (
  delete from mirror.unresolved u using settled s where u.owner = s.owner
), woken as (
  update mirror.waiting w set ask_at = $4
  from settled s
  where w.href >= 'cckv://' || s.owner || '/' and w.href < 'cckv://' || s.owner || '0'
    and w.is_enactment and w.ask_at > $4
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
  on conflict (owner, domain) do update set
    due_at = excluded.due_at, read_to = null, read_to_ns = null, asked = set_aside.asked + 1
), withdrawn as (
  select 'commit' as kind, owner, source, signed from records
  union all
  select 'ack', owner, source, signed from acks
  union all
  select 'delete', owner, source, signed from tombstones
), kept as (
  -- should they turn out to live there after all
  insert into mirror.set_aside (owner, domain, seen_at)
  select distinct owner, source, $4::timestamptz from withdrawn
  on conflict (owner, domain) do nothing
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
-- Where people ($1) lived ($2), of servers that are followed and left a trace of them, or may do so with the page that
-- tells it ($3 its server): without one there is nothing to take out.
insert into mirror.left_homes (owner, domain)
select distinct t.owner, t.domain
from unnest($1::text[], $2::text[]) as t (owner, domain)
where exists (select from mirror.servers s where s.domain = t.domain)
  and (
    t.domain = $3
    or exists (
      select from mirror.records r
      where r.key >= 'cckv://' || t.owner || '/' and r.key < 'cckv://' || t.owner || '0' and r.source = t.domain
    )
    or exists (
      select from mirror.retired r where r.key >= 'cckv://' || t.owner || '/' and r.key < 'cckv://' || t.owner || '0'
    )
    or exists (select from mirror.tombstones s where s.owner = t.owner and s.source = t.domain)
    or exists (select from mirror.acks a where a.acker = t.owner and a.source = t.domain)
  )
on conflict (owner, domain) do update set generation = excluded.generation

-- name: count_rejected_later
-- What was withdrawn, or rejected later than its page, counts as rejected.
insert into mirror.rejected_later (domain, number) select * from unnest($1::text[], $2::integer[])

-- name: ask_about
-- Owners to be looked up, unless their home is surely known. $2 the feed that brought them, $3 now. One whom nobody
-- knew when another feed brought them is not asked about sooner for this one.
insert into mirror.unresolved (owner, domain, met_at, ask_at, unknown_at)
select t.owner, $2, $3, coalesce(o.ask_at, $3), o.unknown_at
from unnest($1::text[]) as t (owner)
cross join lateral (
  select max(ask_at) as ask_at, max(unknown_at) as unknown_at from mirror.unresolved u where u.owner = t.owner
) as o
where not exists (select from mirror.entities e where e.ccid = t.owner and e.standing > 0)
on conflict (owner, domain) do nothing

-- name: questions_beyond
-- Of the people that a feed ($1) brought, $3 beyond the $2 that are kept: first go those of whom the seed knew nothing,
-- longest ago, then those met longest ago.
select owner from mirror.unresolved
where domain = $1
order by domain desc, unknown_at desc, met_at desc, owner desc
offset $2 limit $3

-- name: lock_if_free
-- Which of these owners' locks ($1) could be had, exclusively, without waiting for anybody.
select number from unnest($1::bigint[]) as locks (number) where pg_try_advisory_xact_lock(number)

-- name: drop_questions_of
-- These people ($2) are to be looked up no more for this feed ($1): what stands of them by its word alone is withdrawn,
-- and set aside until they turn out to live there. What it said of their follows is kept as long, and does not stand: a
-- log that is read again for a person tells of none. $3 indexed schemas, $4 now. Returns what was withdrawn as `settle`
-- does, with the documents of $5 of it at most.
with dropped as materialized (
  delete from mirror.unresolved where domain = $1 and owner = any($2::text[]) returning owner
), records as (
  delete from mirror.records r
  using dropped d
  where r.owner = d.owner and r.provisional and r.source = $1
  returning r.key, r.schema, r.owner, r.signed
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $4, array[schema] from records where schema = any($3::text[]) order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
), acks as (
  delete from mirror.acks a
  using dropped d
  where a.acker = d.owner and a.provisional and a.source = $1
  returning a.acker as owner, a.signed
), tombstones as (
  delete from mirror.tombstones t
  using dropped d
  where t.owner = d.owner and t.provisional and t.source = $1
  returning t.owner, t.signed
), withdrawn as (
  select 'commit' as kind, owner, signed from records
  union all
  select 'ack', owner, signed from acks
  union all
  select 'delete', owner, signed from tombstones
), aside as (
  insert into mirror.set_aside (owner, domain, seen_at)
  select owner, $1, $4::timestamptz from withdrawn
  union
  select d.owner, $1, $4 from dropped d join mirror.provisional_acks a on a.acker = d.owner and a.source = $1
  on conflict (owner, domain) do nothing
)
select w.kind, count(*)::integer as count, (array_agg(w.signed))[:$5] as signed
from withdrawn w
where not exists (
  select from mirror.waiting o where o.domain = $1 and o.digest = sha256(convert_to(w.signed, 'UTF8'))
)
group by w.kind

-- name: stand_in_follows
-- Where nothing is said of a follow of these people ($1) any more, the provisional word of another feed stands for which
-- they are to be looked up.
insert into mirror.acks (acker, ackee, schema, valid, created_at, cdid, source, provisional, signed)
select distinct on (acker, ackee, schema) acker, ackee, schema, valid, created_at, cdid, source, true, signed
from mirror.provisional_acks a
where acker = any($1::text[])
  and exists (select from mirror.unresolved u where u.owner = a.acker and u.domain = a.source)
order by acker, ackee, schema, created_at desc, source
on conflict (acker, ackee, schema) do nothing

-- name: set_aside
-- Owners of whom a server said what was not wholly accepted.
insert into mirror.set_aside (owner, domain, seen_at)
select owner, $2, $3 from unnest($1::text[]) as t (owner)
on conflict (owner, domain) do nothing

-- name: trim_set_aside
-- Keep the newest $2 of a server. What it said of the follows of the others goes too, unless they are to be looked up.
with gone as (
  delete from mirror.set_aside
  where domain = $1 and due_at is null and seen_at < (
    select seen_at from mirror.set_aside where domain = $1 order by seen_at desc offset $2 limit 1
  )
  returning owner
)
delete from mirror.provisional_acks a
using gone g
where a.acker = g.owner and a.source = $1
  and not exists (select from mirror.unresolved u where u.owner = g.owner and u.domain = $1)

-- name: keep_waiting
-- Commits whose proof leans on a document that is not here yet; an enactment is asked for at once.
insert into mirror.waiting (domain, digest, href, is_enactment, commit, accepted, seen_at, ask_at)
select $1, digest, href, is_enactment, commit, accepted, $7, case when is_enactment then $7::timestamptz end
from unnest($2::bytea[], $3::text[], $4::boolean[], $5::text[], $6::boolean[])
  as t (digest, href, is_enactment, commit, accepted)
on conflict (domain, digest) do nothing

-- name: trim_waiting
-- Keep the newest $2 of a server; returns those that go and do not stand provisionally.
with gone as (
  delete from mirror.waiting
  where domain = $1 and digest in (
    select digest from mirror.waiting where domain = $1 order by seen_at desc, digest offset $2
  )
  returning commit, accepted
)
select commit from gone where not accepted

-- name: lock_look_ups
-- Whoever counts look-ups waits for those who do so already.
lock table mirror.look_ups in share row exclusive mode

-- name: take_owners_to_ask
-- People whose time to be looked up has come ($1 now), feeds in turn, the first met of each first: at most $2 in
-- all, and of each feed what is left of its $3 look-ups in an hour. They are counted here, before anybody is asked, and
-- asked again in a quarter of an hour should no answer be stored. The index leads from feed to feed and to the first
-- of each: what else is open costs nothing.
with recursive asking as (
  (select domain from mirror.unresolved order by domain limit 1)
  union all
  select following.domain from asking a cross join lateral (
    select domain from mirror.unresolved where domain > a.domain order by domain limit 1
  ) as following
), affordable as (
  -- a person whom several feeds brought is asked about once
  select distinct on (w.owner) w.owner, a.domain, w.place, w.ask_at
  from asking a
  left join mirror.look_ups l
    on l.domain = a.domain and l.subject = 'person' and l.since > $1::timestamptz - interval '1 hour'
  cross join lateral (
    select owner, ask_at, row_number() over (order by ask_at, owner) as place
    from (
      select u.owner, u.ask_at from mirror.unresolved u
      where u.domain = a.domain and u.ask_at <= $1
      order by u.ask_at, u.owner
      limit least($2::bigint, greatest(0, $3::bigint - coalesce(l.number, 0)))
    ) as first
  ) as w
  order by w.owner, w.place, a.domain
), due as (
  select owner, domain, place, ask_at from affordable
  order by place, ask_at, owner
  limit $2::bigint
), counted as (
  insert into mirror.look_ups as l (domain, subject, since, number)
  select domain, 'person', $1, count(*) from due group by domain order by domain
  on conflict (domain, subject) do update set
    since = case when l.since > $1::timestamptz - interval '1 hour' then l.since else $1 end,
    number = excluded.number + case when l.since > $1::timestamptz - interval '1 hour' then l.number else 0 end
), taken as (
  update mirror.unresolved u set ask_at = $1::timestamptz + interval '15 minutes' from due where u.owner = due.owner
)
select owner, domain from due order by place, ask_at, owner

-- name: ask_again_at
-- Nothing was learnt about this person: ask again then. $3 when the seed knew nothing of them, if it answered.
update mirror.unresolved set ask_at = $2, unknown_at = coalesce($3, unknown_at) where owner = $1

-- name: servers_to_read
-- Servers past $1, by name, of which a log is due ($2 now) and that have pages left of their $4 in an hour; $3 at most,
-- without $5. The index leads from server to server: what is due later, or to the same server, costs nothing.
with recursive owing as (
  (select domain from mirror.set_aside where due_at is not null and domain > $1 order by domain limit 1)
  union all
  select following.domain from owing o cross join lateral (
    select domain from mirror.set_aside where due_at is not null and domain > o.domain order by domain limit 1
  ) as following
)
select o.domain
from owing o
left join mirror.look_ups l
  on l.domain = o.domain and l.subject = 'page' and l.since > $2::timestamptz - interval '1 hour'
where coalesce(l.number, 0) < $4
  and o.domain <> all($5::text[])
  and exists (select from mirror.set_aside a where a.domain = o.domain and a.due_at <= $2)
order by o.domain
limit $3

-- name: take_page
-- The log of a server ($1) that is due first ($2 now); a page of it counts among the $3 of the hour.
with log as (
  select owner, domain, read_to, read_to_ns, asked from mirror.set_aside
  where domain = $1 and due_at <= $2
  order by due_at, owner
  limit 1
), counted as (
  insert into mirror.look_ups as l (domain, subject, since, number)
  select domain, 'page', $2, 1 from log
  on conflict (domain, subject) do update set
    since = case when l.since > $2::timestamptz - interval '1 hour' then l.since else $2 end,
    number = 1 + case when l.since > $2::timestamptz - interval '1 hour' then l.number else 0 end
  where l.number < $3 or l.since <= $2::timestamptz - interval '1 hour'
  returning domain
)
select log.owner, log.domain, log.read_to, log.read_to_ns, log.asked from log join counted using (domain)

-- name: read_to
-- A log was read to $4, which is $5 nanoseconds, and not said to be read from its start since it was asked for ($3).
update mirror.set_aside set read_to = $4, read_to_ns = $5 where owner = $1 and domain = $2 and asked = $3

-- name: put_off
-- A log is due then.
update mirror.set_aside set due_at = $3 where owner = $1 and domain = $2

-- name: was_read_again
-- A log was read to its end, and not said to be read from its start since it was asked for ($3).
delete from mirror.set_aside where owner = $1 and domain = $2 and asked = $3

-- name: no_longer_waiting
-- Take commits whose document has come, or was asked for ($2), or which have waited since $3 (not those that wait for a
-- server that is away). Whether a document has come is looked up for 200 of each server, from a digest ($4) that is
-- another each time: who has many waiting waits longer, and nobody else does.
with recursive owing as (
  (select domain from mirror.waiting order by domain limit 1)
  union all
  select following.domain from owing o cross join lateral (
    select domain from mirror.waiting where domain > o.domain order by domain limit 1
  ) as following
), looked_at as (
  select w.domain, w.digest, w.href
  from owing o cross join lateral (
    (select domain, digest, href from mirror.waiting
      where domain = o.domain and digest >= $4::bytea order by digest limit 200)
    union all
    (select domain, digest, href from mirror.waiting
      where domain = o.domain and digest < $4::bytea order by digest limit 200)
    limit 200
  ) as w
), ended as (
  (select domain, digest from mirror.waiting where href = any($2::text[]) limit $1::bigint)
  union
  (select domain, digest from mirror.waiting
    where seen_at < $3 and tries = 0 order by seen_at limit $1::bigint)
  union
  select l.domain, l.digest from looked_at l
  where exists (select from mirror.records r where r.key = l.href and l.href like 'cckv:%')
    or exists (
      select from mirror.records r
      where r.cdid = substr(l.href, length(l.href) - 25) and l.href like 'ccfs:%'
    )
)
delete from mirror.waiting
where (domain, digest) in (select domain, digest from ended limit $1::bigint)
returning domain, digest, href, commit, seen_at < $3 and tries = 0 as is_over

-- name: wait_no_more
-- Commits of a server that are not judged again.
delete from mirror.waiting where domain = $1 and digest = any($2::bytea[])

-- name: take_enactments_to_fetch
-- Enactments that commits wait for, which feed brought those, and where their owner lives; $1 to $3 as for people.
-- Where nobody knows that, it is looked up again in a quarter of an hour, or as soon as it is settled.
with recursive owing as (
  (select domain from mirror.waiting where is_enactment order by domain limit 1)
  union all
  select following.domain from owing o cross join lateral (
    select domain from mirror.waiting where is_enactment and domain > o.domain order by domain limit 1
  ) as following
), first as (
  select distinct on (w.href) w.href, o.domain, w.place, coalesce(m.new, e.domain) as home
  from owing o
  left join mirror.look_ups l
    on l.domain = o.domain and l.subject = 'subkey' and l.since > $1::timestamptz - interval '1 hour'
  cross join lateral (
    select href, row_number() over (order by ask_at, href) as place
    from (
      select href, ask_at from mirror.waiting
      where domain = o.domain and is_enactment and ask_at <= $1
      order by ask_at, href
      limit greatest(0, $3::bigint - coalesce(l.number, 0))
    ) as theirs
  ) as w
  left join mirror.entities e on e.ccid = split_part(w.href, '/', 3) and e.standing > 0
  left join mirror.moves m on m.old = e.domain
  order by w.href, w.place, o.domain
), due as (
  select href, domain, home, place from first where home is not null order by place, href limit $2::bigint
), counted as (
  insert into mirror.look_ups as l (domain, subject, since, number)
  select domain, 'subkey', $1, count(*) from due group by domain order by domain
  on conflict (domain, subject) do update set
    since = case when l.since > $1::timestamptz - interval '1 hour' then l.since else $1 end,
    number = excluded.number + case when l.since > $1::timestamptz - interval '1 hour' then l.number else 0 end
), taken as (
  update mirror.waiting w
  set ask_at = $1::timestamptz + interval '15 minutes'
  from (select href from due union all select href from first where home is null) as t
  where w.href = t.href and w.is_enactment
)
select href, domain, home from due order by place, href

-- name: ask_for_enactment_again
-- Where its owner lives did not answer about an enactment ($1) at $2: asked again after a minute, two, four, an hour at
-- most. Nothing is given up for that.
update mirror.waiting set
  ask_at = $2::timestamptz + least(interval '1 minute' * power(2, tries), interval '1 hour'),
  tries = least(tries + 1, 10)
where href = $1 and is_enactment

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

-- Statements that read what planning a page needs to know.

-- name: lock_owners
-- Advisory locks of the owners that a page concerns, exclusive ($2) for those whose keys it deletes; the numbers
-- come sorted.
select count(
  case when exclusive then pg_advisory_xact_lock(number) else pg_advisory_xact_lock_shared(number) end
)
from unnest($1::bigint[], $2::boolean[]) as locks (number, exclusive)

-- name: heads_by_key
-- The documents that stand under these keys, held until the end of the transaction.
select key, owner, author, schema, href, source, cdid, created_at, first_created_at, provisional, ahead
from mirror.records
where key = any($1::text[])
order by key
for update

-- name: heads_by_document
-- The records that hold these documents, by owner and CDID.
select
  r.key, r.owner, r.author, r.schema, r.href, r.source, r.cdid, r.created_at, r.first_created_at, r.provisional,
  r.ahead
from unnest($1::text[], $2::text[]) as asked (owner, cdid)
join mirror.records r on r.cdid = asked.cdid and r.owner = asked.owner
order by r.key
for update of r

-- name: retired_documents
-- Which of these documents were replaced or removed before, and by which delete.
select
  r.key, r.cdid, r.deleted_at, r.deleted_by, t.source, t.author, t.provisional, t.only_author
from mirror.retired r
left join lateral (
  select source, author, provisional, only_author from mirror.tombstones where cdid = r.deleted_by limit 1
) as t on true
where r.cdid = any($1::text[])

-- name: known_deletes
-- Which of these deletes have been applied before; in full where none of them was provisional or limited to an
-- author.
select cdid, bool_or(provisional or only_author) as in_part
from mirror.tombstones
where cdid = any($1::text[])
group by cdid

-- name: owners_with_deletes
-- Which of these owners have had anything deleted.
select owner from unnest($1::text[]) as asked (owner)
where exists (select from mirror.tombstones t where t.owner = asked.owner)

-- name: covering_tombstones
-- The newest delete of each source on each of these targets, and of each author of those that are limited to one.
select distinct on (target, scope, source, provisional, limited_to)
  target, scope, created_at, cdid, author, source, provisional, only_author,
  case when only_author then author end as limited_to
from mirror.tombstones
where target = any($1::text[])
order by target, scope, source, provisional, limited_to, created_at desc, cdid desc

-- name: homes
-- Which server these people live on. A page that was under way during a move may have stored the old name.
select e.ccid, coalesce(m.new, e.domain) as domain, e.created_at, e.cdid
from mirror.entities e left join mirror.moves m on m.old = e.domain
where e.ccid = any($1::text[])

-- name: moved_of
-- Which of these domains have moved, and where to.
select old, new from mirror.moves where old = any($1::text[])

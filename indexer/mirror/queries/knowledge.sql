-- What the mirror knows of one thing that somebody asks about.

-- name: home
-- Where a person lives, and how sure that is.
select domain, standing from mirror.entities where ccid = $1

-- name: servers_with_key
-- The servers that claim a server key.
select domain from mirror.servers where csid = $1 order by domain limit 2

-- name: document_stands
-- Whether this document stands under this key.
select exists (select from mirror.records where key = $1 and cdid = $2) as stands

-- name: record
-- What stands under a key.
select
  key, owner, author, schema, parent, href, source, cdid, created_at, first_created_at, indexed_at, provisional, signed
from mirror.records where key = $1

-- name: newest_tombstone
-- The newest delete that covers a key. $1 the key and its ancestors, $2 the key.
select target, scope, created_at, cdid, author, source, provisional
from mirror.tombstones
where target = any($1::text[])
  and (scope = 'tree' or (scope = 'key' and target = $2) or (scope = 'below' and target <> $2))
order by created_at desc, cdid desc
limit 1

-- name: entries
-- How many records lie directly under a key, and when the newest of them came into being.
select count(*) as count, max(first_created_at) as newest_at from mirror.records where parent = $1

-- name: queued
-- What the projection has still to do for a key.
select generation, marked_at, former_schemas from mirror.projection_queue where key = $1

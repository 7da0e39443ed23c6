-- What is known of one key. Read only.

-- name: record
select
  key, owner, author, schema, parent, href, source, cdid, created_at, first_created_at, indexed_at, provisional, signed
from mirror.records
where key = $1

-- name: tombstone
-- The newest delete that reaches a key ($1): of itself, of what is below one of $2, or of a document that it had.
select target, scope, created_at, cdid, author, source, provisional, only_author
from mirror.tombstones
where (target = $1 and scope in ('key', 'tree', 'document'))
  or (target = any($2::text[]) and scope in ('below', 'tree'))
order by created_at desc, cdid desc
limit 1

-- name: entries
-- How many records are directly below a key, and the newest $2 of them.
select
  count(*) over () as total, key, author, schema, first_created_at
from mirror.records
where parent = $1
order by first_created_at desc, key
limit $2

-- name: queued
select generation, marked_at, former_schemas from mirror.projection_queue where key = $1

-- name: health
-- What the database says of itself, and how far everything is behind. $1 the time now.
select
  current_setting('server_version') as version,
  current_setting('server_version_num')::integer as version_number,
  clock_timestamp() as clock,
  (select count(*) from mirror.projection_queue) as queue_depth,
  (select min(marked_at) from mirror.projection_queue) as oldest_mark,
  (select count(*) from mirror.servers) as servers,
  (
    select count(*) from mirror.servers
    where state not in ('paused', 'no_endpoint', 'wrong_layer') and next_poll_at < $1::timestamptz - interval '10 minutes'
      and (lease_until is null or lease_until < $1)
  ) as overdue,
  (select array_agg(domain order by domain) from mirror.servers where state = 'stale') as stale,
  (select array_agg(domain order by domain) from mirror.servers where state = 'backing_off') as backing_off,
  (select array_agg(domain order by domain) from mirror.servers where state in ('log_went_back', 'clock_ahead')) as odd,
  (select array_agg(name order by name) from mirror.leases where until > clock_timestamp()) as roles,
  (select ticked_at from mirror.activity_settings) as ticked_at,
  (select count(*) from mirror.activity_marks) as activity_marks

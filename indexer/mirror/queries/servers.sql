-- Statements about servers and their cursors.

-- name: discover
-- Names that discovery found, in its order; those known already stay as they are. $2 now, $3 aliases seen
-- since are left out, $4 at most so many in all, $5 and below one parent domain, those found since $6 included.
with recent as (
  select substr(domain, strpos(domain, '.') + 1) as parent, count(*) as number
  from mirror.servers
  where discovered_at > $6
  group by 1
), named as (
  select domain, substr(domain, strpos(domain, '.') + 1) as parent, position
  from unnest($1::text[]) with ordinality as list (domain, position)
), fresh as (
  select
    n.domain, n.position,
    row_number() over (partition by n.parent order by n.position) + coalesce(r.number, 0) as place
  from named n
  left join recent r on r.parent = n.parent
  where not exists (select from mirror.aliases a where a.alias = n.domain and a.seen_at > $3)
    and not exists (select from mirror.servers s where s.domain = n.domain)
    and not exists (select from mirror.moves m where m.old = n.domain)
)
insert into mirror.servers (domain, discovered_at, next_poll_at)
select domain, $2, $2 from fresh where place <= $5 order by position limit $4
on conflict (domain) do nothing
returning domain

-- name: domains
-- The servers of a layer ('' = any), those not asked yet included.
select domain from mirror.servers where $1 = '' or layer is null or layer = $1

-- name: count_servers
-- How many servers are known.
select count(*) from mirror.servers

-- name: ask_again
-- Servers that had no endpoint or another layer are asked again at discovery.
update mirror.servers set next_poll_at = $1
where state in ('no_endpoint', 'wrong_layer') and next_poll_at > $1

-- name: note_well_known
-- What a server says of itself.
update mirror.servers set
  csid = $2, layer = $3, version = $4, software_version = $5, software_build_time = $6, meta = $7,
  endpoints = $8, last_seen_at = $9
where domain = $1

-- name: note_alias
-- A host that names another domain is that domain's alias.
insert into mirror.aliases (alias, domain, seen_at) values ($1, $2, $3)
on conflict (alias) do update set domain = excluded.domain, seen_at = excluded.seen_at

-- name: forget_alias_row
-- An alias was never a server of its own: nothing was ever read from it.
delete from mirror.servers s
where s.domain = $1 and not exists (select from mirror.cursors c where c.domain = s.domain)

-- name: forget_empty_cursor
-- A run that failed at once leaves a cursor that never stood anywhere.
delete from mirror.cursors where domain = $1 and cursor is null

-- name: purge_aliases
-- Aliases are asked again after a while; only the newest are remembered.
delete from mirror.aliases where seen_at <= $1

-- name: claim_due
-- Lease servers whose time has come, the longest waiting first. $1 now, $2 at most, $3 holder, $4 seconds.
-- The database's clock decides how long a lease lasts.
with due as (
  select domain, next_poll_at from mirror.servers
  where next_poll_at <= $1 and state <> 'paused' and (lease_until is null or lease_until <= clock_timestamp())
  order by next_poll_at, domain
  limit $2
  for update skip locked
), claimed as (
  update mirror.servers s set
    lease_holder = $3, lease_until = clock_timestamp() + make_interval(secs => $4), lease_epoch = s.lease_epoch + 1
  from due
  where s.domain = due.domain
  returning s.domain, s.lease_epoch, due.next_poll_at
)
select domain, lease_epoch as epoch from claimed order by next_poll_at, domain

-- name: claim_one
-- Lease one server, whoever holds it: for commands and tests.
update mirror.servers set
  lease_holder = $2, lease_until = clock_timestamp() + make_interval(secs => $3), lease_epoch = lease_epoch + 1
where domain = $1
returning domain, lease_epoch as epoch

-- name: renew_leases
-- Keep leases; those that another process has taken are not among the answers.
update mirror.servers s set lease_until = clock_timestamp() + make_interval(secs => $3)
from unnest($1::text[], $2::bigint[]) as held (domain, epoch)
where s.domain = held.domain and s.lease_epoch = held.epoch
returning s.domain

-- name: release_lease
-- Give a lease up.
update mirror.servers set lease_holder = null, lease_until = null where domain = $1 and lease_epoch = $2

-- name: check_lease
-- Whether a lease is still the newest, kept so until the end of the transaction.
select true as held from mirror.servers where domain = $1 and lease_epoch = $2 for no key update

-- name: next_due
-- When the next server is due, those at work left out.
select min(greatest(next_poll_at, lease_until)) from mirror.servers
where state <> 'paused' and domain <> all($1::text[])

-- name: feed_state
-- Where a server's feed stands, and what the server said of itself.
select
  s.domain, s.csid, s.layer, s.endpoints, s.last_seen_at, s.state, s.consecutive_failures, s.failing_since,
  s.poll_seconds, c.cursor, c.cursor_ns,
  coalesce(c.seen, '{}') as seen, c.replay_until_ns, c.replayed_at,
  coalesce(c.replay_owed, false) as replay_owed
from mirror.servers s
left join mirror.cursors c using (domain)
where s.domain = $1

-- name: set_state
-- A server's state, when it is asked next, and when it was last asked.
update mirror.servers set
  state = $2, next_poll_at = $3, last_crawled_at = $4, last_error = $5, last_error_at = $4,
  consecutive_failures = 0, failure_class = null, failing_since = null
where domain = $1

-- name: enter_state
-- A state that begins while a run is under way.
update mirror.servers set state = $2 where domain = $1 and state <> $2

-- name: begin_feed
-- A feed is read for the first time.
insert into mirror.cursors (domain) values ($1) on conflict (domain) do nothing

-- name: advance_cursor
-- The cursor moves with the page's rows, never back. $2 cursor and $3 its nanoseconds (null: stays),
-- $4 digests of the rows read last (null: stay), $5 the newest post's time, $6 instants that could not be read whole.
update mirror.cursors set
  cursor = case when coalesce($3 >= cursor_ns, $3 is not null) then $2 else cursor end,
  cursor_ns = case when coalesce($3 >= cursor_ns, $3 is not null) then $3 else cursor_ns end,
  seen = coalesce($4, seen),
  latest_post_at = greatest(latest_post_at, $5),
  partial_instants = partial_instants + $6
where domain = $1

-- name: count_commits
-- What the rows of a page were. Of what was rejected lately about the last $5 commits tell.
update mirror.servers set
  commits = commits + $2, malformed = malformed + $3, rejected = rejected + $4,
  recent_commits = least(recent_commits + $2, $5),
  recent_rejected = (recent_rejected + $4) * least(1, $5 / greatest(recent_commits + $2, 1))
where domain = $1

-- name: finish_drained
-- The feed was read to its end.
update mirror.cursors set
  caught_up = true, caught_up_at = $2, last_finished_at = $2, replay_until_ns = null
where domain = $1

-- name: finish_yielded
-- The run was ended by its page limit.
update mirror.cursors set caught_up = false, last_finished_at = $2 where domain = $1

-- name: finish_failed
-- The run failed; what was read stays.
update mirror.cursors set last_finished_at = $2 where domain = $1

-- name: read_again
-- The log went back: read it from its start, at most once a day. Rows up to the old cursor are known.
update mirror.cursors set
  cursor = null, cursor_ns = null, seen = '{}',
  replay_until_ns = greatest(cursor_ns, replay_until_ns), replayed_at = $2, replay_owed = false
where domain = $1

-- name: owe_replay
-- The log went back again within a day of being read anew.
update mirror.cursors set replay_owed = true where domain = $1

-- name: succeed
-- A run went well.
update mirror.servers set
  state = $2, next_poll_at = $3, last_crawled_at = $4, poll_seconds = $5,
  consecutive_failures = 0, failure_class = null, failing_since = null
where domain = $1

-- name: wait_as_told
-- The server asked for quiet: no failure.
update mirror.servers set
  state = 'waiting', failure_class = 'rate_limited', next_poll_at = $2, last_crawled_at = $3,
  last_error = $4, last_error_at = $3
where domain = $1

-- name: fail
-- A run failed.
update mirror.servers set
  state = $6, failure_class = $2, next_poll_at = $3, last_crawled_at = $4,
  consecutive_failures = consecutive_failures + 1, failing_since = coalesce(failing_since, $4),
  last_error = $5, last_error_at = $4
where domain = $1

-- name: mark_server
-- The projection shows servers too: their key in the queue is the domain.
insert into mirror.projection_queue (key, marked_at) values ($1, $2)
on conflict (key) do update set generation = nextval('mirror.projection_generation')

-- name: mark_server_now_and_then
-- A server of which only the last crawl's time changed ($3: it showed the state already) is projected once a minute.
with marked as (
  update mirror.servers set marked_at = $2::timestamptz
  where domain = $1 and (not $3::boolean or marked_at is null or marked_at <= $2::timestamptz - interval '1 minute')
  returning domain
)
insert into mirror.projection_queue (key, marked_at) select domain, $2 from marked
on conflict (key) do update set generation = nextval('mirror.projection_generation')

-- Statements about servers and their cursors.

-- name: discover
-- Names that discovery found, in its order; those known already stay as they are. $2 now, $3 aliases seen
-- since are left out, $4 at most so many in all, $5 and below one parent domain.
with fresh as (
  select domain, position, row_number() over (partition by substr(domain, strpos(domain, '.') + 1) order by position)
    as place
  from unnest($1::text[]) with ordinality as named (domain, position)
  where not exists (select from mirror.aliases a where a.alias = domain and a.seen_at > $3)
    and not exists (select from mirror.servers s where s.domain = named.domain)
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

-- name: due_servers
-- Servers whose time has come, the longest waiting first, those at work left out.
select domain from mirror.servers
where next_poll_at <= $1 and state <> 'paused' and domain <> all($2::text[])
order by next_poll_at, domain
limit $3

-- name: next_due
-- When the next server is due, those at work left out.
select min(next_poll_at) from mirror.servers
where state <> 'paused' and domain <> all($1::text[])

-- name: feed_state
-- Where a server's feed stands, and what the server said of itself.
select
  s.domain, s.layer, s.endpoints, s.last_seen_at, s.state, s.consecutive_failures,
  c.cursor, c.cursor_ns, coalesce(c.unfinished, false) as unfinished,
  coalesce(c.seen, '{}') as seen, c.replay_until_ns, c.replayed_at
from mirror.servers s
left join mirror.cursors c using (domain)
where s.domain = $1

-- name: set_state
-- A server's state, when it is asked next, and when it was last asked.
update mirror.servers set state = $2, next_poll_at = $3, last_crawled_at = $4, last_error = $5
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
  unfinished = true,
  seen = coalesce($4, seen),
  latest_post_at = greatest(latest_post_at, $5),
  partial_instants = partial_instants + $6
where domain = $1

-- name: count_commits
-- What the rows of a page were.
update mirror.servers set commits = commits + $2, malformed = malformed + $3 where domain = $1

-- name: finish_drained
-- The feed was read to its end.
update mirror.cursors set
  caught_up = true, caught_up_at = $2, last_finished_at = $2, unfinished = false, replay_until_ns = null
where domain = $1

-- name: finish_yielded
-- The run was ended by its page limit; the next one goes on exactly at the cursor.
update mirror.cursors set caught_up = false, last_finished_at = $2, unfinished = true where domain = $1

-- name: finish_failed
-- The run failed; what was read stays.
update mirror.cursors set last_finished_at = $2, unfinished = false where domain = $1

-- name: read_again
-- The log went back: read it from its start, at most once a day. Rows up to the old cursor are known.
update mirror.cursors set
  cursor = null, cursor_ns = null, seen = '{}', unfinished = false,
  replay_until_ns = greatest(cursor_ns, replay_until_ns), replayed_at = $2
where domain = $1

-- name: succeed
-- A run went well.
update mirror.servers set
  state = $2, next_poll_at = $3, last_crawled_at = $4,
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
  state = 'backing_off', failure_class = $2, next_poll_at = $3, last_crawled_at = $4,
  consecutive_failures = consecutive_failures + 1, failing_since = coalesce(failing_since, $4),
  last_error = $5, last_error_at = $4
where domain = $1

-- name: mark_server
-- The projection shows servers too: their key in the queue is the domain.
insert into mirror.projection_queue (key, marked_at) values ($1, $2)
on conflict (key) do update set generation = nextval('mirror.projection_generation')

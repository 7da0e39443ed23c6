-- What an operator does by hand.

-- name: pause
-- Follow a server no more until it is resumed; whoever is at work on it loses its lease.
update mirror.servers set state = 'paused', lease_epoch = lease_epoch + 1, lease_holder = null, lease_until = null
where domain = $1
returning domain

-- name: resume
-- Follow a paused server again, at once.
update mirror.servers s set
  state = case when exists (select from mirror.cursors c where c.domain = s.domain and c.cursor is not null)
    then 'following' else 'discovered' end,
  next_poll_at = $2
where s.domain = $1 and s.state = 'paused'
returning s.domain

-- name: run_now
-- Ask a server now, whatever it waits for.
update mirror.servers set next_poll_at = $2 where domain = $1 and state <> 'paused' returning domain

-- name: reset_server
-- Forget failures and ask at once.
update mirror.servers set
  next_poll_at = $2, consecutive_failures = 0, failure_class = null, failing_since = null,
  last_error = null, last_error_at = null, poll_seconds = null, last_seen_at = null,
  lease_epoch = lease_epoch + 1, lease_holder = null, lease_until = null
where domain = $1
returning domain

-- name: reset_cursor
-- Read a feed from its start again; rows up to the old cursor are known.
update mirror.cursors set
  replay_until_ns = greatest(cursor_ns, replay_until_ns), cursor = null, cursor_ns = null, seen = '{}',
  replay_owed = false, caught_up = false
where domain = $1

-- name: list_dead_letters
-- Dead letters, the newest first; of one server, or of all ($1 null).
select id, domain, kind, reason, seen_at, left(commit, 200) as commit
from mirror.dead_letters
where $1::text is null or domain = $1
order by id desc
limit $2

-- name: dead_letter
-- One dead letter, whole.
select id, domain, kind, reason, seen_at, commit from mirror.dead_letters where id = $1

-- name: dead_letters_to_retry
-- Dead letters in the order they came; of one server, or of all ($1 null).
select id, domain, kind, reason, seen_at, commit from mirror.dead_letters
where $1::text is null or domain = $1
order by id

-- name: drop_dead_letter
-- It was applied after all.
delete from mirror.dead_letters where id = $1

-- name: purge_dead_letters
-- Forget dead letters; of one server, or of all ($1 null).
delete from mirror.dead_letters where $1::text is null or domain = $1

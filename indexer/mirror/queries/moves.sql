-- A server moves to another domain: what was the old one's becomes the new one's. $1 old, $2 new.

-- name: lock_both
-- Both servers, held until the end of the transaction.
select s.domain, s.csid, s.layer, s.state, c.cursor is not null as has_cursor
from mirror.servers s
left join mirror.cursors c using (domain)
where s.domain in ($1, $2)
order by s.domain
for update of s

-- name: moved_to
-- Where a domain has moved to.
select new from mirror.moves where old = $1

-- name: moved_lately
-- Whether this server came to its name by a move after $2.
select exists (select from mirror.moves where new = $1 and moved_at > $2)

-- name: undo
-- A server that moves back to where it came from.
delete from mirror.moves where old = $2 and new = $1

-- name: add_server
-- The new domain, where it is not known yet; a pause goes with it. $3 now.
insert into mirror.servers (domain, csid, layer, discovered_at, next_poll_at, state)
select $2, csid, layer, $3, $3, case state when 'paused' then 'paused' else 'discovered' end
from mirror.servers where domain = $1
on conflict (domain) do nothing

-- name: wake
-- The new domain ($1) is asked at once ($2 now), unless it fails or asked for quiet: it waits on. Whoever is at work on
-- it loses its lease, for its cursor may be another now.
update mirror.servers set
  next_poll_at = case when state in ('waiting', 'backing_off', 'stale') then next_poll_at else $2 end,
  lease_epoch = lease_epoch + 1, lease_holder = null, lease_until = null,
  state = case when state in ('no_endpoint', 'wrong_layer') then 'discovered' else state end
where domain = $1

-- name: carry_cursor
-- Where the old feed was read to.
insert into mirror.cursors as c
  (domain, cursor, cursor_ns, seen, replay_until_ns, replayed_at, replay_owed, caught_up, caught_up_at,
   last_finished_at, latest_post_at, partial_instants)
select
  $2, cursor, cursor_ns, seen, replay_until_ns, replayed_at, replay_owed, caught_up, caught_up_at,
  last_finished_at, latest_post_at, partial_instants
from mirror.cursors where domain = $1
on conflict (domain) do update set
  cursor = excluded.cursor, cursor_ns = excluded.cursor_ns, seen = excluded.seen,
  replay_until_ns = excluded.replay_until_ns, replayed_at = excluded.replayed_at,
  replay_owed = excluded.replay_owed, caught_up = excluded.caught_up, caught_up_at = excluded.caught_up_at,
  last_finished_at = excluded.last_finished_at, latest_post_at = excluded.latest_post_at,
  partial_instants = excluded.partial_instants

-- name: know_what_was_read
-- Rows up to where the old feed was read count as read before: what they said may stand already, in the new name.
-- 0 is no row's digest: no page of the new log is the one applied last, and passed over, because the old one had it.
insert into mirror.cursors as c (domain, replay_until_ns, seen)
select $2, greatest(cursor_ns, replay_until_ns), 0::bigint || seen from mirror.cursors where domain = $1
on conflict (domain) do update set
  replay_until_ns = greatest(c.replay_until_ns, excluded.replay_until_ns), seen = c.seen || excluded.seen

-- name: carry_counts
-- What was counted.
update mirror.servers n set
  commits = n.commits + o.commits, malformed = n.malformed + o.malformed, rejected = n.rejected + o.rejected
from mirror.servers o
where n.domain = $2 and o.domain = $1

-- name: carry_rejected_later
-- What was rejected later than its page.
update mirror.rejected_later set domain = $2 where domain = $1

-- name: carry_dead_letters
-- Commits that could not be used, each once.
update mirror.dead_letters d set domain = $2
where d.domain = $1
  and not exists (select from mirror.dead_letters n where n.domain = $2 and n.digest = d.digest)

-- name: carry_records
-- What stands firmly has another source now, and its documents show it. $3 indexed schemas, $4 now.
with carried as (
  update mirror.records set source = $2 where source = $1 and not provisional returning key, schema
)
insert into mirror.projection_queue (key, marked_at)
select key, $4 from carried where schema = any($3::text[]) order by key
on conflict (key) do update set generation = nextval('mirror.projection_generation')

-- name: withdraw_provisional
-- What was said of people whose home is not known proves nothing in another's name. The new server's log is read
-- again for them once they turn out to live there. $3 indexed schemas, $4 now.
with gone as (
  delete from mirror.records where source = $1 and provisional returning key, schema, owner
), marked as (
  insert into mirror.projection_queue (key, marked_at, former_schemas)
  select key, $4, array[schema] from gone where schema = any($3::text[]) order by key
  on conflict (key) do update set
    generation = nextval('mirror.projection_generation'),
    former_schemas = array(
      select distinct s from unnest(projection_queue.former_schemas || excluded.former_schemas) as s
    )
), unsaid as (
  delete from mirror.provisional_acks where source = $1 returning acker
), undone as (
  delete from mirror.tombstones where source = $1 and provisional returning owner
)
insert into mirror.set_aside (owner, domain, seen_at)
select owner, $2, $4 from (
  select owner from gone
  union select acker from unsaid
  union select owner from undone
  union select owner from mirror.set_aside where domain = $1
) as people
on conflict (owner, domain) do nothing

-- name: withdraw_provisional_acks
-- The follows that stood provisionally.
delete from mirror.acks where source = $1 and provisional

-- name: carry_acks
-- Follows.
update mirror.acks set source = $2 where source = $1

-- name: carry_tombstones
-- Deletes.
update mirror.tombstones set source = $2 where source = $1

-- name: carry_entities
-- Where people live, and who said so.
update mirror.entities set
  domain = case domain when $1 then $2 else domain end,
  source = case source when $1 then $2 else source end
where domain = $1 or source = $1

-- name: carry_questions
-- People who are to be looked up; both may have brought the same one.
update mirror.unresolved u set domain = $2
where u.domain = $1
  and not exists (select from mirror.unresolved n where n.domain = $2 and n.owner = u.owner)

-- name: carry_left_homes
-- Homes that people left.
insert into mirror.left_homes (owner, domain)
select owner, $2 from mirror.left_homes where domain = $1
on conflict (owner, domain) do update set generation = excluded.generation

-- name: carry_waiting
-- Commits that wait for another document.
update mirror.waiting w set domain = $2
where w.domain = $1
  and not exists (select from mirror.waiting n where n.domain = $2 and n.digest = w.digest)

-- name: carry_aliases
-- Hosts that called themselves by the old name.
update mirror.aliases set domain = $2 where domain = $1

-- name: carry_moves
-- Domains that moved to the old one.
update mirror.moves set new = $2 where new = $1

-- name: remember
-- From now on the old domain is the new one. $3 now.
insert into mirror.moves (old, new, moved_at) values ($1, $2, $3)
on conflict (old) do update set new = excluded.new, moved_at = excluded.moved_at

-- name: drop_set_aside
-- What is left of the old domain ...
delete from mirror.set_aside where domain = $1

-- name: drop_left_homes
-- ...
delete from mirror.left_homes where domain = $1

-- name: drop_questions
-- ...
delete from mirror.unresolved where domain = $1

-- name: drop_waiting
-- ...
delete from mirror.waiting where domain = $1

-- name: drop_dead_letters
-- ...
delete from mirror.dead_letters where domain = $1

-- name: drop_rejected_later
-- ...
delete from mirror.rejected_later where domain = $1

-- name: drop_cursor
-- ...
delete from mirror.cursors where domain = $1

-- name: drop_server
-- ...
delete from mirror.servers where domain = $1

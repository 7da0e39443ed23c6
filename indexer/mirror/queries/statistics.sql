-- Figures about the mirror. A layer of '' means any; servers that were not asked yet count with every layer.

-- name: server_reports
-- Every server of a layer with its feed, for people and gauges.
select
  s.domain, s.csid, s.layer, s.state, s.failure_class, s.consecutive_failures, s.last_error, s.last_error_at,
  s.last_crawled_at, s.last_seen_at, s.next_poll_at, s.commits, s.malformed, s.rejected + (
    select coalesce(sum(number), 0)::bigint from mirror.rejected_later l where l.domain = s.domain
  ) as rejected,
  c.cursor, c.cursor_ns, coalesce(c.caught_up, false) as caught_up, c.caught_up_at, c.last_finished_at,
  c.latest_post_at, coalesce(c.partial_instants, 0) as partial_instants, c.domain is not null as has_feed
from mirror.servers s
left join mirror.cursors c using (domain)
where $1 = '' or s.layer is null or s.layer = $1
order by s.domain

-- name: totals
-- How much there is, and how far behind we are.
with ours as (
  select s.last_crawled_at, s.consecutive_failures, s.commits, c.domain as feed, c.caught_up
  from mirror.servers s
  left join mirror.cursors c using (domain)
  where $1 = '' or s.layer is null or s.layer = $1
)
select
  count(*) as servers,
  max(last_crawled_at) as last_crawled_at,
  count(feed) as cursors,
  count(*) filter (where consecutive_failures > 0) as failing,
  count(*) filter (where not caught_up) as catching_up,
  (select count(*) from mirror.projection_queue) as queue_depth,
  (select min(marked_at) from mirror.projection_queue) as oldest_mark,
  (select count(*) from mirror.dead_letters) as dead_letters,
  coalesce(sum(commits), 0)::bigint as commits
from ours

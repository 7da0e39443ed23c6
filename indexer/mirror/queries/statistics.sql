-- Figures about the mirror. A layer of '' means any; servers that were not asked yet count with every layer.

-- name: server_reports
-- Every server of a layer with its feed, for people and gauges. A feed is distrusted when more than half of what it
-- said was rejected, of all or of late (servers.recent_*), and $2 commits at least; its usual reason is that of
-- most of its dead letters, those aside that are malformed ($3 reasons) or the engine's.
with counted as (
  select domain, csid, layer, state, failure_class, consecutive_failures, last_error, last_error_at,
    last_crawled_at, last_seen_at, next_poll_at, commits, malformed, recent_commits, recent_rejected,
    rejected + (
      select coalesce(sum(number), 0)::bigint from mirror.rejected_later l where l.domain = o.domain
    ) as rejected
  from mirror.servers o
), judged as (
  select *, rejected >= $2 and (rejected * 2 > commits or recent_rejected * 2 > recent_commits) as distrusted
  from counted
)
select
  s.domain, s.csid, s.layer, s.state, s.failure_class, s.consecutive_failures, s.last_error, s.last_error_at,
  s.last_crawled_at, s.last_seen_at, s.next_poll_at, s.commits, s.malformed, s.rejected, s.distrusted,
  case when s.distrusted then (
    select l.reason from mirror.dead_letters l
    where l.domain = s.domain and l.reason <> all($3::text[]) and not starts_with(l.reason, 'engine:')
    group by l.reason order by count(*) desc, l.reason limit 1
  ) end as rejected_reason,
  c.cursor, c.cursor_ns, coalesce(c.caught_up, false) as caught_up, c.caught_up_at, c.last_finished_at,
  c.latest_post_at, coalesce(c.partial_instants, 0) as partial_instants, c.domain is not null as has_feed
from judged s
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

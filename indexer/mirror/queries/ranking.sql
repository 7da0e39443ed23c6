-- Ranking for a viewer: by what the people whom the viewer follows did in the last 30 days (section 7).
-- $1 the viewer, $2 the schemas of follows, $3 now, $4 null or the subjects to rank alone, $5 offset, $6 limit
-- (null: all). Every row tells how many are ranked in all.

-- name: rank_people
-- Followees that have a profile and entries, most active first, by the numbers that ticks keep.
select
  a.subject, a.profile as shown, a.posts_30d as posts,
  case when a.weight > 0 then
    a.weight * power(
      2::float8, greatest(-greatest(date_part('epoch', $3 - a.newest_at), 0) / a.half_life_seconds, -1000)
    )
  else 0 end + a.held as score,
  null::text[] as top_authors, count(*) over () as total
from (
  select distinct k.ackee from mirror.acks k where k.acker = $1 and k.schema = any($2::text[]) and k.valid
) as f
join mirror.activity a on a.subject = f.ackee and a.posts_30d > 0 and a.profile is not null
where $4::text[] is null or a.subject in (select unnest($4))
order by
  -- the rank does not move with time, but by what is held: that counts 1 at any moment
  case when a.held = 0 then a.rank - date_part('epoch', $3::timestamptz) / a.half_life_seconds
    else ln(a.held + a.weight * power(
      2::float8, greatest(-greatest(date_part('epoch', $3 - a.newest_at), 0) / a.half_life_seconds, -1000)
    )) / ln(2::float8) end desc,
  a.profile
offset $5 limit $6

-- name: rank_communities
-- Communities by the followees' entries in them, most active first. $7 community schemas, $8 half-life in seconds,
-- $9 the moment 30 days ago. An entry of the future counts as one of now. What is older than a thousand half-lives
-- weighs next to nothing; the newest entry then settles the order.
with pairs as materialized (
  select
    r.parent, r.author, count(*)::integer as posts, max(least(r.first_created_at, $3)) as newest_at,
    sum(power(
      2::float8, greatest(-greatest(date_part('epoch', $3 - r.first_created_at), 0) / $8, -1000)
    )) as weight
  from (
    select distinct k.ackee from mirror.acks k where k.acker = $1 and k.schema = any($2::text[]) and k.valid
  ) as f
  join mirror.records r on r.author = f.ackee and r.first_created_at >= $9
    and (strpos(r.owner, '.') > 0 or length(r.owner) <> 42 or left(r.owner, 3) not in ('con', 'ccs'))
  group by r.parent, r.author
), summed as (
  select p.parent, sum(p.posts)::integer as posts, sum(p.weight) as score, max(p.newest_at) as newest_at
  from pairs p
  where $4::text[] is null or p.parent in (select unnest($4))
  group by p.parent
), page as materialized (
  select s.parent, s.posts, s.score, s.newest_at, count(*) over () as total
  from summed s
  join mirror.records c on c.key = s.parent and c.schema = any($7::text[])
  order by
    case when s.score > 1e-270 then s.score else 0 end desc,
    case when s.score > 1e-270 then null else s.newest_at end desc nulls last,
    s.parent
  offset $5 limit $6
)
select
  c.parent as subject, c.parent as shown, c.posts, c.score,
  (array_agg(p.author order by p.posts desc, p.author))[1:5] as top_authors, c.total
from page c
join pairs p on p.parent = c.parent
group by c.parent, c.posts, c.score, c.newest_at, c.total
order by
  case when c.score > 1e-270 then c.score else 0 end desc,
  case when c.score > 1e-270 then null else c.newest_at end desc nulls last,
  c.parent

-- name: profiles_of
-- Every profile of these people. $2 profile schemas.
select f.subject, r.key
from unnest($1::text[]) as f (subject)
join mirror.records r on r.schema = any($2::text[])
  and r.key >= 'cckv://' || f.subject || '/' and r.key < 'cckv://' || f.subject || '0'

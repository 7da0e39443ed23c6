-- Parts of the statements in activity.sql that differ between communities and people (mirror/activity.py).

-- name: few_marks
-- Take all marks.
delete from mirror.activity_marks m where {of_kind}

-- name: many_marks
-- Take the marks of the subjects of the first $5, and of those that are due.
delete from mirror.activity_marks m
using (
  select f.subject
  from (select m.subject from mirror.activity_marks m where {of_kind} limit $5) as f
  union
  select subject from due
) as chosen
where m.subject = chosen.subject

-- name: domain_owned
-- An entry of whatever stands above it.
(strpos(r.owner, '.') > 0 or length(r.owner) <> 42 or left(r.owner, 3) not in ('con', 'ccs'))

-- name: community_entries
-- r is an entry of the community s.subject.
r.parent = s.subject and {domain_owned}

-- name: community_told
-- What is told of days, and of the authors of the week. Whether an author is new to either is told by how many of
-- their entries there are now, and how many of these came: one look at the entries of the author in the community
-- for each day, the first of which tells of the week too.
changed as (
  select
    m.*, m.day::timestamp at time zone 'UTC' as day_from,
    case when m.day < ($1::timestamptz at time zone 'UTC')::date
      then (m.day + 1)::timestamp at time zone 'UTC' else 'infinity' end as day_to,
    row_number() over (partition by m.author, m.subject order by m.day desc) = 1 as is_first,
    sum(m.came_to_week) over (partition by m.author, m.subject) as came_to_the_week
  from (
    select
      m.subject, m.week_from, m.turned_from, m.author, m.day, sum(m.change)::integer as came,
      coalesce(sum(m.change) filter (where m.at >= $8), 0)::integer as came_to_week
    from (
      select
        s.subject, s.week_from, s.turned_from, m.detail as author, m.at, m.change,
        least((m.at at time zone 'UTC')::date, ($1::timestamptz at time zone 'UTC')::date) as day
      from state s
      join taken m on m.subject = s.subject and m.change <> 0
      where not s.again
      union all
      select s.subject, s.week_from, s.turned_from, e.author, null, 0, null
      from state s
      cross join lateral (
        select distinct r.author from mirror.records r
        where {entries} and r.first_created_at >= s.week_from and r.first_created_at < $8 offset 0
      ) as e
      where s.is_due and not s.again
    ) as m
    group by m.subject, m.week_from, m.turned_from, m.author, m.day
  ) as m
), authors as (
  select
    p.subject, p.turned_from, p.day, sum(p.came)::integer as posts,
    sum(
      case when p.day is null then 0 else (n.of_day > 0)::integer - (n.of_day > p.came)::integer end
    )::integer as authors,
    sum(
      case when p.is_first then (n.still > 0)::integer - (n.of_week > p.came_to_the_week)::integer else 0 end
    )::integer as of_week
  from (select * from changed order by author, subject) as p
  cross join lateral (
    select
      count(*) filter (where r.first_created_at >= p.day_from and r.first_created_at < p.day_to) as of_day,
      count(*) filter (where r.first_created_at >= p.week_from) as of_week,
      count(*) filter (where r.first_created_at >= $8) as still
    from mirror.records r
    where r.author = p.author and r.parent = p.subject and {domain_owned} and r.first_created_at
      >= case when p.is_first then least(p.day_from, p.week_from) else p.day_from end
    offset 0
  ) as n
  group by p.subject, p.turned_from, p.day
), told_days as (
  select
    subject, sum(of_week)::integer as of_week, array_agg(day) filter (where is_told) as days,
    array_agg(posts) filter (where is_told) as posts, array_agg(authors) filter (where is_told) as authors
  from (select *, day >= $9 and (day >= turned_from) is not true as is_told from authors) as a
  group by subject
),

-- name: user_entries
-- r is an entry of the person s.subject. $2 the post schemas.
r.author = s.subject and r.href is null and r.schema = any($2::text[])

-- name: user_told_here
-- What is told of days: one place an entry. What a day that has turned was told of is counted again.
, array_agg(least((m.at at time zone 'UTC')::date, ($1::timestamptz at time zone 'UTC')::date)) filter (
  where change <> 0 and at >= $9::date::timestamp at time zone 'UTC' and (at >= {turned_at}) is not true
) as days,
array_agg(change) filter (
  where change <> 0 and at >= $9::date::timestamp at time zone 'UTC' and (at >= {turned_at}) is not true
) as day_posts

-- name: turned_at
-- The first moment of the day on which m.since lies, when that is before today ($1).
(
  case when (m.since at time zone 'UTC')::date < ($1::timestamptz at time zone 'UTC')::date
    then (m.since at time zone 'UTC')::date::timestamp at time zone 'UTC' end
)

-- name: rank
-- log2 of the sum of 2^(t / half-life): over what counts, and over what is held as if it were of now ($1). $3 half-life.
(
  case
    when held = 0 and weight = 0 then -1e300
    when held = 0 then date_part('epoch', newest_at) / $3 + ln(weight) / ln(2::float8)
    -- at least 1 now, so no power is missed
    else date_part('epoch', $1::timestamptz) / $3 + ln(
      held + case when weight > 0
        then weight * power(2::float8, greatest(date_part('epoch', newest_at - $1) / $3, -1000)) else 0 end
    ) / ln(2::float8)
  end
)

-- name: due_at
-- Who holds entries of the future is looked at by every tick: their rank moves with time.
case when held > 0 then $1 + interval '1 microsecond' else due_at end

-- name: user_profile
-- The profile that stands for the person s.subject. $2 the profile schemas.
(
  select coalesce(min(p.key) filter (where p.key like '%/main'), min(p.key))
  from mirror.records p
  where p.schema = any($2::text[])
    and p.key >= 'cckv://' || s.subject || '/' and p.key < 'cckv://' || s.subject || '0'
)

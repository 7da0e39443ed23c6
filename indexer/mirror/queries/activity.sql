-- Statements that count activity. {entries}, {authors}, {authors_7d}, {profile} and {of_kind} stand for what differs between
-- communities and people (mirror/activity.py); s.subject is the subject, r its entry, {schemas} the post schemas.
-- A weight is the sum of 2^((t - newest) / half-life). Exponents stop at -1000: beside a weight of 1 that is
-- nothing, and PostgreSQL raises an error where a power underflows.

-- name: lock_tick
-- One batch at a time, whichever process counts.
select pg_advisory_xact_lock(7165063380137177091)

-- name: take_marks
-- Take up to $1 marks and count their days again. $2 half-life in seconds, $3 post schemas, $4 the first day that
-- is kept. Gives the subjects.
with taken as (
  delete from mirror.activity_marks
  where ctid = any(array(select ctid from mirror.activity_marks m where {of_kind} limit $1))
  returning subject, day
), s as (
  select distinct subject, day from taken
), counted as (
  select s.subject, s.day, e.posts, e.authors, e.oldest_at, e.newest_at, e.weight
  from s
  left join lateral (
    select r.first_created_at as at from mirror.records r
    where {entries}
      and r.first_created_at >= s.day::timestamp at time zone 'UTC'
      and r.first_created_at < (s.day + 1)::timestamp at time zone 'UTC'
    order by r.first_created_at desc limit 1
  ) as n on true
  cross join lateral (
    select
      count(*)::integer as posts, {authors} as authors, min(r.first_created_at) as oldest_at, n.at as newest_at,
      sum(power(2::float8, greatest(date_part('epoch', r.first_created_at - n.at) / $2, -1000))) as weight
    from mirror.records r
    where {entries}
      and r.first_created_at >= s.day::timestamp at time zone 'UTC' and r.first_created_at <= n.at
  ) as e
  where s.day >= $4
), put as (
  insert into mirror.activity_days as d (
    subject, day, posts, authors, author_count, oldest_at, newest_at, weight
  )
  select subject, day, posts, authors, coalesce(cardinality(authors), 0), oldest_at, newest_at, weight
  from counted where posts > 0
  on conflict (subject, day) do update set
    posts = excluded.posts, authors = excluded.authors, author_count = excluded.author_count,
    oldest_at = excluded.oldest_at, newest_at = excluded.newest_at, weight = excluded.weight
), emptied as (
  delete from mirror.activity_days d using counted c
  where c.posts = 0 and d.subject = c.subject and d.day = c.day
)
select distinct subject from s where $3::text[] is not null

-- name: take_due
-- Subjects whose numbers change by themselves by $1, up to $2 of them.
select subject from mirror.activity m where due_at <= $1 and {of_kind} order by due_at limit $2

-- name: take_recounted
-- The next $2 subjects of a recount of everything, after $1.
select subject from mirror.activity m where subject > $1 and {of_kind} order by subject limit $2

-- name: drop_days
-- Forget the days of these subjects.
delete from mirror.activity_days where subject = any($1::text[])

-- name: count_days
-- Count every day of these subjects from $4 on. $2 half-life in seconds, $3 post schemas.
insert into mirror.activity_days (subject, day, posts, authors, author_count, oldest_at, newest_at, weight)
select
  s.subject, r.day, count(*)::integer, {authors}, coalesce(cardinality({authors}), 0), min(r.first_created_at), max(r.first_created_at),
  sum(power(2::float8, greatest(date_part('epoch', r.first_created_at - r.newest_at) / $2, -1000)))
from unnest($1::text[]) as s (subject)
cross join lateral (
  select
    r.first_created_at, r.author, (r.first_created_at at time zone 'UTC')::date as day,
    max(r.first_created_at) over (partition by (r.first_created_at at time zone 'UTC')::date) as newest_at
  from mirror.records r
  where {entries} and r.first_created_at >= $4::date::timestamp at time zone 'UTC'
) as r
where $3::text[] is not null
group by s.subject, r.day

-- name: refresh_subjects
-- Put the days of these subjects together. $1 subjects, $2 now, $3 post schemas, $4 half-life in seconds, $5 the
-- moment 30 days ago and $6 the one 7 days ago, $7 today, $8 the first day of the history, $9 profile schemas,
-- $10 and $11 the days of $5 and $6. Days between are taken whole; of those two, and of today when there are
-- entries of the future, the entries themselves are looked at.
with s as materialized (
  select
    g.subject, l.at as last_at, coalesce(l.at > $2, false) as has_held,
    case when l.at > $2 then p.at else l.at end as newest_at,
    case when l.at > $2 then $7::date - 1 else $7::date end as last_whole_day
  from unnest($1::text[]) as g (subject)
  cross join lateral (select g.subject) as s
  left join lateral (
    select r.first_created_at as at from mirror.records r
    where {entries} order by r.first_created_at desc limit 1
  ) as l on true
  left join lateral (
    select r.first_created_at as at from mirror.records r
    where {entries} and l.at > $2 and r.first_created_at <= $2 order by r.first_created_at desc limit 1
  ) as p on true
  where $3::text[] is not null
), sums as (
  select
    s.subject, s.last_at, s.newest_at, t.held,
    coalesce(w.posts_30d, 0)::integer + m.posts + t.posts as posts_30d,
    coalesce(w.posts_7d, 0)::integer + k.posts + t.posts as posts_7d,
    {authors_7d} as authors_7d,
    coalesce(w.weight, 0) + coalesce(m.weight, 0) + coalesce(t.weight, 0) as weight,
    least(
      least(w.oldest_30d, m.oldest_at, t.oldest_at) + ($2::timestamptz - $5::timestamptz),
      least(w.oldest_7d, k.oldest_at, t.oldest_at) + ($2::timestamptz - $6::timestamptz)
    ) as leaves_at,
    coalesce(w.days, '{}') || case when s.has_held then array[$7::date] else '{}' end as days,
    coalesce(w.day_posts, '{}') || case when s.has_held then array[t.posts] else '{}' end as day_posts,
    coalesce(w.day_authors, '{}')
      || case when s.has_held then array[coalesce(cardinality(t.authors), 0)] else '{}' end as day_authors
  from s
  cross join lateral (
    select
      sum(d.posts) filter (where d.day > $10::date) as posts_30d,
      sum(d.posts) filter (where d.day > $11::date) as posts_7d,
      sum(
        d.weight * power(2::float8, greatest(date_part('epoch', d.newest_at - s.newest_at) / $4, -1000))
      ) filter (where d.day > $10) as weight,
      min(d.oldest_at) filter (where d.day > $10) as oldest_30d,
      min(d.oldest_at) filter (where d.day > $11) as oldest_7d,
      bool_or(d.day = $10) as has_month, bool_or(d.day = $11) as has_week,
      array_agg(d.day) filter (where d.day >= $8) as days,
      array_agg(d.posts) filter (where d.day >= $8) as day_posts,
      array_agg(d.author_count) filter (where d.day >= $8) as day_authors
    from (
      select d.day, d.posts, d.author_count, d.oldest_at, d.newest_at, d.weight
      from mirror.activity_days d
      where d.subject = s.subject and d.day >= least($8::date, $10::date) and d.day <= s.last_whole_day
      order by d.day
    ) as d
  ) as w
  cross join lateral (
    select
      count(*)::integer as posts, min(r.first_created_at) as oldest_at,
      sum(power(2::float8, greatest(date_part('epoch', r.first_created_at - s.newest_at) / $4, -1000))) as weight
    from mirror.records r
    where w.has_month and {entries}
      and r.first_created_at >= $5 and r.first_created_at < ($10::date + 1)::timestamp at time zone 'UTC'
  ) as m
  cross join lateral (
    select count(*)::integer as posts, {authors} as authors, min(r.first_created_at) as oldest_at
    from mirror.records r
    where w.has_week and {entries}
      and r.first_created_at >= $6 and r.first_created_at < ($11::date + 1)::timestamp at time zone 'UTC'
  ) as k
  cross join lateral (
    select
      count(*)::integer as posts, {authors} as authors,
      (count(*) filter (where r.first_created_at > $2))::integer as held,
      min(r.first_created_at) filter (where r.first_created_at <= $2) as oldest_at,
      sum(power(2::float8, greatest(date_part('epoch', r.first_created_at - s.newest_at) / $4, -1000)))
        filter (where r.first_created_at <= $2) as weight
    from mirror.records r
    where s.has_held and {entries} and r.first_created_at >= $7::date::timestamp at time zone 'UTC'
  ) as t
), ranked as (
  select
    sums.*,
    case when weight > 0 then date_part('epoch', newest_at) / $4 + ln(weight) / ln(2::float8) end as past_rank,
    case when held > 0 then date_part('epoch', $2::timestamptz) / $4 + ln(held::float8) / ln(2::float8) end
      as held_rank
  from sums
)
insert into mirror.activity as a (
  subject, half_life_seconds, newest_at, weight, held, rank, posts_7d, posts_30d, authors_7d, last_at, profile,
  days, day_posts, day_authors, refreshed_at, due_at
)
select
  subject, $4, case when weight > 0 then newest_at end, weight, held,
  case
    when held_rank is null then coalesce(past_rank, -1e300)
    when past_rank is null then held_rank
    else greatest(past_rank, held_rank)
      + ln(1 + power(2::float8, greatest(-abs(past_rank - held_rank), -1000))) / ln(2::float8)
  end,
  posts_7d, posts_30d, authors_7d, last_at, {profile}, days, day_posts, day_authors, $2,
  -- entries of the future are looked at by every tick
  case when held > 0 then $2 + interval '1 microsecond' else leaves_at + interval '1 microsecond' end
from ranked
on conflict (subject) do update set
  half_life_seconds = excluded.half_life_seconds, newest_at = excluded.newest_at, weight = excluded.weight,
  held = excluded.held, rank = excluded.rank, posts_7d = excluded.posts_7d, posts_30d = excluded.posts_30d,
  authors_7d = excluded.authors_7d, last_at = excluded.last_at, profile = excluded.profile,
  days = excluded.days, day_posts = excluded.day_posts, day_authors = excluded.day_authors,
  refreshed_at = excluded.refreshed_at, due_at = excluded.due_at, revision = a.revision + 1, delivered = false

-- name: forget_days
-- Days before $2 are in no answer.
delete from mirror.activity_days where subject = any($1::text[]) and day < $2

-- name: read_settings
-- What the numbers were counted with.
select half_life_seconds, history_days, post_schemas, profile_schemas, recounted_to, ticked_at from mirror.activity_settings
for update

-- name: put_settings
-- What numbers are counted with from now on; with $5 set, everything is counted again.
insert into mirror.activity_settings as s (half_life_seconds, history_days, post_schemas, profile_schemas, recounted_to)
values ($1, $2, $3, $4, $5)
on conflict (sole) do update set
  half_life_seconds = excluded.half_life_seconds, history_days = excluded.history_days,
  post_schemas = excluded.post_schemas, profile_schemas = excluded.profile_schemas,
  recounted_to = excluded.recounted_to

-- name: note_recounted
-- How far the recount of everything has come; null: it is done.
update mirror.activity_settings set recounted_to = $1

-- name: note_tick
-- The time by which the last tick counted.
update mirror.activity_settings set ticked_at = $1

-- name: make_due
-- The clock went back: what was counted by a later time than $1 is counted again.
update mirror.activity set due_at = $1 where refreshed_at > $1

-- name: recount_state
-- How far a recount has come, and of how much.
select
  (select recounted_to from mirror.activity_settings) as recounted_to,
  (select count(*) from mirror.activity a, mirror.activity_settings s where a.subject <= s.recounted_to) as done,
  (select count(*) from mirror.activity) as subjects

-- name: take_undelivered
-- Up to $1 subjects after $2 whose numbers the search engine lacks, with the live keys that show them: a person's
-- profiles ($3 their schemas), a community itself ($4).
select
  a.subject, a.half_life_seconds, a.newest_at, a.weight, a.held, a.rank, a.posts_7d, a.posts_30d, a.authors_7d,
  a.last_at, a.days, a.day_posts, a.day_authors, a.revision, k.keys
from (
  select * from mirror.activity where not delivered and subject > $2 order by subject limit $1
) as a
cross join lateral (
  select array_agg(r.key) as keys
  from (
    select key from mirror.records
    where starts_with(a.subject, 'cckv:') and key = a.subject and schema = any($4::text[])
    union all
    select key from mirror.records
    where not starts_with(a.subject, 'cckv:') and schema = any($3::text[])
      and key >= 'cckv://' || a.subject || '/' and key < 'cckv://' || a.subject || '0'
  ) as r
) as k
order by a.subject

-- name: note_delivered
-- The search engine has these numbers; what was counted meanwhile stays to be delivered.
update mirror.activity a set delivered = true
from unnest($1::text[], $2::bigint[]) as d (subject, revision)
where a.subject = d.subject and a.revision = d.revision

-- name: deliver_all
-- The search engine may have lost them: deliver everything again.
update mirror.activity set delivered = false where delivered

-- name: activity_of
-- The numbers of one subject.
select
  subject, half_life_seconds, newest_at, weight, held, rank, posts_7d, posts_30d, authors_7d, last_at,
  days, day_posts, day_authors, revision, refreshed_at, due_at, delivered,
  exists (select from mirror.activity_marks m where m.subject = a.subject) as marked
from mirror.activity a where subject = $1

-- name: entries_of
-- The newest $4 entries of one subject ($1) since $2. $3 post schemas.
select r.key, r.author, r.schema, r.first_created_at, count(*) over () as entries
from (select $1::text as subject) as s
cross join mirror.records r
where {entries} and r.first_created_at >= $2 and $3::text[] is not null
order by r.first_created_at desc, r.key
limit $4

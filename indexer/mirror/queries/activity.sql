-- Statements that count activity. {entries}, {is_entry} and the like stand for what differs between communities
-- and people (activity_parts.sql, mirror/activity.py); s.subject is a subject and r its entry, $2 the post schemas.
-- A weight is the sum of 2^((t - newest) / half-life). Exponents stop at -1000: beside a weight of 1 that is
-- nothing, and PostgreSQL raises an error where a power underflows.

-- name: lock_tick
-- One batch at a time, whichever process counts. A lock of this kind is no query, so that the snapshot is taken
-- when the lock is held: marks, numbers and records are then seen as of one moment.
lock table mirror.activity_settings in share row exclusive mode

-- name: plan_by_index
-- Of what is joined to the mirror a batch names a few rows: these are looked up (lateral, "offset 0"). What is
-- joined among each other is hashed, however wrong the guesses about freshly filled tables are.
set local enable_nestloop = off; set local enable_mergejoin = off; set local work_mem = '32MB';
set local plan_cache_mode = force_generic_plan

-- name: are_few
-- Whether there are no more than $1 marks.
select count(*) <= $1 from (select from mirror.activity_marks m where {of_kind} limit $1 + 1) as m

-- name: count_changes
-- Take marks (those of a subject all or none: the subjects of the first $5 and what is due, or all), and up to $6
-- subjects that are due, and bring their numbers up to date by what came, went or left a window. $1 now, $3 half-life in seconds,
-- $4 profile schemas, $7 and $8 the moments 30 and 7 days ago, $9 the first day of the history, $10 how many places
-- a list of days may have. Weights are relative to now until they are stored.
-- What a subject held when it was last counted ("since") and whose time has come is a range of its index; what marks
-- tell of that range is in it already. Days of the future are told as today, so when a day has turned over a subject
-- that holds entries, its days from that one on ("turned_from") are counted again by the caller.
-- Gives how many were written and how many of these were due; which have to be counted again from their entries
-- (new ones, those whose weight has lost digits), whose list of days is too long, whose last days have to be counted,
-- and whose profile may be another.
with due as materialized (
  select m.subject from mirror.activity m where m.due_at <= $1 and {of_kind} order by m.due_at limit $6
), deleted as (
  {taken}
  returning m.subject, m.at, m.detail, m.change
), holding as materialized (
  select m.subject, m.refreshed_at as since from mirror.activity m where m.held > 0 and {of_kind}
), taken as {materialized} (
  select
    m.subject, m.at, m.detail, m.change, m.touches, h.since,
    -- what came or went at a moment that was the future then
    m.at > h.since as is_of_range,
    case when m.change <> 0 and m.at <= $1 and (m.at > h.since) is not true then
      power(2::float8, greatest(date_part('epoch', m.at - $1) / $3, -1000))
    end as weight
  from (
    select
      m.subject, m.at, m.detail, {is_touch} as touches,
      case when {is_entry} then m.change::integer else 0 end as change
    from deleted m
    union all
    select subject, null, null, false, 0 from due
  ) as m
  left join holding h on h.subject = m.subject
), touched as (
  select
    subject, bool_or(touches) as touches, bool_or(change <> 0) as has_changed,
    case when (max(since) at time zone 'UTC')::date < ($1::timestamptz at time zone 'UTC')::date
      then (max(since) at time zone 'UTC')::date end as turned_from,
    coalesce(sum(change) filter (where at > $1), 0)::integer as held,
    coalesce(sum(change) filter (where is_of_range and at <= $1), 0)::integer as of_range,
    max(at) filter (where change > 0 and at <= $1) as added_to, max(at) filter (where change > 0) as added_last,
    max(at) filter (where change < 0 and at <= $1) as removed_to, max(at) filter (where change < 0) as removed_last,
    max(at) filter (where change <> 0 and at < $7) as before_month,
    max(at) filter (where change <> 0 and at < $8) as before_week,
    coalesce(sum(change) filter (where at >= $7), 0)::integer as month_posts,
    coalesce(sum(change) filter (where at >= $8), 0)::integer as week_posts,
    coalesce(sum(change * weight) filter (where at >= $7), 0) as weight,
    coalesce(sum(weight) filter (where at >= $7), 0) as moved,
    -- when the first of what came leaves the 7 or the 30 days
    least(
      min(at) filter (where change > 0 and at >= $8) + ($1::timestamptz - $8::timestamptz),
      min(at) filter (where change > 0 and at >= $7 and at < $8) + ($1::timestamptz - $7::timestamptz)
    ) + interval '1 microsecond' as added_leave_at
    {told_here}
  from taken m
  group by subject
  -- neighbours in the index one after the other
  order by subject
), state as materialized (
  select
    t.*, a.held as old_held, a.refreshed_at, a.newest_at as weighed_at, a.weight as old_weight, a.weight_error, a.posts_30d, a.last_at, a.due_at,
    coalesce(a.due_at <= $1, false) as is_due,
    -- since when the windows have moved
    a.refreshed_at - ($1::timestamptz - $7::timestamptz) as month_from,
    a.refreshed_at - ($1::timestamptz - $8::timestamptz) as week_from,
    -- the newest entry may be among what went
    coalesce(t.removed_to >= greatest(a.newest_at, t.added_to), false)
      or coalesce(t.removed_last >= greatest(a.last_at, t.added_last), false) as has_lost,
    a.subject is null or a.refreshed_at > $1 or a.half_life_seconds <> $3
      -- what came or went where a window has moved is told apart by nothing here
      or coalesce(t.before_month >= a.refreshed_at - ($1::timestamptz - $7::timestamptz), false)
      or coalesce(t.before_week >= a.refreshed_at - ($1::timestamptz - $8::timestamptz), false) as again
  from touched t
  left join lateral (select * from mirror.activity a where a.subject = t.subject offset 0) as a on true
), lost as (
  select s.subject, n.at as newest_at, l.at as last_at
  from state s
  left join lateral (
    select r.first_created_at as at from mirror.records r
    where {entries} and r.first_created_at <= $1 order by r.first_created_at desc limit 1
  ) as n on true
  left join lateral (
    select r.first_created_at as at from mirror.records r
    where {entries} order by r.first_created_at desc limit 1
  ) as l on true
  where not s.again and s.has_lost
), come as (
  -- what was held and whose time has come, and what came to stand beside it
  select s.subject, c.posts, c.weight, c.newest_at
  from state s
  cross join lateral (
    select
      count(*)::integer as posts, max(r.first_created_at) as newest_at,
      coalesce(sum(power(2::float8, greatest(date_part('epoch', r.first_created_at - $1) / $3, -1000))), 0) as weight
    from mirror.records r
    where {entries} and r.first_created_at > s.refreshed_at and r.first_created_at <= $1 offset 0
  ) as c
  where s.old_held > 0 and not s.again
), left_behind as (
  select s.subject, m.posts as month_posts, m.weight, w.posts as week_posts, least(
      mn.at + ($1::timestamptz - $7::timestamptz), wn.at + ($1::timestamptz - $8::timestamptz)
    ) + interval '1 microsecond' as due_at
  from state s
  cross join lateral (
    select
      count(*)::integer as posts,
      coalesce(sum(power(2::float8, greatest(date_part('epoch', r.first_created_at - $1) / $3, -1000))), 0) as weight
    from mirror.records r
    where {entries} and r.first_created_at >= s.month_from and r.first_created_at < $7 offset 0
  ) as m
  cross join lateral (
    select count(*)::integer as posts from mirror.records r
    where {entries} and r.first_created_at >= s.week_from and r.first_created_at < $8 offset 0
  ) as w
  left join lateral (
    select r.first_created_at as at from mirror.records r
    where {entries} and r.first_created_at >= $7 order by r.first_created_at limit 1
  ) as mn on true
  left join lateral (
    select r.first_created_at as at from mirror.records r
    where {entries} and r.first_created_at >= $8 order by r.first_created_at limit 1
  ) as wn on true
  where s.is_due and not s.again
),
{told}
summed as (
  select
    s.subject, s.posts_30d + s.month_posts - coalesce(o.month_posts, 0) as posts_30d,
    s.week_posts - coalesce(o.week_posts, 0) as week_posts, {more_authors} as more_authors,
    s.old_held + s.held - coalesce(c.posts - s.of_range, 0) as held,
    case when s.has_lost then l.newest_at else greatest(s.weighed_at, s.added_to, c.newest_at) end as newest_at,
    case when s.has_lost then l.last_at else greatest(s.last_at, s.added_last) end as last_at,
    {days} as days, {day_posts} as day_posts, {day_authors} as day_authors,
    case when s.is_due then o.due_at else least(s.due_at, s.added_leave_at) end as due_at,
    e.steps, s.old_weight, s.weight_error, s.weight + coalesce(c.weight, 0) - coalesce(o.weight, 0) as weight,
    s.moved + coalesce(c.weight, 0) + coalesce(o.weight, 0) as moved
  from state s
  left join lost l on l.subject = s.subject
  left join come c on c.subject = s.subject
  left join left_behind o on o.subject = s.subject
  {joined_told}
  cross join lateral (
    select coalesce(greatest(date_part('epoch', s.weighed_at - $1) / $3, -1000), 0) as steps
  ) as e
  where not s.again and (s.touches or s.has_changed or s.is_due)
), weighed as (
  select
    s.*, s.old_weight * power(2::float8, s.steps) + s.weight as weight_now,
    s.weight_error * power(2::float8, s.steps)
      + 2e-16 * (s.old_weight * power(2::float8, s.steps) * (1 - s.steps) + s.moved) as error_now,
    date_part('epoch', $1 - s.newest_at) / $3 as age
  from summed s offset 0
), computed as materialized (
  select
    subject, posts_30d, week_posts, more_authors, held, last_at, days, day_posts, day_authors, due_at,
    case when posts_30d > held then newest_at end as newest_at,
    case when posts_30d > held then weight_now * power(2::float8, least(age, 500)) else 0 end as weight,
    case when posts_30d > held then error_now * power(2::float8, least(age, 500)) else 0 end as weight_error,
    -- counting again gives back what rounding took, or what powers can not hold
    posts_30d > held
      and not coalesce(weight_now > 0 and error_now <= 1e-11 * weight_now and age <= 500, false) as again
  from weighed
), put as (
  insert into mirror.activity as a (
    subject, half_life_seconds, newest_at, weight, weight_error, held, rank, posts_7d, posts_30d, authors_7d,
    last_at, days, day_posts, day_authors, refreshed_at, due_at
  )
  select
    subject, $3, newest_at, weight, weight_error, held, {rank}, week_posts, posts_30d, more_authors,
    last_at, days, day_posts, day_authors, $1, {due_at}
  from computed where not again
  on conflict (subject) do update set
    newest_at = excluded.newest_at, weight = excluded.weight, weight_error = excluded.weight_error,
    held = excluded.held, rank = excluded.rank, posts_7d = a.posts_7d + excluded.posts_7d, posts_30d = excluded.posts_30d,
    authors_7d = a.authors_7d + excluded.authors_7d, last_at = excluded.last_at,
    days = a.days || excluded.days, day_posts = a.day_posts || excluded.day_posts,
    day_authors = a.day_authors || excluded.day_authors,
    refreshed_at = excluded.refreshed_at, due_at = excluded.due_at
  returning subject, cardinality(days) > $10 as is_long
), queued as (
  insert into mirror.activity_undelivered (subject) select subject from put
)
select
  (select count(*) from put) as written, (select count(*) from state where is_due) as due,
  array(select subject from state where again union all select subject from computed where again) as again,
  array(select subject from put where is_long) as long,
  array(select (s.subject, s.turned_from) from state s join put p on p.subject = s.subject where s.turned_from is not null)
    as turned,
  array(select subject from state where touches and not again) as touched
where $2::text[] is not null and $4::text[] is not null and $5::integer is not null

-- name: put_days_together
-- Make one place of a day ($2 the first one that is kept) of all in the lists of these subjects.
update mirror.activity a set (days, day_posts, day_authors) = (
  select
    coalesce(array_agg(d.day), '{}'), coalesce(array_agg(d.posts), '{}'), coalesce(array_agg(d.authors), '{}')
  from (
    select day, sum(posts)::integer as posts, sum(authors)::integer as authors
    from unnest(a.days, a.day_posts, a.day_authors) as u (day, posts, authors)
    where day >= $2 group by day having sum(posts) <> 0 order by day
  ) as d
)
where a.subject = any($1::text[])

-- name: count_last_days
-- The day has turned over these subjects ($3), who hold entries of the future, or held them: count their days from $4
-- on again. $1 now, $5 the first day that is kept.
update mirror.activity a set (days, day_posts, day_authors) = (
  select
    coalesce(array_agg(d.day), '{}'), coalesce(array_agg(d.posts), '{}'), coalesce(array_agg(d.authors), '{}')
  from (
    select u.day, u.posts, u.authors
    from unnest(a.days, a.day_posts, a.day_authors) as u (day, posts, authors)
    where u.day >= $5 and u.day < s.turned_from
    union all
    select e.day, count(*)::integer, {counted_authors}
    from (
      select least((r.first_created_at at time zone 'UTC')::date, ($1::timestamptz at time zone 'UTC')::date) as day, r.author
      from mirror.records r
      where {entries} and r.first_created_at >= greatest(s.turned_from, $5)::timestamp at time zone 'UTC' offset 0
    ) as e
    group by e.day
  ) as d
)
from unnest($3::text[], $4::date[]) as s (subject, turned_from)
where a.subject = s.subject and $2::text[] is not null

-- name: put_profiles
-- Note which profile stands for these people. $2 profile schemas.
update mirror.activity s set profile = {profile}
where s.subject = any($1::text[]) and $2::text[] is not null

-- name: count_again
-- Count these subjects ($11) from their entries. Parameters as above.
with given as materialized (
  select subject from unnest($11::text[]) as g (subject)
), entries as materialized (
  select s.subject, e.at, e.author, least((e.at at time zone 'UTC')::date, ($1::timestamptz at time zone 'UTC')::date) as day
  from given s
  cross join lateral (
    select r.first_created_at as at, r.author from mirror.records r
    where {entries} and r.first_created_at >= least($7::timestamptz, $9::date::timestamp at time zone 'UTC') offset 0
  ) as e
), newest as (
  select subject, max(at) filter (where at <= $1) as at from entries where at >= $7 group by subject
), sums as (
  select
    e.subject, n.at as newest_at, count(*)::integer as posts_30d,
    (count(*) filter (where e.at >= $8))::integer as posts_7d, {counted_authors_7d} as authors_7d,
    (count(*) filter (where e.at > $1))::integer as held,
    coalesce(sum(power(2::float8, greatest(date_part('epoch', e.at - n.at) / $3, -1000)))
      filter (where e.at <= $1), 0) as weight,
    least(
      min(e.at) + ($1::timestamptz - $7::timestamptz),
      min(e.at) filter (where e.at >= $8) + ($1::timestamptz - $8::timestamptz)
    ) + interval '1 microsecond' as leaves_at
  from entries e
  join newest n on n.subject = e.subject
  where e.at >= $7
  group by e.subject, n.at
), told_days as (
  select
    subject, array_agg(day) as days, array_agg(posts) as posts, array_agg(authors) as authors
  from (
    select subject, day, count(*)::integer as posts, {counted_authors} as authors
    from entries where day >= $9 group by subject, day order by subject, day
  ) as d
  group by subject
), ranked as (
  select
    s.subject, c.newest_at, coalesce(c.weight, 0) as weight, coalesce(c.held, 0) as held,
    coalesce(c.posts_7d, 0) as posts_7d, coalesce(c.posts_30d, 0) as posts_30d,
    {none_or_authors_7d} as authors_7d, l.at as last_at, c.leaves_at as due_at,
    coalesce(d.days, '{}') as days, coalesce(d.posts, '{}') as day_posts, coalesce(d.authors, '{}') as day_authors
  from given s
  left join sums c on c.subject = s.subject
  left join told_days d on d.subject = s.subject
  left join lateral (
    select r.first_created_at as at from mirror.records r
    where {entries} order by r.first_created_at desc limit 1
  ) as l on true
), put as (
  insert into mirror.activity as a (
    subject, half_life_seconds, newest_at, weight, weight_error, held, rank, posts_7d, posts_30d, authors_7d,
    last_at, days, day_posts, day_authors, refreshed_at, due_at
  )
  select
    subject, $3, newest_at, weight, 1e-15 * weight, held, {rank}, posts_7d, posts_30d, authors_7d,
    last_at, days, day_posts, day_authors, $1, {due_at}
  from ranked
  on conflict (subject) do update set
    half_life_seconds = excluded.half_life_seconds, newest_at = excluded.newest_at, weight = excluded.weight,
    weight_error = excluded.weight_error, held = excluded.held, rank = excluded.rank,
    posts_7d = excluded.posts_7d, posts_30d = excluded.posts_30d, authors_7d = excluded.authors_7d,
    last_at = excluded.last_at, days = excluded.days,
    day_posts = excluded.day_posts, day_authors = excluded.day_authors,
    refreshed_at = excluded.refreshed_at, due_at = excluded.due_at
  returning subject
), queued as (
  insert into mirror.activity_undelivered (subject) select subject from put
)
select count(*)::integer as written from put where $2::text[] is not null and $4::text[] is not null and $10::integer > 0
  and $5::integer is not null and $6::integer is not null

-- name: drop_marks
-- Entries that are counted anyway are not to be counted again by the marks that tell of them.
delete from mirror.activity_marks where subject = any($1::text[])

-- name: take_recounted
-- The next $2 subjects of a recount of everything, after $1.
select subject from mirror.activity where subject > $1 order by subject limit $2

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
-- Up to $1 entries after $2 of the queue of what the search engine lacks: numbers, with the live keys that show
-- them: a person's profiles ($3 their schemas), a community itself ($4).
select
  u.id, a.subject, a.half_life_seconds, a.newest_at, a.weight, a.held, a.rank, a.posts_7d, a.posts_30d, a.authors_7d,
  a.last_at, a.days, a.day_posts, a.day_authors, k.keys
from (
  select id, subject from mirror.activity_undelivered where id > $2 order by id limit $1
) as u
cross join lateral (select * from mirror.activity a where a.subject = u.subject offset 0) as a
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
order by u.id

-- name: note_delivered
-- The search engine has what these entries of the queue ask for.
delete from mirror.activity_undelivered where id = any($1::bigint[])

-- name: deliver_all
-- The search engine may have lost them: deliver everything again.
insert into mirror.activity_undelivered (subject) select subject from mirror.activity

-- name: is_subject
-- Whether there is anything whose activity can be counted: a record under a key that is no post ($2), or a person.
select
  exists (select from mirror.records where key = $1 and schema <> all($2::text[]))
  or exists (select from mirror.entities where ccid = $1)
  or exists (select from mirror.records where owner = $1)

-- name: activity_of
-- The numbers of one subject.
select
  subject, half_life_seconds, newest_at, weight, held, rank, posts_7d, posts_30d, authors_7d, last_at,
  days, day_posts, day_authors, refreshed_at, due_at,
  not exists (select from mirror.activity_undelivered u where u.subject = a.subject) as delivered,
  exists (select from mirror.activity_marks m where m.subject = a.subject) as marked
from mirror.activity a where subject = $1

-- name: entries_of
-- The newest $4 entries of one subject ($1) since $3.
select r.key, r.author, r.schema, r.first_created_at, count(*) over () as entries
from (select $1::text as subject) as s
cross join mirror.records r
where {entries} and r.first_created_at >= $3 and $2::text[] is not null
order by r.first_created_at desc, r.key
limit $4

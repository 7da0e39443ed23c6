-- Activity: who or what has to be counted again, the counts of days, and the numbers of each subject.
-- A subject is a community (its key) or a person (the CCID). Its entries are records: those directly under the
-- key, or those by the author whose schema is a post schema; an entry's time is first_created_at.

create index records_entries on mirror.records (parent, first_created_at) include (author)
  where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs');
create index records_author on mirror.records (author, first_created_at) include (schema);
create index records_author_entries on mirror.records (author, first_created_at) include (parent)
  where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs');

-- "Count this subject's day again": level-triggered, only ever added to, so that no follower waits for another;
-- a tick takes the rows away in the transaction that counts.
create table mirror.activity_marks (
  subject text collate "C" not null,
  day date not null
);

-- The entries of one UTC day. weight is the sum of 2^((t - newest_at) / half-life) over them, so at least 1.
create table mirror.activity_days (
  subject text collate "C" not null,
  day date not null,
  posts integer not null,
  -- of communities only: 64-bit hashes of the distinct authors, and how many they are
  authors bigint[],
  author_count integer not null,
  oldest_at timestamptz not null,
  newest_at timestamptz not null,
  weight double precision not null,
  primary key (subject, day)
);

-- The numbers of a subject as of refreshed_at; right until due_at unless it is marked.
create table mirror.activity (
  subject text collate "C" primary key,
  half_life_seconds double precision not null,
  -- the newest entry that is not in the future; weight is relative to it, 0 when none counts
  newest_at timestamptz,
  weight double precision not null,
  -- entries of the future, each held at weight 1
  held integer not null,
  -- log2 of the sum of 2^(t / half-life): orders by score, and does not move with time
  rank double precision not null,
  posts_7d integer not null,
  posts_30d integer not null,
  authors_7d integer,
  last_at timestamptz,
  -- the profile that stands for a person: the one that ends in /main, else the smallest key
  profile text collate "C",
  days date[] not null,
  day_posts integer[] not null,
  day_authors integer[] not null,
  refreshed_at timestamptz not null,
  due_at timestamptz,
  revision bigint not null default 1,
  delivered boolean not null default false
) with (fillfactor = 80);

create index activity_due_at on mirror.activity (due_at) where due_at is not null;
create index activity_undelivered on mirror.activity (subject) where not delivered;

-- What the numbers were counted with. recounted_to: a recount of everything has come so far; null: none is due.
create table mirror.activity_settings (
  sole boolean primary key default true check (sole),
  half_life_seconds double precision not null,
  history_days integer not null,
  post_schemas text[] not null,
  profile_schemas text[] not null,
  recounted_to text collate "C",
  ticked_at timestamptz
);

-- Triggers, so that no statement that changes records can forget to mark. One per statement and over all its
-- rows; updates go row by row, for only those that change what is counted cost anything.
create function mirror.mark_added_records() returns trigger language plpgsql as $$
begin
  insert into mirror.activity_marks (subject, day)
  select author, (first_created_at at time zone 'UTC')::date from added
  union
  select owner, (first_created_at at time zone 'UTC')::date from added where strpos(owner, '.') = 0
  union
  select parent, (first_created_at at time zone 'UTC')::date from added
  where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs')
  union
  -- it may be a community itself, whose document is new to the search engine
  select key, (first_created_at at time zone 'UTC')::date from added
  where href is null and (strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs'));
  return null;
end
$$;

create function mirror.mark_removed_records() returns trigger language plpgsql as $$
begin
  insert into mirror.activity_marks (subject, day)
  select author, (first_created_at at time zone 'UTC')::date from removed
  union
  select owner, (first_created_at at time zone 'UTC')::date from removed where strpos(owner, '.') = 0
  union
  select parent, (first_created_at at time zone 'UTC')::date from removed
  where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs');
  return null;
end
$$;

create function mirror.mark_changed_record() returns trigger language plpgsql as $$
declare
  subjects text[] := array[old.author, new.author];
begin
  if strpos(new.owner, '.') > 0 or length(new.owner) <> 42 or left(new.owner, 3) not in ('con', 'ccs') then
    subjects := subjects || new.parent;
    if new.href is null then
      subjects := subjects || new.key;
    end if;
  else
    subjects := subjects || new.owner;
  end if;
  insert into mirror.activity_marks (subject, day)
  select s, (old.first_created_at at time zone 'UTC')::date from unnest(subjects) s
  union
  select s, (new.first_created_at at time zone 'UTC')::date from unnest(subjects) s;
  return null;
end
$$;

create trigger records_added after insert on mirror.records
  referencing new table as added for each statement execute function mirror.mark_added_records();
create trigger records_removed after delete on mirror.records
  referencing old table as removed for each statement execute function mirror.mark_removed_records();
create trigger records_changed after update on mirror.records
  for each row
  when (
    old.author <> new.author or old.schema <> new.schema or old.first_created_at <> new.first_created_at
  )
  execute function mirror.mark_changed_record();

-- What is there already is counted by the first tick.
insert into mirror.activity_marks (subject, day)
select author, (first_created_at at time zone 'UTC')::date from mirror.records
union
select owner, (first_created_at at time zone 'UTC')::date from mirror.records where strpos(owner, '.') = 0
union
select parent, (first_created_at at time zone 'UTC')::date from mirror.records
where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs')
union
select key, (first_created_at at time zone 'UTC')::date from mirror.records
where href is null and (
  strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs')
);

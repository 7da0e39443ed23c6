-- Activity: what changed since it was last counted, and the numbers of each subject.
-- A subject is a community (its key) or a person (the CCID). Its entries are records: those directly under the
-- key, or those by the author whose schema is a post schema; an entry's time is first_created_at. References are
-- nobody's posts. What is directly below a domain's key is an entry: hence the conditions.

create index records_posts on mirror.records (author, first_created_at) where href is null;
create index records_entries on mirror.records (parent, first_created_at)
  where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs');
create index records_author_entries on mirror.records (author, parent, first_created_at)
  where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs');

-- Entries that came (change 1) or went (-1) since the last tick, and what else a subject has to be looked at for
-- (0). Only ever added to, so that no follower waits for another; a tick takes the rows away in the transaction
-- that counts them. detail is the author of a community's entry, the schema of a person's record.
create table mirror.activity_marks (
  subject text collate "C" not null,
  at timestamptz,
  detail text collate "C",
  change smallint not null
);

-- The numbers of a subject as of refreshed_at; right until due_at but for what is marked.
create table mirror.activity (
  subject text collate "C" primary key,
  half_life_seconds double precision not null,
  refreshed_at timestamptz not null,
  due_at timestamptz,
  -- the newest entry that is not in the future; weight is relative to it, 0 when none counts
  newest_at timestamptz,
  weight double precision not null,
  -- what rounding can have done to weight, at most
  weight_error double precision not null,
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
  -- posts and authors by UTC day: what is told of one day in several places adds up
  days date[] not null,
  day_posts integer[] not null,
  day_authors integer[] not null
) with (fillfactor = 60);

create index activity_due_at on mirror.activity (due_at) where due_at is not null;

-- Subjects whose numbers the search engine lacks. Only ever added to by ticks; what was delivered is taken away by
-- id, so that numbers which changed meanwhile stay to be delivered.
create table mirror.activity_undelivered (
  id bigint generated always as identity primary key,
  subject text collate "C" not null
);

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
  insert into mirror.activity_marks (subject, at, detail, change)
  select author, first_created_at, schema, 1 from added where href is null
  union all
  select parent, first_created_at, author, 1 from added
  where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs')
  union all
  -- it may be a profile of somebody's that somebody else wrote
  select owner, null, schema, 0 from added where owner <> author and strpos(owner, '.') = 0
  union all
  -- it may be a community itself, whose document is new to the search engine
  select key, null, null, 0 from added
  where href is null and (strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs'));
  return null;
end
$$;

create function mirror.mark_removed_records() returns trigger language plpgsql as $$
begin
  insert into mirror.activity_marks (subject, at, detail, change)
  select author, first_created_at, schema, -1 from removed where href is null
  union all
  select parent, first_created_at, author, -1 from removed
  where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs')
  union all
  select owner, null, schema, 0 from removed where owner <> author and strpos(owner, '.') = 0;
  return null;
end
$$;

create function mirror.mark_changed_record() returns trigger language plpgsql as $$
begin
  insert into mirror.activity_marks (subject, at, detail, change)
  select author, first_created_at, schema, change
  from (values
    (old.author, old.first_created_at, old.schema, old.href, -1::smallint),
    (new.author, new.first_created_at, new.schema, new.href, 1::smallint)
  ) as person (author, first_created_at, schema, href, change)
  where href is null;
  if strpos(new.owner, '.') > 0 or length(new.owner) <> 42 or left(new.owner, 3) not in ('con', 'ccs') then
    insert into mirror.activity_marks (subject, at, detail, change)
    values
      (new.parent, old.first_created_at, old.author, -1), (new.parent, new.first_created_at, new.author, 1);
    if new.href is null then
      insert into mirror.activity_marks (subject, at, detail, change) values (new.key, null, null, 0);
    end if;
  elsif new.owner <> old.author or new.owner <> new.author then
    insert into mirror.activity_marks (subject, at, detail, change)
    values (new.owner, null, old.schema, 0), (new.owner, null, new.schema, 0);
  end if;
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
    or (old.href is null) <> (new.href is null)
  )
  execute function mirror.mark_changed_record();

-- What is there already is counted by the first tick.
insert into mirror.activity_marks (subject, change)
select author, 0 from mirror.records where href is null
union
select owner, 0 from mirror.records where strpos(owner, '.') = 0
union
select parent, 0 from mirror.records
where strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs')
union
select key, 0 from mirror.records
where href is null and (strpos(owner, '.') > 0 or length(owner) <> 42 or left(owner, 3) not in ('con', 'ccs'));

-- The mirror of the network's public state, and the queue that feeds the projection.

-- Servers that discovery has named. Never deleted.
create table mirror.servers (
  domain text collate "C" primary key,
  csid text,
  layer text,
  version text,
  software_version text,
  software_build_time text,
  meta text,
  endpoints jsonb not null default '{}',
  state text not null default 'discovered',
  discovered_at timestamptz not null,
  last_seen_at timestamptz,
  last_crawled_at timestamptz,
  failure_class text,
  consecutive_failures integer not null default 0,
  failing_since timestamptz,
  last_error text,
  last_error_at timestamptz,
  next_poll_at timestamptz not null,
  commits bigint not null default 0,
  malformed bigint not null default 0,
  rejected bigint not null default 0,
  -- how long after a run the server is asked again, as it has been of late
  poll_seconds double precision,
  -- whoever holds the lease follows; each claim raises the epoch, which every page transaction checks
  lease_holder text,
  lease_until timestamptz,
  lease_epoch bigint not null default 0,
  -- when the projection was last told of it
  marked_at timestamptz,
  -- of about the last thousand commits, how many were rejected; older ones fade
  recent_commits real not null default 0,
  recent_rejected real not null default 0
);

create index servers_next_poll_at on mirror.servers (next_poll_at);

-- Where each feed has been read to. The cursor is the server's own text; cursor_ns its nanoseconds.
create table mirror.cursors (
  domain text collate "C" primary key references mirror.servers (domain),
  cursor text,
  cursor_ns numeric(30),
  -- digests of the rows of the last page applied: where the rows that were read before end
  seen bigint[] not null default '{}',
  -- set while a log that went back is read again: rows up to this instant are known
  replay_until_ns numeric(30),
  replayed_at timestamptz,
  replay_owed boolean not null default false,
  caught_up boolean not null default false,
  caught_up_at timestamptz,
  last_finished_at timestamptz,
  latest_post_at timestamptz,
  partial_instants bigint not null default 0
);

-- Hosts whose well-known names another domain; that one is followed, they are not.
create table mirror.aliases (
  alias text collate "C" primary key,
  domain text collate "C" not null,
  seen_at timestamptz not null
);

-- Servers that moved to another domain: what was theirs is the new one's, and they are followed no more.
create table mirror.moves (
  old text collate "C" primary key,
  new text collate "C" not null,
  moved_at timestamptz not null
);

-- One row per live key, of any schema. Keys are canonical, byte-wise ordered.
create table mirror.records (
  key text collate "C" primary key,
  owner text collate "C" not null,
  author text collate "C" not null,
  schema text collate "C" not null,
  parent text collate "C" not null,
  href text collate "C",
  source text collate "C" not null,
  cdid text collate "C" not null,
  created_at timestamptz not null,
  first_created_at timestamptz not null,
  indexed_at timestamptz,
  signed text not null,
  -- said about an owner of whom nobody knows yet where they live, without a proof that holds
  provisional boolean not null default false,
  -- asked for by hand, and not brought by its source's feed in order since
  ahead boolean not null default false
) with (fillfactor = 80);

create index records_cdid on mirror.records (cdid);
create index records_href on mirror.records (href) where href is not null;
create index records_schema on mirror.records (schema, key);
create index records_provisional on mirror.records (owner, key) where provisional;
create index records_source on mirror.records (source);

-- Documents that were replaced or removed: read again they change nothing.
create table mirror.retired (
  key text collate "C" not null,
  cdid text collate "C" not null,
  -- createdAt and CDID of the delete that removed it; null when a later document replaced it
  deleted_at timestamptz,
  deleted_by text collate "C",
  primary key (cdid, key)
);

create index retired_key on mirror.retired (key);

-- Deletes, each kept for good.
create table mirror.tombstones (
  owner text collate "C" not null,
  target text collate "C" not null,
  scope text collate "C" not null check (scope in ('key', 'below', 'tree', 'document')),
  created_at timestamptz not null,
  cdid text collate "C" not null,
  author text collate "C" not null,
  source text collate "C" not null,
  provisional boolean not null default false,
  -- by somebody else than the owner: takes and bars its author's records only
  only_author boolean not null default false,
  -- null: taken before documents of deletes were kept
  signed text,
  primary key (target, scope, created_at, cdid)
);

create index tombstones_cdid on mirror.tombstones (cdid);
create index tombstones_owner on mirror.tombstones (owner);
create index tombstones_source on mirror.tombstones (source);

create table mirror.entities (
  ccid text collate "C" primary key,
  domain text collate "C" not null,
  created_at timestamptz not null,
  cdid text collate "C" not null,
  source text collate "C" not null,
  signed text not null,
  -- 0 claimed by the server itself, 1 answered by the seed, 2 proven by a signature that holds
  standing smallint not null default 0
);

create index entities_domain on mirror.entities (domain);
create index entities_source on mirror.entities (source);

-- Who follows whom: one row per acker, ackee and schema; an unack keeps the row, not valid.
create table mirror.acks (
  acker text collate "C" not null,
  ackee text collate "C" not null,
  schema text collate "C" not null,
  valid boolean not null,
  created_at timestamptz not null,
  cdid text collate "C" not null,
  source text collate "C" not null,
  provisional boolean not null default false,
  -- null: taken before documents of follows were kept
  signed text,
  primary key (acker, ackee, schema)
);

create index acks_provisional on mirror.acks (acker) where provisional;
create index acks_source on mirror.acks (source);

-- Commits that could not be used, once each, the newest per server.
create table mirror.dead_letters (
  id bigint generated always as identity primary key,
  domain text collate "C" not null,
  digest bytea not null,
  kind text collate "C" not null,
  reason text collate "C" not null,
  commit text not null,
  seen_at timestamptz not null,
  unique (domain, digest)
);

create index dead_letters_domain on mirror.dead_letters (domain, id);

-- "This key changed": level-triggered, cleared only at the generation that was projected.
create sequence mirror.projection_generation;

create table mirror.projection_queue (
  key text collate "C" primary key,
  generation bigint not null default nextval('mirror.projection_generation'),
  marked_at timestamptz not null,
  former_schemas text[] not null default '{}'
) with (fillfactor = 80);

create index projection_queue_generation on mirror.projection_queue (generation);

-- What one process at a time does: discovery, projection. Kept by renewing, lost by not renewing.
create table mirror.leases (
  name text collate "C" primary key,
  holder text not null,
  until timestamptz not null
);

-- What servers said provisionally of whom somebody follows, each server's newest: one of them will turn out right.
create table mirror.provisional_acks (
  acker text collate "C" not null,
  ackee text collate "C" not null,
  schema text collate "C" not null,
  valid boolean not null,
  created_at timestamptz not null,
  cdid text collate "C" not null,
  source text collate "C" not null,
  signed text,
  primary key (acker, ackee, schema, source)
);

-- What was withdrawn, or rejected later than its page, by server: told apart from the counts of servers, whose rows
-- their own followers hold.
create table mirror.rejected_later (
  domain text collate "C" not null,
  number integer not null
);

create index rejected_later_domain on mirror.rejected_later (domain);

-- Owners to be looked up through the seed, and which servers' feeds brought them: each at its own expense.
create table mirror.unresolved (
  owner text collate "C" not null,
  domain text collate "C" not null,
  met_at timestamptz not null,
  ask_at timestamptz not null,
  -- when the seed last knew nothing of the owner
  unknown_at timestamptz,
  primary key (owner, domain)
);

create index unresolved_ask_at on mirror.unresolved (domain, ask_at, owner);
create index unresolved_unknown_at on mirror.unresolved (domain, unknown_at, met_at, owner);

-- Servers that said something about an owner which was not, or not wholly, accepted. Should the owner turn out to
-- live there, what that server says of the owner is due to be read again, from where the last visit ended.
create table mirror.set_aside (
  owner text collate "C" not null,
  domain text collate "C" not null,
  seen_at timestamptz not null,
  due_at timestamptz,
  -- the place that was reached; `asked` grows each time that it is said to be read from its start
  read_to text,
  read_to_ns bigint,
  asked integer not null default 0,
  primary key (owner, domain)
);

create index set_aside_due on mirror.set_aside (domain, due_at, owner) where due_at is not null;
create index set_aside_domain on mirror.set_aside (domain, seen_at);

-- Servers on which people surely lived until a newer entity document named another: what these said of them is to be
-- taken out and judged again. A leaving that is noted again has another generation.
create sequence mirror.left_home_generation;

create table mirror.left_homes (
  owner text collate "C" not null,
  domain text collate "C" not null,
  generation bigint not null default nextval('mirror.left_home_generation'),
  primary key (owner, domain)
);

create index left_homes_domain on mirror.left_homes (domain, generation);

-- Commits whose proof leans on a document that is not here yet: a reference's post, the enactment of a subkey
-- (these are asked for where their owner lives). Judged again when it is.
create table mirror.waiting (
  domain text collate "C" not null,
  digest bytea not null,
  href text collate "C" not null,
  is_enactment boolean not null,
  commit text not null,
  seen_at timestamptz not null,
  accepted boolean not null default false,
  ask_at timestamptz,
  tries smallint not null default 0,
  primary key (domain, digest)
);

create index waiting_href on mirror.waiting (href);
create index waiting_domain on mirror.waiting (domain, seen_at);
create index waiting_enactments on mirror.waiting (domain, ask_at, href) where is_enactment;
create index waiting_seen_at on mirror.waiting (seen_at) where tries = 0;

-- What look-ups (people, subkeys; pages read again) each feed has caused in the hour that began then.
create table mirror.look_ups (
  domain text collate "C" not null,
  subject text collate "C" not null check (subject in ('person', 'subkey', 'page')),
  since timestamptz not null,
  number integer not null,
  primary key (domain, subject)
);

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
  -- entries of the future, each held at weight 1 apart from weight, until their time has come
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
create index activity_held on mirror.activity (subject) where held > 0;

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

-- What each index of a search engine was last filled from, and the builds that are asked for or under way.

create table mirror.indexes (
  engine text collate "C" not null,
  index_uid text collate "C" not null,
  -- the engine's word for this very index; another one under the same name was never filled
  identity text not null,
  -- what documents are made with: schemas, and the versions of their shape
  fingerprint text not null,
  filled_at timestamptz not null,
  primary key (engine, index_uid)
);

create table mirror.index_builds (
  engine text collate "C" not null,
  index_uid text collate "C" not null,
  reason text not null,
  requested_at timestamptz not null,
  started_at timestamptz,
  -- of the index that is being filled beside the live one
  identity text,
  filled bigint not null default 0,
  total bigint,
  primary key (engine, index_uid)
);

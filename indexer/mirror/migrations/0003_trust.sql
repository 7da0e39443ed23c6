-- Who may say what: how far each thing in the mirror is to be believed, and what is still to be found out.

-- Said about an owner of whom nobody knows yet where they live, without a proof that holds.
alter table mirror.records add column provisional boolean not null default false;
alter table mirror.acks add column provisional boolean not null default false;
alter table mirror.tombstones add column provisional boolean not null default false;
-- A delete by somebody else than the owner: it takes and bars its author's records only.
alter table mirror.tombstones add column only_author boolean not null default false;
-- 0 claimed by the server itself, 1 answered by the seed, 2 proven by a signature that holds.
alter table mirror.entities add column standing smallint not null default 0;

create index records_provisional on mirror.records (owner, key) where provisional;
create index acks_provisional on mirror.acks (acker) where provisional;

-- What servers said provisionally of whom somebody follows, each server's newest: one of them will turn out right.
create table mirror.provisional_acks (
  acker text collate "C" not null,
  ackee text collate "C" not null,
  schema text collate "C" not null,
  valid boolean not null,
  created_at timestamptz not null,
  cdid text collate "C" not null,
  source text collate "C" not null,
  primary key (acker, ackee, schema, source)
);

-- What was withdrawn, or rejected later than its page, by server: told apart from the counts of servers, whose rows
-- their own followers hold.
create table mirror.rejected_later (
  domain text collate "C" not null,
  number integer not null
);

create index rejected_later_domain on mirror.rejected_later (domain);

-- Owners to be looked up through the seed, and which server's feed brought them.
create table mirror.unresolved (
  owner text collate "C" primary key,
  domain text collate "C" not null,
  met_at timestamptz not null,
  ask_at timestamptz not null
);

create index unresolved_ask_at on mirror.unresolved (ask_at);

-- Servers that said something about an owner which was not, or not wholly, accepted. Should the owner turn out to
-- live there, what that server says of the owner is due to be read again.
create table mirror.set_aside (
  owner text collate "C" not null,
  domain text collate "C" not null,
  seen_at timestamptz not null,
  due_at timestamptz,
  primary key (owner, domain)
);

create index set_aside_due on mirror.set_aside (due_at) where due_at is not null;
create index set_aside_domain on mirror.set_aside (domain, seen_at);

-- Commits whose proof leans on a document that is not here yet: a reference's post, the enactment of a subkey
-- (these are asked for where their owner lives). Judged again when it is.
create table mirror.waiting (
  domain text collate "C" not null,
  digest bytea not null,
  href text collate "C" not null,
  is_enactment boolean not null,
  commit text not null,
  seen_at timestamptz not null,
  primary key (domain, digest)
);

create index waiting_href on mirror.waiting (href);
create index waiting_domain on mirror.waiting (domain, seen_at);
create index waiting_enactments on mirror.waiting (href, domain) where is_enactment;

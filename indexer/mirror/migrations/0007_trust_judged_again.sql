-- What judging again needs, how much look-ups have cost, and how feeds have been of late.

-- The signed documents of follows and deletes; null: taken before they were kept, so never judged again.
alter table mirror.acks add column signed text;
alter table mirror.provisional_acks add column signed text;
alter table mirror.tombstones add column signed text;

-- Of about the last thousand commits of a feed, how many were rejected; older ones fade.
alter table mirror.servers
  add column recent_commits real not null default 0,
  add column recent_rejected real not null default 0;

-- What look-ups (people, subkeys) each feed has caused in the hour that began then.
create table mirror.look_ups (
  domain text collate "C" not null,
  subject text collate "C" not null check (subject in ('person', 'subkey')),
  since timestamptz not null,
  number integer not null,
  primary key (domain, subject)
);

-- Whoever names a person has them looked up at the expense of their own feed: one that names everybody first must not
-- make others wait for its budget.
alter table mirror.unresolved drop constraint unresolved_pkey;
alter table mirror.unresolved add primary key (owner, domain);

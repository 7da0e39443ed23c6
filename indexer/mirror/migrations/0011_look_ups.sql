-- How far a log was read again, so that a visit goes on where the last one ended.
-- Each time that it is said to be read, `asked` grows.
alter table mirror.set_aside
  add column read_to text, add column read_to_ns bigint, add column asked integer not null default 0;
drop index mirror.set_aside_due;
create index set_aside_due on mirror.set_aside (domain, due_at, owner) where due_at is not null;

-- The pages of logs read again count too, by the server that gives them.
alter table mirror.look_ups drop constraint look_ups_subject_check;
alter table mirror.look_ups
  add constraint look_ups_subject_check check (subject in ('person', 'subkey', 'page'));

-- Who is asked about next is found without looking at all of them.
drop index mirror.unresolved_ask_at;
create index unresolved_ask_at on mirror.unresolved (domain, ask_at, owner);

-- Of commits that wait: whether they stand provisionally; when their enactment is asked for, and how often where its
-- owner lives did not answer.
alter table mirror.waiting
  add column accepted boolean not null default false,
  add column ask_at timestamptz,
  add column tries smallint not null default 0;
update mirror.waiting set ask_at = seen_at where is_enactment;
drop index mirror.waiting_enactments;
create index waiting_enactments on mirror.waiting (domain, ask_at, href) where is_enactment;
create index waiting_seen_at on mirror.waiting (seen_at) where tries = 0;

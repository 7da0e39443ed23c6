-- How far a log was read again, so that a visit goes on where the last one ended.
alter table mirror.set_aside add column read_to text, add column read_to_ns bigint;
drop index mirror.set_aside_due;
create index set_aside_due on mirror.set_aside (domain, due_at, owner) where due_at is not null;

-- The pages of logs read again count too, by the server that gives them.
alter table mirror.look_ups drop constraint look_ups_subject_check;
alter table mirror.look_ups
  add constraint look_ups_subject_check check (subject in ('person', 'subkey', 'page'));

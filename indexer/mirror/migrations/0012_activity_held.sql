-- Subjects that hold entries of the future are looked at by every tick, whatever else is due.
create index activity_held on mirror.activity (subject) where held > 0;

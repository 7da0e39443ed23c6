-- Of a feed's people who are to be looked up the newest are kept; first go those of whom the seed knew nothing.
alter table mirror.unresolved add column unknown_at timestamptz;
create index unresolved_unknown_at on mirror.unresolved (domain, unknown_at, met_at, owner);

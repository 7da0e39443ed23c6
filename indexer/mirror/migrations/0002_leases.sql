-- Several processes share one database: servers and roles are leased, and a lease that ran out fences its holder.

alter table mirror.servers
  add column poll_seconds double precision,
  add column lease_holder text,
  add column lease_until timestamptz,
  add column lease_epoch bigint not null default 0,
  add column marked_at timestamptz;

create table mirror.leases (
  name text collate "C" primary key,
  holder text not null,
  until timestamptz not null
);

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

-- What went of one person's is found by key.
create index retired_key on mirror.retired (key);

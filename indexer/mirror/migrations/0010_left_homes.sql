-- Where people surely lived until a newer entity document, created at `since`, named another server: what the server
-- that they left said of them from then on is to be judged again.
create table mirror.left_homes (
  owner text collate "C" not null,
  domain text collate "C" not null,
  since timestamptz not null,
  primary key (owner, domain)
);

create index left_homes_domain on mirror.left_homes (domain);

-- Which records were asked for by hand, ahead of their source's feed.
alter table mirror.records add column ahead boolean not null default false;

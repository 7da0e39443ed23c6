-- A move changes what is the old server's, and reads nothing of others.
create index records_source on mirror.records (source);
create index acks_source on mirror.acks (source);
create index tombstones_source on mirror.tombstones (source);
create index entities_domain on mirror.entities (domain);
create index entities_source on mirror.entities (source);

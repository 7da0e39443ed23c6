-- What each index of a search engine was last filled from, and the builds that are asked for or under way.

create table mirror.indexes (
  engine text collate "C" not null,
  index_uid text collate "C" not null,
  -- the engine's word for this very index; another one under the same name was never filled
  identity text not null,
  -- what documents are made with: schemas, and the versions of their shape
  fingerprint text not null,
  filled_at timestamptz not null,
  primary key (engine, index_uid)
);

create table mirror.index_builds (
  engine text collate "C" not null,
  index_uid text collate "C" not null,
  reason text not null,
  requested_at timestamptz not null,
  started_at timestamptz,
  -- of the index that is being filled beside the live one
  identity text,
  filled bigint not null default 0,
  total bigint,
  primary key (engine, index_uid)
);

-- Servers that moved to another domain: what was theirs is the new one's, and they are followed no more.

create table mirror.moves (
  old text collate "C" primary key,
  new text collate "C" not null,
  moved_at timestamptz not null
);

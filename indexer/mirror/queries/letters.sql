-- Statements that keep commits that could not be used.

-- name: keep_dead_letters
-- Commits that could not be used, once each.
insert into mirror.dead_letters (domain, digest, kind, reason, commit, seen_at)
select $1, digest, kind, reason, text, $6 from unnest($2::bytea[], $3::text[], $4::text[], $5::text[])
  as t (digest, kind, reason, text)
on conflict (domain, digest) do nothing

-- name: trim_dead_letters
-- Keep the newest $2 of a server.
delete from mirror.dead_letters
where domain = $1 and id <= (
  select id from mirror.dead_letters where domain = $1 order by id desc offset $2 limit 1
)

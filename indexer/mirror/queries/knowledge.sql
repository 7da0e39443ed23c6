-- What the mirror knows of one thing that somebody asks about.

-- name: home
-- Where a person lives, and how sure that is.
select coalesce(m.new, e.domain) as domain, e.standing
from mirror.entities e left join mirror.moves m on m.old = e.domain
where e.ccid = $1

-- name: moved_to
-- Where a domain has moved to.
select new from mirror.moves where old = $1

-- name: servers_with_key
-- The servers that claim a server key.
select domain from mirror.servers where csid = $1 order by domain limit 2

-- name: document_stands
-- Whether this document stands under this key.
select exists (select from mirror.records where key = $1 and cdid = $2) as stands

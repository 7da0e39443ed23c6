-- Leases of roles. The database's clock decides.

-- name: acquire
-- Take a role that nobody holds, or whose holder stopped renewing. $1 role, $2 holder, $3 seconds.
insert into mirror.leases as l (name, holder, until)
values ($1, $2, clock_timestamp() + make_interval(secs => $3))
on conflict (name) do update set holder = excluded.holder, until = excluded.until
where l.until <= clock_timestamp() or l.holder = excluded.holder
returning name

-- name: renew
-- Keep a role.
update mirror.leases set until = clock_timestamp() + make_interval(secs => $3)
where name = $1 and holder = $2
returning name

-- name: release
-- Give a role up.
delete from mirror.leases where name = $1 and holder = $2

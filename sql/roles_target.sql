-- The least that the target's side needs. Once, by an administrator, connected to any other database:
--
--   psql -v ON_ERROR_STOP=1 -d postgres -f roles_target.sql    -- and then set the role's password: \password pgbaton
--
-- The role owns one database and nothing else on that server.

create role pgbaton login;
create database shop owner pgbaton template template0;

-- 15 and newer. Without it foreign keys and triggers are made by `finish` instead of with the other constraints, and
-- `resync` refuses tables of the target that have any.
select current_setting('server_version_num')::int >= 150000 as has_parameter_rights \gset
\if :has_parameter_rights
grant set on parameter session_replication_role to pgbaton;
\endif

-- The roles that own things on the source must exist here, with pgbaton a member of them; or leave owners and rights
-- out, with --no-owner --no-privileges:
--
--   CREATE ROLE app; GRANT app TO pgbaton;
--   GRANT CREATE ON SCHEMA public TO app;       -- in database shop: 15 and newer, where app has tables in public
--
-- For `rebuild`, beside that (it makes, renames and drops databases, and keeps its registry in database postgres):
--
--   ALTER ROLE pgbaton CREATEDB; GRANT pg_signal_backend TO pgbaton; GRANT CREATE ON DATABASE postgres TO pgbaton;

-- Who, beside the role that asks, superusers and the database's owner, could make code of their own run with the rights
-- of whoever uses schema pgbaton: owners of it and of what is in it, and whom they let create there or plant triggers.
-- Null when nobody.
with trusted as (
  select oid from pg_catalog.pg_roles where rolsuper or rolname = current_user
  union
  select datdba from pg_catalog.pg_database where datname = pg_catalog.current_database()
), things as (
  select oid, nspowner as owner, nspacl as acl from pg_catalog.pg_namespace where nspname = 'pgbaton'
  union all
  select c.oid, c.relowner, c.relacl from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where n.nspname = 'pgbaton' and c.relkind in ('r', 'p', 'v', 'm', 'f')
), found as (
  select owner as role from things
  union
  select x.grantee from things cross join lateral pg_catalog.aclexplode(things.acl) x
   where x.privilege_type in ('CREATE', 'TRIGGER')
)
select pg_catalog.string_agg(case when role = 0 then 'PUBLIC' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(role)) end, ', ')
  from found where role not in (select oid from trusted)

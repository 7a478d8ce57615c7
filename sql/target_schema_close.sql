-- After an installation or a migration of schema pgbaton: ALTER DEFAULT PRIVILEGES of the role may have given the new
-- tables to others, who could then change what is ours, or plant triggers that run as us. One at a time: two that take
-- the same right back end with "tuple concurrently updated".
do $$
declare
  statement text;
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('pgbaton.close', 0));
  for statement in
    select format('revoke create on schema pgbaton from %s',
                  case when x.grantee = 0 then 'public' else quote_ident(pg_catalog.pg_get_userbyid(x.grantee)) end)
      from pg_catalog.pg_namespace n cross join lateral pg_catalog.aclexplode(n.nspacl) x
     where n.nspname = 'pgbaton' and x.privilege_type = 'CREATE' and x.grantee <> n.nspowner
    union
    -- The registry of `rebuild` may be shared with other roles on purpose.
    select format('revoke %struncate, references, trigger on pgbaton.%I from %s',
                  case when c.relname <> 'generation' then 'insert, update, delete, ' end, c.relname,
                  case when x.grantee = 0 then 'public' else quote_ident(pg_catalog.pg_get_userbyid(x.grantee)) end)
      from pg_catalog.pg_class c cross join lateral pg_catalog.aclexplode(c.relacl) x
     where c.relnamespace = 'pgbaton'::regnamespace and c.relkind = 'r'
       and x.privilege_type <> 'SELECT' and x.grantee <> c.relowner
  loop
    execute statement;
  end loop;
end $$;

-- What makes database $2 like database $1: owner, connection limit, comment, rights. One statement per row, in order.
-- Settings are carried over by copy_database_properties(); those that $2 has by now are reset here.
with l as (select * from pg_catalog.pg_database where datname = $1),
     n as (select * from pg_catalog.pg_database where datname = $2),
     acls as (select l.datname as live, n.datname, n.datdba, l.datdba as owner,
                     coalesce(l.datacl, acldefault('d', l.datdba)) as wanted,
                     coalesce(n.datacl, acldefault('d', n.datdba)) as present
                from l, n where l.datacl is distinct from n.datacl)
select statement from (
  select 10 as step, format('alter database %I owner to %I', n.datname, pg_get_userbyid(l.datdba)) as statement
    from l, n where l.datdba <> n.datdba
  union all
  select 20, format('alter database %I connection limit %s', n.datname, l.datconnlimit)
    from l, n where l.datconnlimit <> n.datconnlimit
  union all
  select 30, format('comment on database %I is %L', n.datname, shobj_description(l.oid, 'pg_database'))
    from l, n where shobj_description(l.oid, 'pg_database') is distinct from shobj_description(n.oid, 'pg_database')
  union all
  select distinct 40, format('revoke all on database %I from %s cascade', datname,
                             case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end)
    from acls, aclexplode(present) where grantee not in (datdba, owner)
  union all
  select 50, format('grant %s on database %I to %s%s', privilege_type, datname,
                    case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end,
                    case when is_grantable then ' with grant option' else '' end)
    from acls, aclexplode(wanted) where grantee <> owner
  union all
  select 60, case s.setrole when 0 then format('alter database %I reset all', n.datname)
             else format('alter role %I in database %I reset all', pg_get_userbyid(s.setrole), n.datname) end
    from n join pg_catalog.pg_db_role_setting s on s.setdatabase = n.oid, l
) as statements order by step;

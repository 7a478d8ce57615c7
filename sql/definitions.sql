-- What stands beside rows: psql -f sql/definitions.sql, on either side, majors 12 to 18, with an empty search_path.
-- One row for each relation and sequence (part ''), for what belongs to a relation, and for each function. What a parent hands down to its
-- partitions stands with the parent only; what extensions own, and pgbaton's own, is left out.
--   kind, schema_name, relation, part   the key; of a function its name and its arguments
--   called      how a person says it
--   referenced  the table that a foreign key refers to
--   text        what must be the same, without casts and brackets: those change when an expression is restored
--   make, take  statements
--   enforces    whether one that only the target has changes what the application may do there
with relations as (
  select c.oid, c.relname, n.nspname, c.relkind, c.relispartition, c.relrowsecurity, c.relforcerowsecurity,
         format('%I.%I', n.nspname, c.relname) as name
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where c.relkind in ('r', 'p', 'v', 'm', 'f') and c.relpersistence <> 't'
     and n.nspname not in ('information_schema', 'pgbaton', 'pgbaton_fence') and n.nspname !~ '^pg_'
     and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_class'::regclass
                        and d.objid = c.oid and d.objsubid = 0 and d.deptype = 'e')
), parts as (
  select case r.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table'
                        else 'table' end as kind,
         r.nspname, r.relname, '' as part, null as called, null as referenced,
         case when r.relkind in ('v', 'm') then
           (select string_agg(a.attname, ',' order by a.attnum) from pg_catalog.pg_attribute a
             where a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped) end as text,
         null as make, null as take, false as enforces
    from relations r
  union all
  select 'index', r.nspname, r.relname, x.relname, case when i.indisunique then 'unique index ' else 'index ' end
         || quote_ident(x.relname), null, replace(pg_catalog.pg_get_indexdef(x.oid), ' ON ONLY ', ' ON '),
         replace(pg_catalog.pg_get_indexdef(x.oid), ' ON ONLY ', ' ON '), format('DROP INDEX %I.%I', r.nspname, x.relname),
         i.indisunique
    from relations r join pg_catalog.pg_index i on i.indrelid = r.oid join pg_catalog.pg_class x on x.oid = i.indexrelid
   where i.indisvalid and not x.relispartition
     and not exists (select from pg_catalog.pg_constraint k where k.conindid = x.oid and k.conrelid = r.oid
                        and k.contype in ('p', 'u', 'x'))
  union all
  select 'constraint', r.nspname, r.relname, k.conname,
         case k.contype when 'p' then 'primary key ' when 'u' then 'unique constraint ' when 'f' then 'foreign key '
                        when 'x' then 'exclusion constraint ' else 'check constraint ' end || quote_ident(k.conname),
         case when k.contype = 'f' then (select format('%I.%I', n.nspname, f.relname) from pg_catalog.pg_class f
            join pg_catalog.pg_namespace n on n.oid = f.relnamespace where f.oid = k.confrelid) end,
         pg_catalog.pg_get_constraintdef(k.oid),
         format('ALTER TABLE %s ADD CONSTRAINT %I %s', r.name, k.conname, pg_catalog.pg_get_constraintdef(k.oid)),
         format('ALTER TABLE %s DROP CONSTRAINT %I', r.name, k.conname), true
    from relations r join pg_catalog.pg_constraint k on k.conrelid = r.oid
   where k.contype in ('p', 'u', 'x', 'c', 'f') and k.conparentid = 0 and k.coninhcount = 0
  union all
  select 'not null', r.nspname, r.relname, a.attname, 'NOT NULL of column ' || quote_ident(a.attname), null, '',
         format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', r.name, a.attname),
         format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', r.name, a.attname), true
    from relations r join pg_catalog.pg_attribute a on a.attrelid = r.oid
   where r.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped and a.attnotnull
     and a.attname <> '_pgbaton_lsn'
     and not exists (select from pg_catalog.pg_inherits h join pg_catalog.pg_attribute p on p.attrelid = h.inhparent
                      where h.inhrelid = r.oid and p.attname = a.attname and p.attnotnull)
  union all
  select 'default', r.nspname, r.relname, a.attname,
         case when a.attidentity <> '' then 'identity of column ' when a.attgenerated <> '' then 'expression of column '
              else 'default of column ' end || quote_ident(a.attname), null,
         a.attidentity::text || a.attgenerated::text || coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), ''),
         format('ALTER TABLE %s ALTER COLUMN %I %s', r.name, a.attname,
                case when a.attidentity <> '' then format('ADD GENERATED %s AS IDENTITY',
                                                          case a.attidentity when 'a' then 'ALWAYS' else 'BY DEFAULT' end)
                     when a.attgenerated <> '' then format('SET EXPRESSION AS (%s)',
                                                           pg_catalog.pg_get_expr(d.adbin, d.adrelid))
                     else 'SET DEFAULT ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid) end),
         format('ALTER TABLE %s ALTER COLUMN %I DROP %s', r.name, a.attname,
                case when a.attidentity <> '' then 'IDENTITY' when a.attgenerated <> '' then 'EXPRESSION'
                     else 'DEFAULT' end), true
    from relations r join pg_catalog.pg_attribute a on a.attrelid = r.oid
         left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where r.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped and a.attname <> '_pgbaton_lsn'
     and (a.atthasdef or a.attidentity <> '')
  union all
  select 'row security', r.nspname, r.relname, w.word, 'row security (' || lower(w.word) || ')', null, '',
         format('ALTER TABLE %s %s ROW LEVEL SECURITY', r.name, w.word),
         format('ALTER TABLE %s %s ROW LEVEL SECURITY', r.name, w.otherwise), true
    from relations r cross join (values ('ENABLE', 'DISABLE'), ('FORCE', 'NO FORCE')) w(word, otherwise)
   where case w.word when 'ENABLE' then r.relrowsecurity else r.relforcerowsecurity end
  union all
  select 'policy', r.nspname, r.relname, p.polname, 'policy ' || quote_ident(p.polname), null, p.statement, p.statement,
         format('DROP POLICY %I ON %s', p.polname, r.name), true
    from relations r cross join lateral (
      select l.polname, format('CREATE POLICY %I ON %s AS %s FOR %s TO %s', l.polname, r.name,
               case when l.polpermissive then 'PERMISSIVE' else 'RESTRICTIVE' end,
               case l.polcmd when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE' when 'd' then 'DELETE'
                             else 'ALL' end,
               (select string_agg(case o when 0 then 'PUBLIC' else quote_ident(pg_catalog.pg_get_userbyid(o)) end, ', '
                                  order by pg_catalog.pg_get_userbyid(o)) from unnest(l.polroles) o))
             || coalesce(' USING (' || pg_catalog.pg_get_expr(l.polqual, l.polrelid) || ')', '')
             || coalesce(' WITH CHECK (' || pg_catalog.pg_get_expr(l.polwithcheck, l.polrelid) || ')', '') as statement
        from pg_catalog.pg_policy l where l.polrelid = r.oid) p
  union all
  select 'trigger', r.nspname, r.relname, t.tgname, 'trigger ' || quote_ident(t.tgname), null, t.statement, t.statement,
         format('DROP TRIGGER %I ON %s', t.tgname, r.name), true
    from relations r cross join lateral (
      select g.tgname, pg_catalog.pg_get_triggerdef(g.oid)
             || case when g.tgenabled = 'O' then '' else format('; ALTER TABLE %s %s TRIGGER %I', r.name,
                  case g.tgenabled when 'D' then 'DISABLE' when 'R' then 'ENABLE REPLICA' else 'ENABLE ALWAYS' end,
                  g.tgname) end as statement
        from pg_catalog.pg_trigger g join pg_catalog.pg_proc f on f.oid = g.tgfoid
             join pg_catalog.pg_namespace n on n.oid = f.pronamespace
       where g.tgrelid = r.oid and not g.tgisinternal and n.nspname not in ('pgbaton', 'pgbaton_fence')
         and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_trigger'::regclass
                            and d.objid = g.oid and d.refclassid = 'pg_catalog.pg_trigger'::regclass)) t
  union all
  select 'rule', r.nspname, r.relname, u.rulename, 'rule ' || quote_ident(u.rulename), null,
         format('%s %s %s', u.ev_type, u.is_instead, u.ev_enabled), rtrim(pg_catalog.pg_get_ruledef(u.oid), ';'),
         format('DROP RULE %I ON %s', u.rulename, r.name), true
    from relations r join pg_catalog.pg_rewrite u on u.ev_class = r.oid and u.rulename <> '_RETURN'
  union all
  select 'sequence', n.nspname, c.relname, '', null, null, s.settings,
         format('ALTER SEQUENCE %I.%I %s', n.nspname, c.relname, s.settings), null, false
    from pg_catalog.pg_sequence q join pg_catalog.pg_class c on c.oid = q.seqrelid
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace cross join lateral (
      select format('AS %s INCREMENT %s MINVALUE %s MAXVALUE %s CACHE %s %s', pg_catalog.format_type(q.seqtypid, null),
                    q.seqincrement, q.seqmin, q.seqmax, q.seqcache, case when q.seqcycle then 'CYCLE' else 'NO CYCLE' end)
             as settings) s
   where c.relpersistence <> 't' and n.nspname not in ('information_schema', 'pgbaton', 'pgbaton_fence')
     and n.nspname !~ '^pg_'
     and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_class'::regclass
                        and d.objid = c.oid and d.objsubid = 0 and d.deptype = 'e')
  union all
  select 'function', n.nspname, p.proname, pg_catalog.oidvectortypes(p.proargtypes), null, null,
         format('%s %s %s %s', p.prokind, l.lanname, p.prosecdef, pg_catalog.md5(replace(p.prosrc, e'\r', ''))), null, null,
         false
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
         join pg_catalog.pg_language l on l.oid = p.prolang
   where n.nspname not in ('information_schema', 'pgbaton', 'pgbaton_fence') and n.nspname !~ '^pg_'
     and not exists (select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_proc'::regclass
                        and d.objid = p.oid and d.deptype in ('e', 'i'))
)
select kind, nspname as schema_name, relname as relation, part, coalesce(called, '') as called,
       coalesce(referenced, '') as referenced,
       coalesce(regexp_replace(regexp_replace(text,
         '::("[^"]*"|[[:alpha:]_][[:alnum:]_$]*)(\.("[^"]*"|[[:alpha:]_][[:alnum:]_$]*))?( varying| precision)?'
         '(\([0-9, ]+\))?( with(out)? time zone)?(\[\])*', '', 'g'), '[\s()]', '', 'g'), '') as text,
       coalesce(make, '') as make, coalesce(take, '') as take, enforces
  from parts
 order by kind collate "C", nspname collate "C", relname collate "C", part collate "C"

-- The tag of the quotes is longer than a name can be, so that no table's name ends them.
-- The fence: every write to one of the tables is refused, whoever writes and in whatever session, also with
-- session_replication_role = replica. In one transaction with sql/switchover/fence_refuse.sql, which comes first: the
-- locks wait for every transaction that has written to one of the tables, so that none is left open when it commits. The
-- program puts literals in the place of the names with colons: the tables, an array of quoted names.
do $pgbaton_fence_a_tag_that_is_longer_than_any_name_of_a_table_can_be_in_postgresql$
declare
  wanted text;
  is_foreign boolean;
begin
  foreach wanted in array :tables loop
    if (select relkind <> 'f' from pg_catalog.pg_class where oid = wanted::regclass) then
      execute format('lock table only %s in share row exclusive mode', wanted);
    end if;
  end loop;
  foreach wanted in array :tables loop
    continue when exists (select from pg_catalog.pg_trigger t where t.tgrelid = wanted::regclass
                             and t.tgname = 'pgbaton_fence' and t.tgfoid = 'pgbaton_fence.refuse()'::regprocedure);
    -- Foreign tables cannot be locked, nor have triggers for TRUNCATE: those of the tables below them fire.
    is_foreign := (select relkind = 'f' from pg_catalog.pg_class where oid = wanted::regclass);
    execute format('create trigger pgbaton_fence before insert or update or delete %s on %s '
                   'for each statement execute function pgbaton_fence.refuse()',
                   case when is_foreign then '' else 'or truncate' end, wanted);
    execute format('alter table only %s enable always trigger pgbaton_fence', wanted);
  end loop;
exception when lock_not_available or deadlock_detected then
  raise exception using errcode = 'lock_not_available', message = format('no lock in time on <<%s>>', wanted);
end $pgbaton_fence_a_tag_that_is_longer_than_any_name_of_a_table_can_be_in_postgresql$;

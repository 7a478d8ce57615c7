-- Nobody writes to the tables (an array of quoted names), alters them or their triggers, until the end of the
-- transaction; readers go on. Foreign tables cannot be locked: those of the tables below them are.
do $pgbaton_hold_a_tag_that_is_longer_than_any_name_of_a_table_can_be_in_postgresql$
declare
  wanted text;
begin
  foreach wanted in array :tables loop
    if (select relkind <> 'f' from pg_catalog.pg_class where oid = wanted::regclass) then
      execute format('lock table only %s in share mode', wanted);
    end if;
  end loop;
exception when lock_not_available or deadlock_detected then
  raise exception using errcode = 'lock_not_available', message = format('no lock in time on <<%s>>', wanted);
end $pgbaton_hold_a_tag_that_is_longer_than_any_name_of_a_table_can_be_in_postgresql$;

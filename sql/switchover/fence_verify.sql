-- Tries to write to each of the tables (an array of quoted names), and rolls the attempt back. Error where one is not refused.
do $pgbaton_verify_a_tag_that_is_longer_than_any_name_of_a_table_can_be_in_postgresql$
declare
  wanted text;
  accepted text;
begin
  foreach wanted in array :tables loop
    if not exists (select from pg_catalog.pg_trigger t where t.tgrelid = wanted::regclass
                      and t.tgname = 'pgbaton_fence' and t.tgenabled = 'A'
                      and t.tgfoid = 'pgbaton_fence.refuse()'::regprocedure) then
      raise exception 'the fence is missing on %', wanted;
    end if;
    -- An attempt would connect to the other server, and writers wait.
    continue when (select relkind = 'f' from pg_catalog.pg_class where oid = wanted::regclass);
    accepted := wanted;
    begin
      execute format('delete from only %s where false', wanted);
    exception
      when lock_not_available or deadlock_detected then
        raise exception using errcode = 'lock_not_available', message = format('no lock in time on <<%s>>', wanted);
      when others then
        accepted := null;
    end;
    -- A rule may put something else in the place of a statement.
    if accepted is not null and not (select relhasrules from pg_catalog.pg_class where oid = wanted::regclass) then
      raise exception 'a write to % was not refused', wanted;
    end if;
  end loop;
end $pgbaton_verify_a_tag_that_is_longer_than_any_name_of_a_table_can_be_in_postgresql$;

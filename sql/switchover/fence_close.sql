-- The fence: every write to one of the tables is refused, whoever writes and in whatever session, also with
-- session_replication_role = replica. In one transaction: the locks wait for every transaction that has written to one
-- of them, so that none is left open when it commits. The program puts literals in the place of the names with colons:
-- what the schema's comment says, the tables (an array of quoted names), and the beginning of application_name of the
-- sessions that go on ('': none does).
create schema pgbaton_fence;
revoke all on schema pgbaton_fence from public;
comment on schema pgbaton_fence is :about;

create function pgbaton_fence.refuse() returns trigger language plpgsql as $body$
begin
  if :exempt <> '' and starts_with(current_setting('application_name'), :exempt) then
    return null;
  end if;
  raise exception using errcode = 'read_only_sql_transaction',
    message = format('cannot write to %I.%I: the database is being switched over to another server (pgbaton)',
                     tg_table_schema, tg_table_name),
    hint = 'Nothing was written. Connect again and try again in a moment.';
end $body$;

do $fence$
declare
  wanted text;
begin
  foreach wanted in array :tables loop
    execute format('lock table only %s in share row exclusive mode', wanted);
  end loop;
  foreach wanted in array :tables loop
    execute format('create trigger pgbaton_fence before insert or update or delete or truncate on %s '
                   'for each statement execute function pgbaton_fence.refuse()', wanted);
    execute format('alter table only %s enable always trigger pgbaton_fence', wanted);
  end loop;
exception when lock_not_available or deadlock_detected then
  raise exception using errcode = 'lock_not_available', message = format('no lock in time on <<%s>>', wanted);
end $fence$;

-- What refuses writes: a schema of its own with the function that the triggers of the fence call. The program puts
-- literals in the place of the names with colons: what the schema's comment says, and the beginning of application_name
-- of the sessions that go on ('': none does). Run again, it lets other sessions pass, and needs no lock on any table.
create schema if not exists pgbaton_fence;
revoke all on schema pgbaton_fence from public;
comment on schema pgbaton_fence is :about;

create or replace function pgbaton_fence.refuse() returns trigger language plpgsql as $body$
begin
  if :exempt <> '' and starts_with(current_setting('application_name'), :exempt) then
    return null;
  end if;
  raise exception using errcode = 'read_only_sql_transaction',
    message = format('cannot write to %I.%I: the database is being switched over to another server (pgbaton)',
                     tg_table_schema, tg_table_name),
    hint = case when :exempt = '' then 'Nothing was written. Connect again and try again in a moment.'
                else 'Only pgbaton writes here: the application works on the other server, also when a switchover was '
                     'given up. pgbaton status, and pgbaton switchover --undo, say more.' end;
end $body$;

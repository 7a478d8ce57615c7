-- Opens the fence at once, whatever locks the tables are under: the triggers stay and let everything pass.
-- sql/fence_remove.sql takes them away.
create or replace function pgbaton_fence.refuse() returns trigger language plpgsql as $body$
begin
  return null;
end $body$;

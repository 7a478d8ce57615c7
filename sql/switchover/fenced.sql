-- What a fence of some tables (an array of quoted names) has to hold. A statement trigger fires for the table that a
-- statement names, not for those whose rows it changes. So besides the tables themselves: what they inherit from,
-- whatever kind of relation it is (a foreign table, an extension's), and their partitions and children.
with recursive wanted as (
  select name::regclass::oid as oid, number from unnest(:tables) with ordinality as w(name, number)
), down as (
  select oid from wanted
  union
  select c.oid from down join pg_catalog.pg_inherits i on i.inhparent = down.oid
                         join pg_catalog.pg_class c on c.oid = i.inhrelid
   where c.relkind in ('r', 'p') and c.relpersistence <> 't'
), up as (
  select oid from down
  union
  select i.inhparent from up join pg_catalog.pg_inherits i on i.inhrelid = up.oid
)
select n.nspname, c.relname
  from up join pg_catalog.pg_class c on c.oid = up.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join wanted on wanted.oid = up.oid
 order by wanted.number, up.oid

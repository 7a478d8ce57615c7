-- One round of the live load, for pgbench: every shape changes in every way. Each statement is a transaction of its own
-- unless it says otherwise; none fails when it meets another client's rows.
\set k random(1, 200)
\set s random(1, 50)
\set r random(1, 1000000000)
update by_uuid set n = n + 1, at = clock_timestamp() where id = md5(:k::text)::uuid;
update by_two set n = n + 1 where a = :k;
update typed set m = 'tired', d = coalesce(d, 1) + 1, ms = ms || 'keen'::mood, r = int4range(:k, null), j = j || '{"z": null}', dates = null where id = :s;
update toasted set n = n + 1 where id = :s;
update toasted set big = repeat(md5(:r::text), 150), small = 'changed' where id = 1 + :s % 5;
delete from keyless_full where ctid = (select ctid from keyless_full limit 1);
insert into keyless_full values (:s, null, '{"a":  1}'), (:s, 'y', 'null');
update keyless_full set b = 'z' where ctid = (select ctid from keyless_full where b is null limit 1);
insert into keyless values (:r, 'live');
update by_index set remark = coalesce(remark, '') || 'r' where id = :s;
update by_index set code = 'n' || :r || '_' || :client_id where id = 50 + :s;
begin;
insert into ident (v) values ('live');
insert into ident_default (v) values ('live');
insert into serial_rows (v) values (:r);
update serial_rows set v = v + 1 where id = :s;
savepoint s;
delete from ident where id = :s;
rollback to s;
update ident set v = v || 'u' where id = :s;
commit;
select nextval('standalone');
update parted set part = (part + 3) % 10 where id = :k and not exists (select from parted p where p.id = parted.id and p.part = (parted.part + 3) % 10);
update hashed set v = 'h' || :r where id = :k;
update parent set v = 'p' || :r where id = :s;
update heir set extra = 'e' || :r where id = 100 + :s;
begin;
insert into orders values (:r, 'live') on conflict do nothing;
insert into order_lines values (:r, 1, 0) on conflict do nothing;
update order_lines set n = n + 1 where order_id = :s;
commit;
update "Sp a.C"."t""b" set "Ключ" = "Ключ" || 'я' where "select" = :s;
insert into scratch values (:r, 'x') on conflict (id) do update set v = 'again';
update big set id = -id where id in (:k * 20, :k * -20);

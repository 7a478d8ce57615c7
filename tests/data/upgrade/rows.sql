-- First rows, on the source before the clone.
insert into by_uuid select md5(i::text)::uuid, 0, timestamptz '2000-02-29 12:00:00.123456+00' + i * interval '1 day', i * interval '1 month -3 days', i / 7.0
  from generate_series(1, 200) i;
insert into by_two select i, 'k' || i % 10, 0 from generate_series(1, 200) i;
insert into typed select i, (enum_range(null::mood))[1 + i % 3], i, row(i, case when i % 2 = 0 then 'a "b", c' end)::pair,
       array['calm', null, 'tired']::mood[], int4range(i, i + 5), jsonb_build_object('k', i, 'n', null), decode(md5(i::text), 'hex'),
       b'1011', i::money, '10.0.0.1/8', to_tsvector('simple', 'one two'), '<a>x</a>', '{2000-02-29,infinity}'
  from generate_series(1, 100) i;
insert into typed (id) values (0);
insert into toasted select i, 0, repeat(md5(i::text), 200), '' from generate_series(1, 50) i;
insert into keyless_full select i % 5, case when i % 3 > 0 then 'x' end, '{"a":  1}' from generate_series(1, 60) i;
insert into keyless select i, 'x' from generate_series(1, 60) i;
insert into by_index select i, 'c' || i, null from generate_series(1, 100) i;
insert into ident (v) select repeat('v', i % 7) from generate_series(1, 100) i;
insert into ident_default (v) select 'v' from generate_series(1, 50);
insert into serial_rows (v) select i from generate_series(1, 50) i;
select nextval('standalone'), nextval('standalone');
insert into parted select i, i % 10, 'p' from generate_series(1, 200) i;
insert into hashed select i, 'h' from generate_series(1, 200) i;
insert into parent select i, 'p' from generate_series(1, 50) i;
insert into heir select i, 'h', 'e' from generate_series(101, 150) i;
insert into orders select i, 'o' from generate_series(1, 50) i;
insert into order_lines select i, j, 0 from generate_series(1, 50) i, generate_series(1, 3) j;
insert into "Sp a.C"."t""b" select i, 'слово' from generate_series(1, 50) i;
insert into big select i, md5(i::text) from generate_series(1, 5000) i;
insert into pgbench_branches values (1, 0, null);
insert into pgbench_tellers select i, 1, 0 from generate_series(1, 10) i;
insert into pgbench_accounts select i, 1, 0, '' from generate_series(1, 30000) i;

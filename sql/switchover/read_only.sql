-- Whether sessions of the application would begin read-only here, by database or role.
select exists (select from pg_catalog.pg_db_role_setting s cross join unnest(s.setconfig) as c(text)
                where s.setdatabase in (0, (select oid from pg_catalog.pg_database where datname = current_database()))
                  and split_part(c.text, '=', 1) = 'default_transaction_read_only'
                  and lower(split_part(c.text, '=', 2)) in ('on', 'true', 'tru', 'tr', 't', 'yes', 'ye', 'y', '1'))

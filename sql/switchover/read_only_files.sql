-- The same by the server's files, for a role that may look at them: a plain session's own value is hidden by what pgbaton
-- sets for its sessions.
select coalesce((select lower(f.setting) in ('on', 'true', 'tru', 'tr', 't', 'yes', 'ye', 'y', '1')
                   from pg_catalog.pg_show_all_file_settings() f
                  where lower(f.name) = 'default_transaction_read_only' and f.error is null
                  order by f.seqno desc limit 1), false)

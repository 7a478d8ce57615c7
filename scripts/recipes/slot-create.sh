#!/bin/sh
# slot-create.sh SLOT PLUGIN: makes the slot of a consumer of change events on the server that the application moves to
# (PGBATON_NEW). For `hooks:` in section switchover (README, Consumers of change events); psql finds a password in
# ~/.pgpass. The name is this consumer's alone: a slot of that name that nobody uses is left from a run that was given
# up, and made anew.
set -eu
psql -XAtq -v ON_ERROR_STOP=1 -v slot="$1" -v plugin="$2" "$PGBATON_NEW" <<'SQL' >/dev/null
set statement_timeout = '10s';
select pg_drop_replication_slot(slot_name) from pg_replication_slots
 where slot_name = :'slot' and database = current_database() and not active;
select pg_create_logical_replication_slot(:'slot', :'plugin');
SQL

#!/bin/sh
# slot-drained.sh SLOT [SECONDS]: waits until the consumer has confirmed everything that the application committed on
# the server that it leaves (PGBATON_OLD), which is below PGBATON_BARRIER_LSN. At most SECONDS (20). A slot that is gone
# is drained.
set -eu
tries=$((${2:-20} * 10))
while [ "$tries" -gt 0 ]; do
  behind=$(psql -XAtq -v ON_ERROR_STOP=1 -v slot="$1" -v barrier="$PGBATON_BARRIER_LSN" "$PGBATON_OLD" <<'SQL'
select count(*) from pg_replication_slots where slot_name = :'slot' and confirmed_flush_lsn < :'barrier';
SQL
)
  [ "$behind" = 0 ] && exit 0
  tries=$((tries - 1))
  sleep 0.1
done
echo "the consumer of slot $1 has not confirmed $PGBATON_BARRIER_LSN within ${2:-20} s" >&2
exit 1

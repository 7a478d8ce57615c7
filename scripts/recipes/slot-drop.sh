#!/bin/sh
# slot-drop.sh old|new SLOT: drops the slot of a consumer that was stopped, on the server that the application leaves or
# moves to. Waits 10 s for its connection to end; nothing happens where there is no such slot.
set -eu
case $1 in
  old) server=$PGBATON_OLD ;;
  new) server=$PGBATON_NEW ;;
  *) echo "slot-drop.sh old|new SLOT" >&2; exit 2 ;;
esac
tries=100
while [ "$tries" -gt 0 ]; do
  left=$(psql -XAtq -v ON_ERROR_STOP=1 -v slot="$2" "$server" <<'SQL'
select pg_drop_replication_slot(slot_name) from pg_replication_slots
 where slot_name = :'slot' and database = current_database() and not active;
select count(*) from pg_replication_slots where slot_name = :'slot' and database = current_database();
SQL
)
  [ "$(printf '%s\n' "$left" | tail -n 1)" = 0 ] && exit 0
  tries=$((tries - 1))
  sleep 0.1
done
echo "slot $2 is still in use" >&2
exit 1

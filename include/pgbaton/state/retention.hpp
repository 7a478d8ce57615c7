// Retention: how long the guards of deleted rows (tombstones) and the entries of ledgers are kept.
//
// They expire by position, never by clock alone: an entry at LSN b is needed as long as a change below b can still
// arrive. The lowest LSN that can is the smallest of
//   the applied position (the stream drops what is below it, whatever a reader delivers),
//   the position confirmed to the slot,
//   from_lsn of every hold.
// Example: applied 0/900, confirmed 0/880, a resync of t holds from 0/500. Nothing at or above 0/500 goes. The resync
// ends; 0/880 is the limit, whatever the clock says.
//
// A hold announces that somebody will deliver changes of one table out of order (resync, repair, replay):
//   add_hold → the writer takes it up within a second (activate_hold: from_lsn is then not 0) and from that position on
//   every delete of the table leaves a tombstone → take the cut or boundary X; X >= from_lsn, because X is newer → the
//   deliveries → release_hold; or limit_hold(Y) when only the stream's passing of Y ends the danger.
// A hold survives the process that asked for it, so that what was begun can be finished; `status` shows its age.
//
// expire() records in pgbaton.replica.expired_lsn how far it went, in the transaction of the first removal. The server
// refuses every other removal (trigger refuse_early_expiry), and apply refuses an out-of-order change below
// expired_lsn. So an expiry that came too early is impossible, or found out; never a row that comes back.
#pragma once
#include <pgbaton/state/store.hpp>

namespace pgbaton::state {

// The smallest of from_lsn of the active holds; `none` without any.
Lsn oldest_held(const std::vector<Hold>& holds, Lsn none);

}  // namespace pgbaton::state

// --keyless full: the only change that pgbaton ever makes to a user table on the source, and only when asked for. What
// was there before is recorded with the replica first, and comes back when the replica goes.
//
// Example. t has no key. clone records {t, default}, then sets FULL; the target's t is made with it. finish drops the
// publications (before, DEFAULT would make the application's UPDATE fail) and sets DEFAULT on both sides. Where
// somebody else publishes the UPDATEs of t by now, FULL stays, and a warning says so.
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::snapshot {

struct ChosenIdentity {
  catalog::Oid oid = 0;  // on the source
  QualifiedName name;
  std::string before;  // as ALTER TABLE … REPLICA IDENTITY takes it: default, nothing, using index "i"
};

// Describes those of `tables` that the filter takes and that have no usable identity as if they had FULL, and returns
// them. Reads only.
std::vector<ChosenIdentity> assume_identity_full(pg::Control& source, const catalog::TableFilter& filter,
                                                 std::vector<catalog::Table>& tables);

// ALTER TABLE takes a lock that everybody waits behind as soon as it waits itself, so it asks for the lock for a tenth
// of a second and then lets the application go first for a while, again and again. Error(timed_out) when one table took
// longer than `patience`: it names who had the lock. Those that were set before stay so until they are put back.
void set_identity_full(pg::Control& source, const std::vector<ChosenIdentity>& tables, Milliseconds patience,
                       const std::stop_token& stop);

// pgbaton.replica.options with these tables in it, and with those of an earlier start of the replica (`former`, may be
// empty): what that one found is what comes back.
std::string with_identities(const std::string& options, const std::vector<ChosenIdentity>& chosen,
                            const std::string& former);
// Those of a running replica, for tables that came later. Error(held_elsewhere) when the term is over.
void record_identities(pg::Control& target, const state::Replica& replica, const std::vector<ChosenIdentity>& chosen);

// After the replica's publications are gone. Tables that are no longer FULL, or are gone, are left alone. One line for
// each that was set back. The target's only where its definitions came from the source. Error as set_identity_full.
std::vector<std::string> put_identities_back(pg::Control& server, Side side, const state::Replica& replica);

}  // namespace pgbaton::snapshot

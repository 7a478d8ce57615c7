// Behind the fence and before the flip: the proof that nothing can be committed behind the barrier.
//
// A fence refuses statements, so it does not hold a transaction that has switched its triggers off (ALTER TABLE …
// DISABLE TRIGGER, a load, ENABLE TRIGGER), nor one that makes tables and fills them. A seal is a transaction on the
// fence's session that holds SHARE locks on every fenced table. It stands when, with these locks,
//   - nobody else holds a lock on one of the tables with which rows or triggers are changed (readers go on),
//   - every transaction that had an xid when the seal was asked for is over, unless its locks tell that it has only
//     locked rows or written to temporary tables,
//   - the triggers are as they were made, and refuse an attempt.
// What was committed until then is seen by whoever looks at positions and definitions afterwards; what gets an xid
// later can write to no table that is fenced, and make new ones only.
//
// Nobody is waited for under these locks: it might wait for them. A try that gets no lock in a fraction of
// deadlock_timeout, or finds such a transaction, gives them back, as the fence does.
#pragma once
#include <set>

#include "fence.hpp"
#include "holders.hpp"

namespace pgbaton::switchover {

class Seal {
 public:
  // Waits as `request` says: transaction_wait, terminate, while_waiting; for transactions that hold no table only with
  // all_transactions. Error(timed_out) names who is in the way, Error(failed) what the fence does not hold.
  Seal(pg::Connection& fence, const FenceRequest& request, const std::stop_token& stop);
  ~Seal();  // gives the locks back
  Seal(const Seal&) = delete;
  // Error(failed) when the transaction is gone (the server ends it when the session does nothing for kIdle).
  void require() const;

 private:
  void wait_and_hold(const std::stop_token& stop);
  // False with `in_the_way_`.
  bool hold(Milliseconds lock_timeout);
  void look_for_open();
  void verify();
  void end_or_give_up();

  pg::Connection& connection_;
  const FenceRequest& request_;
  std::vector<QualifiedName> tables_;
  std::set<std::string> before_;  // xids
  std::vector<Holder> in_the_way_;
};

}  // namespace pgbaton::switchover

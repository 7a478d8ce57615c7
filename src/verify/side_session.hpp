// One connection that reads on one side's snapshot of the cut. One thread.
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/pg/connection.hpp>

#include <stop_token>

#include "table_plan.hpp"

namespace pgbaton::verify {

class SideSession {
 public:
  SideSession(const pg::Endpoint& endpoint, Where where, const std::string& snapshot_id, Deadline deadline,
              std::stop_token stop);

  // Locks the table (ACCESS SHARE) until the next leave(); false when it is not what the snapshot shows any more:
  // dropped, or rewritten, so that it looks empty.
  bool enter(const TablePlan& plan);
  // Gives the lock back, so that TRUNCATE and DDL wait for one piece and not for the whole comparison.
  void leave();
  pg::Result exec(const std::string& sql);
  Where where() const { return where_; }
  bool alive() const { return PQstatus(connection_.get()) == CONNECTION_OK; }

 private:
  Where where_;
  Deadline deadline_;
  std::stop_token stop_;
  pg::Connection connection_;
};

// enter(), and leave() at the end of the scope, also of one that an error ends: the session can be used on.
class Visit {
 public:
  Visit(SideSession& session, const TablePlan& plan);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  bool is_here() const { return is_here_; }

 private:
  SideSession& session_;
  bool is_here_;
};

}  // namespace pgbaton::verify

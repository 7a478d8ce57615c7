// Event triggers of the application: they fire for DDL, also for pgbaton's own, which they have no say in.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <string>
#include <vector>

namespace pgbaton::catalog {

// session_replication_role = replica as long as it lives, where the role may set it: only those fire that are ENABLE
// ALWAYS or REPLICA. No transaction may be open at either end. Where the role may not do it, nothing changes.
class EventTriggersSilenced {
 public:
  EventTriggersSilenced(pg::Control& connection, Side side);
  ~EventTriggersSilenced();
  EventTriggersSilenced(const EventTriggersSilenced&) = delete;

 private:
  pg::Control& connection_;
  std::string before_;  // "" not set
};

struct EventTrigger {
  std::string name;     // quoted
  bool always = false;  // ENABLE ALWAYS or REPLICA; else the role may not silence it
};

// Those that fire for DDL of a switchover all the same. Not those of extensions.
std::vector<EventTrigger> load_unsilenced(pg::Control& connection, Side side);

}  // namespace pgbaton::catalog

// Whether what a replica holds on the source stays inside the budget: WAL by its slots, of --wal-budget or of the
// server's own max_slot_wal_keep_size, the smaller one; old row versions by its snapshots and slots, of
// autovacuum_freeze_max_age. Only arithmetic and texts; wal_watch.hpp feeds it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::app {

struct WalLimit {
  std::int64_t bytes = -1;  // -1: there is none
  std::string_view name;    // of the setting
};
// `budget` 0: not given; `server` -1: no limit.
WalLimit wal_limit(std::int64_t budget, std::int64_t server);

// What will be held when the copy is complete: nothing of it is freed before. -1 not known.
std::int64_t projected_bytes(std::int64_t held, double written_per_second, double copy_seconds_left);

struct Held {
  std::int64_t wal_bytes = 0;
  WalLimit limit;
  double written_per_second = -1, copy_seconds_left = -1;  // -1 not known
  double snapshot_seconds = -1;                            // age of the oldest snapshot; -1 none
  std::int64_t xmin_age = 0, xmin_limit = 0;               // in transactions; the server's freeze age, 0 not known
};

// Sentences of what is used and of what will be; "" when that is no reason to worry.
std::string wal_used_text(const Held& held);
std::string wal_projected_text(const Held& held);
std::string xmin_used_text(const Held& held);

struct WalNotice {
  std::string event_detail;  // a JSON object
  std::string text;
};

class WalBudget {
 public:
  // What is worth a warning now: each of 50, 75 and 90 % once, and again after it was well below; a copy that will not
  // be done in time, once, and again when it looked better in between.
  std::vector<WalNotice> judge(const Held& held);

 private:
  class Steps {
   public:
    bool rises_to(int percent);

   private:
    int warned_ = 0;
  };
  Steps wal_, xmin_;
  bool warned_projection_ = false;
};

}  // namespace pgbaton::app

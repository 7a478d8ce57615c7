// Rows of faults: a failpoint, what dies there, and what must come of it. Many rows share one pair of servers; each has
// a database of its own on both sides, and a writer on the source.
#pragma once
#include "support/pair.hpp"
#include "support/proxy.hpp"

#include <map>

namespace pgbaton::testing {

// What happens when the tool arrives at the failpoint. For all but the first three it stands still there (SIGSTOP)
// while the test does the harm, and then goes on.
enum class Harm {
  kill,            // SIGKILL to itself
  error,           // a failure that passes (action retry)
  stop,            // a failure that stays
  source_down,     // the source is restarted, -m immediate, and is back when the tool goes on
  target_down,     // the target, likewise
  source_backend,  // pg_terminate_backend of the sessions with FaultRow::role on the source
  target_backend,  // the same on the target
  cut_source,      // every connection to the source breaks
  cut_target,      // every connection to the target breaks
};

enum class Command { clone, follow, huge_follow, finish, drop };

struct FaultRow {
  const char* point;  // failpoint, "name" or "name@N"
  Harm harm;
  int code = 137;          // of the run that met the fault; 0: it got over it by itself
  const char* phase = "";  // what status says afterwards; one of several as "a|b", "" anything
  const char* role = "";   // for *_backend: LIKE pattern of the connection's role
  const char* says = "";   // regular expression that stderr must match
};

// A writer that goes on when its server comes back.
class PatientWriter {
 public:
  explicit PatientWriter(std::string conninfo);
  ~PatientWriter() { stop(); }
  void stop();
  long long done() const { return done_; }

 private:
  void run();
  std::string conninfo_;
  std::atomic<bool> stop_{false};
  std::atomic<long long> done_{0};
  std::thread thread_;
};

class FaultTable : public PairTest {
 protected:
  void SetUp() override;
  void TearDown() override;
  // Runs the rows one after the other; at the end prints the table of what happened.
  void play(Command command, const std::vector<FaultRow>& rows);

 private:
  struct Outcome {
    ToolResult first;
    std::string phase, second, end;
  };
  void prepare(Command command);
  Outcome run_row(Command command, const FaultRow& row);
  ToolResult meet_fault(Command command, const FaultRow& row);
  void do_harm(const FaultRow& row);
  std::string sessions(const std::string& role) const;  // FROM clause: the tool's, by role pattern
  void wait_gone(Cluster& server, const std::string& role);
  void terminate(Cluster& server, const std::string& role);
  void cut(Proxy& proxy, Cluster& server);
  std::string follow_on(Tool& tool);
  std::string start_again(Command command);
  std::string end_state(Command command);
  Arguments line(const std::string& command, bool through_proxy, const Arguments& more = {}) const;

  std::string database_;
  std::unique_ptr<Proxy> source_proxy_, target_proxy_;
  std::unique_ptr<PatientWriter> writer_;
  int rows_ = 0;
};

// Waits until the process has stopped itself; false when it ended or the time is over.
bool wait_frozen(Tool& tool, Milliseconds timeout = Milliseconds(60'000));

}  // namespace pgbaton::testing

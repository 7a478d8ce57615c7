// A real PostgreSQL server that a test owns: a copy of a template made once per major by initdb, shared by all test
// processes of this user. It listens on 127.0.0.1 and on a socket in its own folder; the destructor ends it and removes
// its files (PGBATON_TEST_KEEP=1 keeps them).
//
//   Cluster source, target;                         // PostgreSQL 15
//   Cluster old({.major = 12, .settings = {{"wal_sender_timeout", "5s"}}});
//   source.exec("create table t …");
//
// Start and restart from a thread that outlives the server (process.hpp).
#pragma once
#include "process.hpp"
#include "session.hpp"

namespace pgbaton::testing {

struct ClusterOptions {
  int major = 15;
  std::vector<std::pair<std::string, std::string>> settings;  // appended to postgresql.conf, the last one wins
  bool start = true;
  bool own_identity = false;  // a system identifier of its own; otherwise all servers of a major share one
};

enum class StopMode { fast, immediate };

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options = {});
  // A physical standby: the primary's files, copied while it runs, and streaming from it. `settings` come on top of the
  // primary's, so a primary_slot_name can be given. Slots are not copied.
  Cluster(const Cluster& primary, const ClusterOptions& options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Whether server binaries of this major are at hand: Debian's, or those fetched by scripts/postgres.
  static bool available(int major);
  static std::string bin_directory(int major);

  void start();   // and waits until it answers
  void launch();  // does not wait; wait_ready() does, so that two servers can start side by side
  void wait_ready();
  void stop(StopMode mode = StopMode::fast);
  void restart(StopMode mode = StopMode::fast);
  void crash();  // SIGKILL to the postmaster and all its children
  bool running() { return process_.running(); }
  void set(const std::string& name, const std::string& value);  // appends to postgresql.conf; reload() or restart()
  void reload();
  void promote();  // a standby; returns when it takes writes
  // Copies the files of the stopped server, or puts such a copy in their place (postgresql.conf of now stays).
  std::string save_files();
  void restore_files(const std::string& saved);

  int major() const { return major_; }
  int port() const { return port_; }
  int postmaster_pid() const { return process_.pid(); }
  std::string conninfo(const std::string& database = "postgres", const std::string& user = "postgres") const;
  std::string socket_conninfo(const std::string& database = "postgres") const;
  const std::string& directory() const { return directory_; }  // holds data/, log and the socket
  std::string data_directory() const { return directory_ + "/data"; }
  std::string log() const { return read_file(directory_ + "/log"); }

  // Each opens a connection of its own; for more than a few statements use session().
  Session session(const std::string& database = "postgres") const { return Session(conninfo(database)); }
  Rows query(const std::string& sql, const std::string& database = "postgres") const;
  std::string scalar(const std::string& sql, const std::string& database = "postgres") const;
  long long number(const std::string& sql, const std::string& database = "postgres") const;
  long long exec(const std::string& sql, const std::string& database = "postgres") const;
  // Repeats the query every 20 ms until its scalar equals `expected`; false when the time is over.
  bool wait_until(const std::string& sql, const std::string& expected, Milliseconds timeout = Milliseconds(10'000),
                  const std::string& database = "postgres") const;

 private:
  int major_;
  int port_ = 0;
  int saved_ = 0;
  std::string directory_;
  Process process_;
};

}  // namespace pgbaton::testing

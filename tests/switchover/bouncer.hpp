// A real PgBouncer for the tests.
#pragma once
#include <fstream>

#include "support/pair.hpp"
#include "support/proxy.hpp"

namespace pgbaton::testing {

// PgBouncer in front of the source, with a second configuration that leads to the target.
class Bouncer {
 public:
  Bouncer(const Cluster& source, const Cluster& target)
      : directory_(make_run_directory("pgbouncer")), port_(Proxy({1}).port()) {
    std::ofstream(directory_ + "/users") << "\"postgres\" \"\"\n";
    write("before.ini", source);
    write("after.ini", target);
    ProcessOptions options{.arguments = {"/usr/sbin/pgbouncer", directory_ + "/before.ini"}, .as_postgres = true};
    options.stdout_file = options.stderr_file = directory_ + "/output";
    process_ = Process(options);
    for (int i = 0; i < 500 && PQping(conninfo().c_str()) == PQPING_NO_RESPONSE; ++i) {
      if (!process_.running()) throw std::runtime_error("no pgbouncer:\n" + read_file(directory_ + "/output"));
      std::this_thread::sleep_for(Milliseconds(10));
    }
  }
  std::string conninfo(const std::string& database = "app", const std::string& host = "127.0.0.1") const {
    return "host=" + host + " port=" + std::to_string(port_) + " user=postgres dbname=" + database;
  }
  std::string before() const { return directory_ + "/before.ini"; }
  std::string after() const { return directory_ + "/after.ini"; }

 private:
  void write(const std::string& name, const Cluster& server) {
    std::ofstream(directory_ + "/" + name)
        << "[databases]\napp = host=127.0.0.1 port=" << server.port() << " dbname=postgres user=postgres\n"
        << "[pgbouncer]\nlisten_addr = *\nlisten_port = " << port_ << "\nunix_socket_dir =\nauth_type = trust\n"
        << "auth_file = " << directory_
        << "/users\nadmin_users = postgres\npool_mode = transaction\nlogfile = " << directory_
        << "/log\nserver_fast_close = 1\n";
  }
  std::string directory_;
  int port_;
  Process process_;
};

}  // namespace pgbaton::testing

// A TCP relay in front of servers, as a load balancer is one: each new connection goes to the next of its ports.
#pragma once
#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace pgbaton::testing {

class Proxy {
 public:
  explicit Proxy(std::vector<int> server_ports);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  int port() const { return port_; }
  std::string conninfo(const std::string& database = "postgres") const;
  int connections() const { return connections_; }
  // Ends every connection there is, with whatever is on its way; new ones are accepted as before.
  void cut() { ++cuts_; }

 private:
  void accept_loop();
  void relay(int client, int server, int cuts_before) const;

  std::vector<int> server_ports_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0}, cuts_{0};
  std::thread acceptor_;
  std::vector<std::thread> relays_;  // of the acceptor alone
};

}  // namespace pgbaton::testing

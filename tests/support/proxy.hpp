// A TCP relay in front of servers, as a load balancer is one: each new connection goes to the next of its ports.
#pragma once
#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace pgbaton::testing {

// What becomes of one COMMIT that ends a transaction with a progress row; its client's connection breaks each time.
enum class CommitFate {
  reply_lost,  // the server commits, its reply is lost
  late,        // the server gets the COMMIT a while after the client was cut off
  lost,        // the server never gets it
};

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
  // The next such COMMIT; true from the moment it was met.
  void take_next_commit(CommitFate fate) { fate_ = static_cast<int>(fate); }
  bool commit_taken() const { return fate_ < 0; }

 private:
  void accept_loop();
  void relay(int client, int server, int cuts_before);
  bool is_to_be_taken(std::string_view from_client, bool& writes_progress) const;
  void take_commit(int& client, int server, std::string_view bytes);

  std::vector<int> server_ports_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0}, cuts_{0};
  std::atomic<int> fate_{-1};  // a CommitFate, or none
  std::thread acceptor_;
  std::vector<std::thread> relays_;  // of the acceptor alone
};

}  // namespace pgbaton::testing

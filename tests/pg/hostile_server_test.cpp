// Servers that speak nonsense: whatever is on the other end, the tool ends in time, with an error that says what, and
// with the target as it was.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string big_endian(std::uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16), static_cast<char>(number >> 8),
          static_cast<char>(number)};
}
std::string message(char type, const std::string& body) {
  return type + big_endian(static_cast<std::uint32_t>(body.size() + 4)) + body;
}

// Accepts connections and hands each to `serve` in a thread of its own; the descriptor is closed afterwards.
class Listener {
 public:
  explicit Listener(std::function<void(int, const std::atomic<bool>&)> serve) : serve_(std::move(serve)) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(socket_, 16) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      throw std::runtime_error("no port to listen at");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_loop(); });
  }
  ~Listener() {
    stop_ = true;
    acceptor_.join();
    for (auto& thread : threads_) thread.join();
    ::close(socket_);
  }
  Listener(const Listener&) = delete;
  std::string conninfo() const {
    return "host=127.0.0.1 dbname=postgres user=postgres sslmode=disable gssencmode=disable connect_timeout=2 port=" +
           std::to_string(port_);
  }

 private:
  void accept_loop() {
    while (!stop_) {
      pollfd wait{socket_, POLLIN, 0};
      if (::poll(&wait, 1, 20) <= 0) continue;
      const int client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      threads_.emplace_back([this, client] {
        serve_(client, stop_);
        ::close(client);
      });
    }
  }
  std::function<void(int, const std::atomic<bool>&)> serve_;
  int socket_ = -1, port_ = 0;
  std::atomic<bool> stop_{false};
  std::thread acceptor_;
  std::vector<std::thread> threads_;
};

void send_all(int fd, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto sent = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += static_cast<std::size_t>(sent);
  }
}

// Something that the client sent; "" when it is gone or the listener is being stopped.
std::string receive(int fd, const std::atomic<bool>& stop) {
  while (!stop) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, 20) <= 0) continue;
    std::string bytes(65536, '\0');
    const auto got = ::recv(fd, bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }
  return "";
}

std::string greeting() {
  const auto setting = [](const std::string& name, const std::string& value) {
    return message('S', name + '\0' + value + '\0');
  };
  return message('R', big_endian(0)) + setting("server_version", "15.4") + setting("client_encoding", "UTF8") +
         setting("standard_conforming_strings", "on") + setting("IntervalStyle", "postgres") +
         message('K', big_endian(1) + big_endian(2)) + message('Z', "I");
}

struct Nonsense {
  std::string name, at_start, per_query;  // "" per query: not even the start is survived
};

std::string noise(std::size_t bytes, unsigned seed) {
  std::string text;
  for (; text.size() < bytes; seed = seed * 1103515245 + 12345) text += static_cast<char>(seed >> 16);
  return text;
}

TEST(HostileServer, NonsenseIsAnErrorInTime) {
  const std::vector<Nonsense> all{
      {"noise", noise(5000, 1), ""},
      {"web server", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", ""},
      {"nothing, and closed", "", ""},
      {"length of 2 GB", "E" + big_endian(0x7ffffff0), ""},
      {"length below its own size", "R" + big_endian(1), ""},
      {"unknown authentication", message('R', big_endian(4711)), ""},
      {"SCRAM of its own making", message('R', big_endian(10) + std::string("SCRAM-SHA-1\0\0", 13)), ""},
      {"noise after a query", greeting(), noise(20000, 7)},
      {"no columns for a row", greeting(), message('D', std::string("\0\1", 2) + big_endian(4) + "text")},
      {"rows without an end", greeting(), message('T', std::string("\x7f\xff", 2))},
      {"column of 1 GB", greeting(),
       message('T', std::string("\0\1x\0", 4) + big_endian(0) + std::string(2, '\0') + big_endian(25) +
                        std::string("\xff\xff", 2) + big_endian(0xffffffff) + std::string(2, '\0')) +
           message('D', std::string("\0\1", 2) + big_endian(1 << 30))},
      {"an empty answer", greeting(), message('C', std::string("SELECT 0\0", 9)) + message('Z', "I")},
      {"COPY where none was asked for", greeting(), message('H', std::string("\0\0\0", 3))},
  };
  for (const auto& nonsense : all) {
    SCOPED_TRACE(nonsense.name);
    const Listener server([&](int client, const std::atomic<bool>& stop) {
      if (receive(client, stop).empty()) return;
      send_all(client, nonsense.at_start);
      // One answer, and closed: who begins one and then says nothing is waited for, as any long query is.
      if (!nonsense.per_query.empty() && !receive(client, stop).empty()) send_all(client, nonsense.per_query);
    });
    const auto result = Tool::run({"check", "--source", server.conninfo()}, Milliseconds(60'000));
    EXPECT_THAT(result.code, AnyOf(1, 3)) << result;
    EXPECT_THAT(result.err + result.out, AnyOf(HasSubstr("HINT: "), HasSubstr("blocker"), HasSubstr("BLOCKER")))
        << result;
  }
}

// A relay to the real source that changes what its walsender sends.
class Tampering {
 public:
  Tampering(int server_port, std::function<void(std::string&)> change)
      : change_(std::move(change)), listener_([this, server_port](int client, const std::atomic<bool>& stop) {
          relay(client, server_port, stop);
        }) {}
  std::string conninfo() const { return listener_.conninfo(); }
  int changed() const { return changed_; }

 private:
  void relay(int client, int port, const std::atomic<bool>& stop) {
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    std::string pending;
    if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      for (bool open = true; open && !stop;) {
        pollfd waits[2]{{client, POLLIN, 0}, {server, POLLIN, 0}};
        if (::poll(waits, 2, 20) <= 0) continue;
        if (waits[0].revents != 0) {
          const auto bytes = receive(client, stop);
          open = !bytes.empty();
          send_all(server, bytes);
        }
        if (open && waits[1].revents != 0) {
          const auto bytes = receive(server, stop);
          open = !bytes.empty();
          pending += bytes;
          send_all(client, whole_messages(pending));
        }
      }
    }
    ::close(server);
  }

  // Takes what is complete; of CopyData with WAL data ('d', length, 'w', 24 bytes of positions) the rest is changed.
  std::string whole_messages(std::string& pending) {
    std::string out;
    constexpr std::size_t kHeader = 5, kPositions = 25;
    while (pending.size() >= kHeader) {
      const auto byte = [&](int i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(pending[1 + i])); };
      const std::size_t length = 1 + (byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3));
      if (pending.size() < length) break;
      auto one = pending.substr(0, length);
      pending.erase(0, length);
      if (one[0] == 'd' && length > kHeader + kPositions && one[kHeader] == 'w') {
        const auto positions = one.substr(kHeader, kPositions);
        auto body = one.substr(kHeader + kPositions);
        const auto before = body;
        change_(body);
        if (body != before) ++changed_;
        one = message('d', positions + body);
      }
      out += one;
    }
    return out;
  }

  std::function<void(std::string&)> change_;
  std::atomic<int> changed_{0};
  Listener listener_;  // last: its threads use the others
};

class TamperedStreamTest : public PairTest {};

TEST_F(TamperedStreamTest, NothingOfADamagedMessageIsApplied) {
  source().exec("create table t (id int primary key, v text); insert into t values (1, 'a')");
  clone_until_caught_up();
  const std::vector<std::pair<std::string, std::function<void(std::string&)>>> all{
      {"an unknown type of message",
       [](std::string& m) {
         if (m[0] == 'I') m[0] = '\x7f';
       }},
      {"a relation that was never described",
       [](std::string& m) {
         if (m[0] == 'I') m[4] = static_cast<char>(m[4] + 1);
       }},
      {"more columns than there are bytes",
       [](std::string& m) {
         if (m[0] == 'I') m[6] = '\x7f';
       }},
      {"a value longer than its message",
       [](std::string& m) {
         if (m[0] == 'I') m[9] = '\x7f';
       }},
      {"a name without its end",
       [](std::string& m) {
         if (m[0] == 'R') m.resize(m.size() / 2);
       }},
      {"bytes behind the end",
       [](std::string& m) {
         if (m[0] == 'C') m += "more";
       }},
      {"a commit of another transaction",
       [](std::string& m) {
         if (m[0] == 'C') m[9] = static_cast<char>(m[9] ^ 1);
       }},
      {"a transaction inside another",
       [](std::string& m) {
         if (m[0] == 'I') m = std::string("B") + std::string(20, '\1');
       }},
      {"an empty message",
       [](std::string& m) {
         if (m[0] == 'I') m = std::string(1, '\0');
       }},
  };
  for (int round = 0; const auto& [name, change] : all) {
    SCOPED_TRACE(name);
    source().exec("insert into t values (" + std::to_string(10 + ++round) + ", 'new')");
    const auto before = target().scalar("select string_agg(t::text, ';' order by id) from t");
    const Tampering relay(source().port(), change);
    const auto result = Tool::run({"follow", "--until", "caught-up", "--source", relay.conninfo(), "--target",
                                   target().conninfo(), "--reader", "walsender", "--give-up-after", "3s"},
                                  Milliseconds(60'000));
    EXPECT_GE(relay.changed(), 1);
    EXPECT_THAT(result.code, AnyOf(1, 4, 5, 8)) << result;
    EXPECT_THAT(result.err, AllOf(HasSubstr("ERROR: "), HasSubstr("HINT: "))) << result;
    EXPECT_EQ(target().scalar("select string_agg(t::text, ';' order by id) from t"), before);
    // The source itself is heard again, and nothing is missing.
    const auto honest = run("follow", {"--until", "caught-up"});
    EXPECT_EQ(honest.code, 0) << honest;
    expect_equal();
  }
}

}  // namespace
}  // namespace pgbaton::testing

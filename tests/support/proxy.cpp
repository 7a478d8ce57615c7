#include "proxy.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace pgbaton::testing {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int open_socket() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::runtime_error("no socket");
  return fd;
}

bool readable(int fd, int timeout_ms) {
  pollfd watch{fd, POLLIN, 0};
  return poll(&watch, 1, timeout_ms) > 0;
}

bool send_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// What is there; empty when the other end is gone.
std::string_view receive(int from, std::array<char, 65536>& buffer) {
  const auto got = recv(from, buffer.data(), buffer.size(), 0);
  return {buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

}  // namespace

Proxy::Proxy(std::vector<int> server_ports) : server_ports_(std::move(server_ports)), listener_(open_socket()) {
  auto address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    close(listener_);
    throw std::runtime_error("the proxy cannot listen");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_loop(); });
}

Proxy::~Proxy() {
  stop_ = true;
  acceptor_.join();
  for (auto& thread : relays_) thread.join();
  close(listener_);
}

std::string Proxy::conninfo(const std::string& database) const {
  return "host=127.0.0.1 port=" + std::to_string(port_) + " user=postgres dbname=" + database;
}

void Proxy::accept_loop() {
  while (!stop_) {
    if (!readable(listener_, 50)) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const auto turn = static_cast<std::size_t>(connections_++) % server_ports_.size();
    const auto address = loopback(server_ports_[turn]);
    const int server = open_socket();
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(client);
      close(server);
      continue;
    }
    relays_.emplace_back([client, server, cuts = cuts_.load(), this] { relay(client, server, cuts); });
  }
}

void Proxy::relay(int client, int server, int cuts_before) {
  std::array<char, 65536> buffer;
  bool writes_progress = false;
  pollfd watch[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
  for (bool open = true; open && !stop_ && cuts_ == cuts_before;) {
    if (poll(watch, 2, 50) <= 0) continue;
    if (watch[0].revents != 0) {
      const auto bytes = receive(client, buffer);
      if (is_to_be_taken(bytes, writes_progress)) {
        take_commit(client, server, bytes);
        break;
      }
      open = !bytes.empty() && send_all(server, bytes);
    }
    if (open && watch[1].revents != 0) {
      const auto bytes = receive(server, buffer);
      open = !bytes.empty() && send_all(client, bytes);
    }
  }
  if (client >= 0) close(client);
  close(server);
}

// The statement that writes progress is the last one before its COMMIT.
bool Proxy::is_to_be_taken(std::string_view from_client, bool& writes_progress) const {
  if (from_client.find("UPDATE pgbaton.progress SET applied_lsn") != from_client.npos) writes_progress = true;
  const bool commits = from_client.ends_with(std::string_view("COMMIT\0", 7));
  return commits && writes_progress && fate_ >= 0;
}

void Proxy::take_commit(int& client, int server, std::string_view bytes) {
  const auto fate = static_cast<CommitFate>(fate_.exchange(-1));
  if (fate == CommitFate::reply_lost) {
    send_all(server, bytes);
    readable(server, 5'000);  // it has committed
  }
  close(std::exchange(client, -1));
  if (fate != CommitFate::late) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(1'500));
  send_all(server, bytes);
  readable(server, 1'000);
}

}  // namespace pgbaton::testing

#include "proxy.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

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

// Hands on what is there; false when the other end is gone.
bool pump(int from, int to) {
  std::array<char, 65536> buffer;
  const auto got = recv(from, buffer.data(), buffer.size(), 0);
  for (ssize_t sent = 0; sent < got;) {
    const auto n = send(to, buffer.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += n;
  }
  return got > 0;
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

void Proxy::relay(int client, int server, int cuts_before) const {
  pollfd watch[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
  for (bool open = true; open && !stop_ && cuts_ == cuts_before;) {
    if (poll(watch, 2, 50) <= 0) continue;
    if (watch[0].revents != 0) open = pump(client, server);
    if (open && watch[1].revents != 0) open = pump(server, client);
  }
  close(client);
  close(server);
}

}  // namespace pgbaton::testing

#include "http.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

// Appends what comes until the deadline; false at the end of the connection or of the time.
bool read_some(int socket, std::string& into, std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd ready{socket, POLLIN, 0};
  if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
  char buffer[16384];
  const auto count = recv(socket, buffer, sizeof buffer, 0);
  if (count <= 0) return false;
  into.append(buffer, static_cast<std::size_t>(count));
  return true;
}

}  // namespace

HttpConnection::HttpConnection(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const auto address = loopback(port);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(socket_);
    socket_ = -1;
  }
}

HttpConnection::~HttpConnection() {
  if (socket_ >= 0) close(socket_);
}

bool HttpConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

HttpConnection HttpConnection::of_socket(int socket) {
  HttpConnection connection;
  connection.socket_ = socket;
  return connection;
}

std::string HttpConnection::read_request() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (rest_.find("\r\n\r\n") == std::string::npos && read_some(socket_, rest_, deadline)) {
  }
  return std::exchange(rest_, {});
}

HttpListener::HttpListener(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  auto address = loopback(port);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket_, generic, size) != 0 || listen(socket_, 16) != 0 || getsockname(socket_, generic, &size) != 0)
    throw std::runtime_error("cannot listen");
  port_ = ntohs(address.sin_port);
}

HttpListener::~HttpListener() {
  close(socket_);
}

std::optional<HttpConnection> HttpListener::accept(Milliseconds timeout) {
  pollfd ready{socket_, POLLIN, 0};
  if (poll(&ready, 1, static_cast<int>(timeout.count())) <= 0) return std::nullopt;
  const int socket = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket < 0) return std::nullopt;
  return HttpConnection::of_socket(socket);
}

std::string HttpConnection::read_all(Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (read_some(socket_, rest_, deadline)) {
  }
  return std::exchange(rest_, {});
}

bool HttpConnection::ended(Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (read_some(socket_, rest_, deadline)) {
  }
  return std::chrono::steady_clock::now() < deadline;
}

HttpReply HttpConnection::reply(Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::size_t end;
  while ((end = rest_.find("\r\n\r\n")) == std::string::npos)
    if (!read_some(socket_, rest_, deadline)) return {};
  HttpReply reply;
  reply.status = std::atoi(rest_.substr(rest_.find(' ') + 1, 3).c_str());
  for (std::size_t at = rest_.find("\r\n") + 2; at < end;) {
    const auto line_end = rest_.find("\r\n", at);
    const auto line = rest_.substr(at, line_end - at);
    auto name = line.substr(0, line.find(':'));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    reply.headers[name] = line.substr(line.find(": ") + 2);
    at = line_end + 2;
  }
  const auto length = static_cast<std::size_t>(std::atoll(reply.headers["content-length"].c_str()));
  while (rest_.size() < end + 4 + length)
    if (!read_some(socket_, rest_, deadline)) return {};
  reply.body = rest_.substr(end + 4, length);
  rest_.erase(0, end + 4 + length);
  return reply;
}

HttpReply http_get(int port, const std::string& path, Milliseconds timeout) {
  HttpConnection connection(port);
  connection.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return connection.reply(timeout);
}

int http_port(Tool& tool, Milliseconds timeout) {
  if (!tool.wait_for_stderr("http://127\\.0\\.0\\.1:[0-9]+/", timeout)) return 0;
  const auto text = tool.err();
  constexpr std::string_view kBefore = "http://127.0.0.1:";
  return std::atoi(text.substr(text.find(kBefore) + kBefore.size()).c_str());
}

double Metrics::value(const std::string& name) const {
  if (const auto exact = values.find(name); exact != values.end()) return exact->second;
  const auto labelled = values.lower_bound(name + "{");
  if (labelled == values.end() || !labelled->first.starts_with(name + "{"))
    return std::numeric_limits<double>::quiet_NaN();
  return labelled->second;
}

}  // namespace pgbaton::testing

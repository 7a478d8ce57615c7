// A client for --http that does what browsers and monitoring systems do, and what nobody should.
#pragma once
#include "support/tool.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::testing {

struct HttpReply {
  int status = 0;                              // 0: no answer in time, or the connection was ended
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// A plain TCP connection to 127.0.0.1; -1 when refused.
class HttpConnection {
 public:
  explicit HttpConnection(int port);
  static HttpConnection of_socket(int socket);  // takes it over
  ~HttpConnection();
  HttpConnection(HttpConnection&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  HttpConnection& operator=(HttpConnection&&) = delete;

  bool send(std::string_view bytes);  // false when the other side has ended it
  std::string read_all(Milliseconds timeout);
  HttpReply reply(Milliseconds timeout = Milliseconds(20'000));  // the next one; the connection stays usable
  bool ended(Milliseconds timeout);                              // by the other side, within this time
  std::string read_request();                                    // as a server: up to the empty line

 private:
  HttpConnection() = default;
  int socket_ = -1;
  std::string rest_;
};

// A server's socket on 127.0.0.1; port 0 takes a free one.
class HttpListener {
 public:
  explicit HttpListener(int port);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  int port() const { return port_; }
  std::optional<HttpConnection> accept(Milliseconds timeout);

 private:
  int socket_, port_ = 0;
};

HttpReply http_get(int port, const std::string& path, Milliseconds timeout = Milliseconds(20'000));
// The port that a tool with --http 0 has taken, from its log; 0 when it does not say so in time.
int http_port(Tool& tool, Milliseconds timeout = Milliseconds(20'000));

// What is wrong with a text of metrics by the rules of the format and of naming; and what it holds.
struct Metrics {
  std::vector<std::string> problems;
  std::map<std::string, std::string> types;     // by family
  std::map<std::string, double> values;         // by name and labels as written
  double value(const std::string& name) const;  // of the one sample of a family whatever its labels; NaN when none
};
Metrics parse_metrics(const std::string& text);

}  // namespace pgbaton::testing

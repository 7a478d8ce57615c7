// A small HTTP server for people who look and programs that scrape: GET and HEAD of what a handler gives out, nothing
// else. One thread of its own, at a lower priority than the work of the command.
//
// Whoever connects cannot hurt: a request has 10 s to arrive and 8 kB at most, an answer has 10 s to be taken, a
// connection that is kept open has 15 s between two requests, and the 33rd connection ends the one that was first.
// Bound to a loopback address it answers only to names of loopback addresses (Host), so that no web page elsewhere can
// make a browser on this machine read it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace pgbaton::app {

struct HttpAnswer {
  unsigned status = 200;
  std::string_view content_type = "text/plain; charset=utf-8";  // static storage
  std::string body;
};
// `path` without, `query` what follows the "?". Called from the server's thread; what it throws becomes a 500.
using HttpHandler = std::function<HttpAnswer(std::string_view path, std::string_view query)>;

struct HttpAddress {
  std::string host;  // an IP address
  unsigned short port = 0;
};
// "9187", ":9187", "localhost:9187", "0.0.0.0:9187", "[::1]:9187"; port 0 takes a free one. Throws Error(usage).
HttpAddress parse_http_address(const std::string& text);

class HttpServer {
 public:
  // Listens when it returns. Throws Error(usage) when it cannot.
  HttpServer(const HttpAddress& address, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  std::string url() const;  // "http://127.0.0.1:9187/"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pgbaton::app

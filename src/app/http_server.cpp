#include "http_server.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <list>
#include <optional>
#include <thread>

namespace pgbaton::app {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Code = boost::system::error_code;

constexpr std::chrono::seconds kRequestTime{10}, kIdleTime{15}, kAnswerTime{10}, kAcceptPause{1};
constexpr std::size_t kMostConnections = 32;
constexpr unsigned kMostHeaderBytes = 8192;
constexpr int kNicer = 5;

// The page carries its script and style in itself, and asks only where it came from.
constexpr std::string_view kContentPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

bool is_loopback_name(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  if (host == "localhost") return true;
  Code error;
  const auto address = asio::ip::make_address(std::string(host), error);
  return !error && address.is_loopback();
}

// It is the request that is wrong, not the connection.
bool is_of_http(const Code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category();
}

class Connection;
using Connections = std::list<Connection*>;

// What the connections share. All of it belongs to the server's thread.
struct Shared {
  HttpHandler handler;
  bool loopback_only = true;
  Connections open;  // the oldest first
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Shared& shared) : stream_(std::move(socket)), shared_(shared) {
    shared_.open.push_back(this);
    place_ = std::prev(shared_.open.end());
  }
  ~Connection() { shared_.open.erase(place_); }

  void start() { read(kRequestTime); }
  void end() {
    Code ignored;
    stream_.socket().close(ignored);
  }

 private:
  using Request = http::request<http::empty_body>;
  using Response = http::response<http::string_body>;

  void read(std::chrono::seconds time) {
    parser_.emplace();
    parser_->header_limit(kMostHeaderBytes);
    parser_->body_limit(0);
    stream_.expires_after(time);  // for the whole request, however it trickles in
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](const Code& error, std::size_t) { self->have_read(error); });
  }

  void have_read(const Code& error) {
    if (error == http::error::end_of_stream) return shut_down();
    if (error == beast::error::timeout || error == asio::error::operation_aborted) return;
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return refuse(http::status::request_header_fields_too_large);
    if (error == http::error::body_limit || error == http::error::unexpected_body)
      return refuse(http::status::payload_too_large);
    if (error) {
      if (is_of_http(error)) refuse(http::status::bad_request);
      return;
    }
    answer(parser_->get());
  }

  void answer(const Request& request) {
    const bool head = request.method() == http::verb::head;
    if (!head && request.method() != http::verb::get) return refuse(http::status::method_not_allowed);
    const auto host = request[http::field::host];
    if (shared_.loopback_only && !is_loopback_name({host.data(), host.size()}))
      return send({421, "text/plain; charset=utf-8", "This server answers to localhost only.\n"}, false, false);
    const std::string_view target(request.target().data(), request.target().size());
    const auto mark = std::min(target.find('?'), target.size());
    HttpAnswer result;
    try {
      result = shared_.handler(target.substr(0, mark), target.substr(std::min(mark + 1, target.size())));
    } catch (const std::exception& error) {
      log::debug("http: {}", error.what());
      result = {500, "text/plain; charset=utf-8", "internal error\n"};
    }
    send(std::move(result), request.keep_alive(), head);
  }

  void refuse(http::status status) {
    const auto reason = http::obsolete_reason(status);
    send({static_cast<unsigned>(status), "text/plain; charset=utf-8", std::string(reason) + "\n"}, false, false);
  }

  void send(HttpAnswer answer, bool keep_alive, bool head) {
    response_ = Response();
    response_.version(11);
    response_.result(answer.status);
    response_.keep_alive(keep_alive);
    const auto set = [&](auto field, std::string_view value) {
      response_.set(field, beast::string_view(value.data(), value.size()));
    };
    set(http::field::content_type, answer.content_type);
    set(http::field::cache_control, "no-store");
    set("X-Content-Type-Options", "nosniff");
    set("Referrer-Policy", "no-referrer");
    set("Content-Security-Policy", kContentPolicy);
    if (answer.status == 405) set(http::field::allow, "GET, HEAD");
    response_.content_length(answer.body.size());
    if (!head) response_.body() = std::move(answer.body);
    stream_.expires_after(kAnswerTime);
    const auto sent = [self = shared_from_this()](const Code& error, std::size_t) { self->have_sent(error); };
    if (!head) return http::async_write(stream_, response_, sent);
    serializer_.emplace(response_);
    http::async_write_header(stream_, *serializer_, sent);
  }

  void have_sent(const Code& error) {
    if (error) return;
    if (!response_.keep_alive()) return shut_down();
    read(kIdleTime);
  }

  void shut_down() {
    Code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  beast::tcp_stream stream_;
  Shared& shared_;
  Connections::iterator place_;
  beast::flat_buffer buffer_{kMostHeaderBytes * 2};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
};

Error bad_address(const std::string& text, std::string_view why) {
  return Error(ErrorKind::usage, fmt::format("--http: \"{}\" {}", text, why))
      .hint("Write ADDR:PORT, such as 127.0.0.1:9187, or a port alone for this machine only.");
}

}  // namespace

HttpAddress parse_http_address(const std::string& text) {
  const auto colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  HttpAddress address;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size())
    throw bad_address(text, "does not end with a port, a number up to 65535");
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  Code wrong;
  address.host = asio::ip::make_address(host, wrong).to_string();
  if (wrong) throw bad_address(text, "does not begin with an IP address or localhost");
  return address;
}

struct HttpServer::Impl {
  Shared shared;  // first: connections leave it when the loop goes
  asio::io_context loop{1};
  tcp::acceptor acceptor{loop};
  asio::steady_timer pause{loop};
  std::jthread thread;

  void accept() {
    acceptor.async_accept([this](const Code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return accept_later();  // no file descriptor to spare, for example
      if (shared.open.size() >= kMostConnections) shared.open.front()->end();
      std::make_shared<Connection>(std::move(socket), shared)->start();
      accept();
    });
  }
  void accept_later() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([this](const Code& error) {
      if (!error) accept();
    });
  }
  void run() {
    setpriority(PRIO_PROCESS, 0, kNicer);  // of this thread only
    for (;;) {
      try {
        loop.run();
        return;
      } catch (const std::exception& error) {
        log::debug("http: {}", error.what());
      }
    }
  }
};

HttpServer::HttpServer(const HttpAddress& address, HttpHandler handler) : impl_(std::make_unique<Impl>()) {
  const tcp::endpoint endpoint(asio::ip::make_address(address.host), address.port);
  impl_->shared.handler = std::move(handler);
  impl_->shared.loopback_only = endpoint.address().is_loopback();
  try {
    impl_->acceptor.open(endpoint.protocol());
    impl_->acceptor.set_option(tcp::acceptor::reuse_address(true));
    impl_->acceptor.bind(endpoint);
    impl_->acceptor.listen(static_cast<int>(kMostConnections));
  } catch (const boost::system::system_error& error) {
    const bool busy = error.code() == asio::error::address_in_use;
    throw Error(ErrorKind::usage, fmt::format("--http: cannot listen on {} port {}: {}", address.host, address.port,
                                              error.code().message()))
        .hint(busy ? "Another process uses this port: give another one, or 0 for any that is free."
                   : "Give an address of this machine, and a port that this user may use.");
  }
  impl_->accept();
  impl_->thread = std::jthread([impl = impl_.get()] { impl->run(); });
}

HttpServer::~HttpServer() {
  impl_->loop.stop();
  impl_->thread.join();
}

std::string HttpServer::url() const {
  const auto endpoint = impl_->acceptor.local_endpoint();
  const auto host = endpoint.address().to_string();
  return fmt::format("http://{}:{}/", endpoint.address().is_v6() ? "[" + host + "]" : host, endpoint.port());
}

}  // namespace pgbaton::app

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <memory>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/plain_password.hpp>

#include "conninfo.hpp"

namespace pgbaton::pg {
namespace {

std::vector<std::string>& allowed_hosts() {
  static std::vector<std::string> hosts;
  return hosts;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  for (;;) {
    const auto comma = std::min(list.find(','), list.size());
    parts.emplace_back(list.substr(0, comma));
    if (comma == list.size()) return parts;
    list.remove_prefix(comma + 1);
  }
}

bool is_local(std::string_view host) {
  if (host.empty() || host.starts_with('/') || host.starts_with('@')) return true;  // a Unix socket
  if (host == "localhost" || host == "::1") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

struct Merged {
  std::string sslmode, hosts, addresses;
  bool has_password = false;
};

// As effective_items(): libpq merges services, environment and the password file before it looks at channel_binding,
// and that before it looks at sslmode.
Merged merge(const std::string& conninfo) {
  const std::array<const char*, 3> keywords{"dbname", "channel_binding", nullptr};
  const std::array<const char*, 3> values{conninfo.c_str(), "none-merge-only", nullptr};
  const std::unique_ptr<PGconn, FinishConnection> probe(PQconnectStartParams(keywords.data(), values.data(), 1));
  if (!probe) throw Error(ErrorKind::failed, "out of memory");
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(PQconninfo(probe.get()), &PQconninfoFree);
  Merged merged;
  const char* password = PQpass(probe.get());
  merged.has_password = password != nullptr && *password != '\0';
  for (const auto* option = options.get(); option != nullptr && option->keyword != nullptr; ++option) {
    const std::string_view keyword = option->keyword;
    const std::string value = option->val == nullptr ? "" : option->val;
    if (keyword == "sslmode") merged.sslmode = value;
    if (keyword == "host") merged.hosts = value;
    if (keyword == "hostaddr") merged.addresses = value;
    if (keyword == "password" && !value.empty()) merged.has_password = true;
  }
  return merged;
}

}  // namespace

void allow_plain_password(std::vector<std::string> hosts) {
  allowed_hosts() = std::move(hosts);
}

const std::vector<std::string>& plain_password_hosts() {
  return allowed_hosts();
}

std::vector<std::string> other_hosts(std::string_view hosts, std::string_view addresses) {
  auto names = split(hosts);
  const auto by_address = split(addresses);
  names.resize(std::max(names.size(), by_address.size()));
  std::vector<std::string> others;
  for (std::size_t i = 0; i < names.size(); ++i) {
    // The address is where it goes; the name is what people call it.
    const auto address =
        addresses.empty() || i >= by_address.size() || by_address[i].empty() ? names[i] : by_address[i];
    const auto& name = names[i].empty() ? address : names[i];
    const bool allowed = std::ranges::any_of(allowed_hosts(), [&](const auto& h) { return h == name || h == address; });
    if (!is_local(address) && !allowed) others.push_back(name);
  }
  return others;
}

std::string forced_sslmode(const std::string& conninfo, Side side) {
  const auto merged = merge(conninfo);
  const bool plain_possible = merged.sslmode != "require" && !merged.sslmode.starts_with("verify-");
  if (!merged.has_password || !plain_possible) return "";
  const auto others = other_hosts(merged.hosts, merged.addresses);
  if (others.empty()) return "";
  if (merged.sslmode != "disable") return "require";
  throw Error(ErrorKind::usage,
              fmt::format("a password would go to {} without TLS (sslmode=disable)", fmt::join(others, ", ")))
      .side(side)
      .hint(
          fmt::format("Use sslmode=verify-full; or allow it by name in the --config file: allow_plain_password: [{}].",
                      others.front()));
}

}  // namespace pgbaton::pg

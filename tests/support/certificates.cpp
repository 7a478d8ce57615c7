#include "certificates.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace pgbaton::testing {
namespace {

void openssl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "openssl");
  run_checked({.arguments = std::move(arguments)});
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

void make_key(const std::string& path) {
  openssl({"ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path});
  chmod(path.c_str(), 0600);
}

// The server's user must own its key.
std::string install(const std::string& from, const std::string& to) {
  write(to, read_file(from));
  const auto [user, group] = server_account();
  if (chown(to.c_str(), user, group) != 0 || chmod(to.c_str(), 0600) != 0)
    throw std::runtime_error("cannot hand over " + to);
  return to;
}

}  // namespace

Authority::Authority(const std::string& name)
    : directory_(make_run_directory("ca")), certificate_(directory_ + "/ca.crt"), key_(directory_ + "/ca.key") {
  make_key(key_);
  openssl({"req", "-x509", "-new", "-key", key_, "-subj", "/CN=" + name, "-days", "30", "-out", certificate_});
}

Authority::Signed Authority::sign(const std::string& name) const {
  const auto stem = directory_ + "/" + name;
  make_key(stem + ".key");
  openssl({"req", "-new", "-key", stem + ".key", "-subj", "/CN=" + name, "-out", stem + ".csr"});
  write(stem + ".ext", "subjectAltName = DNS:" + name + "\n");
  openssl({"x509", "-req", "-in", stem + ".csr", "-CA", certificate_, "-CAkey", key_, "-CAcreateserial", "-days", "30",
           "-extfile", stem + ".ext", "-out", stem + ".crt"});
  return {stem + ".crt", stem + ".key"};
}

void Authority::equip(Cluster& server, const std::string& rules) const {
  const auto own = sign("localhost");
  server.set("ssl", "on");
  server.set("ssl_cert_file", install(own.certificate, server.directory() + "/server.crt"));
  server.set("ssl_key_file", install(own.key, server.directory() + "/server.key"));
  server.set("ssl_ca_file", install(certificate_, server.directory() + "/ca.crt"));
  const auto hba = server.data_directory() + "/pg_hba.conf";
  write(hba, rules + read_file(hba));
}

}  // namespace pgbaton::testing

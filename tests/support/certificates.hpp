// A certificate authority of a test's own, made by openssl, and what it has signed.
#pragma once
#include <string>

#include "cluster.hpp"

namespace pgbaton::testing {

// Files in a folder of this process; keys are readable for their owner alone.
class Authority {
 public:
  explicit Authority(const std::string& name);
  const std::string& certificate() const { return certificate_; }
  struct Signed {
    std::string certificate, key;
  };
  // For a server: DNS name `name`. For a client: common name `name`.
  Signed sign(const std::string& name) const;
  // The server gets a certificate for localhost, takes clients' ones of this authority, and TLS is on once it has
  // restarted. `rules` come before those of pg_hba.conf.
  void equip(Cluster& server, const std::string& rules) const;

 private:
  std::string directory_, certificate_, key_;
};

}  // namespace pgbaton::testing

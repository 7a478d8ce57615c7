// A file system of a few megabytes, for a tablespace: a target whose disk is full.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "process.hpp"

namespace pgbaton::testing {

// The tests are run by root or by a user with sudo.
class SmallDisk {
 public:
  SmallDisk() : path_(make_run_directory("disk")) { mounted_ = as_root("mount -t tmpfs -o size=24m,mode=777 none "); }
  ~SmallDisk() {
    if (mounted_ && !as_root("umount -l ")) ADD_FAILURE() << path_ << " is mounted";
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  bool grow() { return as_root("mount -o remount,size=200m "); }
  bool shrink() { return as_root("mount -o remount,size=48m "); }
  const std::string& path() const { return path_; }
  // A folder on it that belongs to the servers' account.
  std::string make_space() const {
    auto space = path_ + "/space";
    std::filesystem::create_directory(space);
    const auto [uid, gid] = server_account();
    EXPECT_EQ(chown(space.c_str(), uid, gid), 0);
    return space;
  }

 private:
  bool as_root(const std::string& command) const {
    return std::system(((geteuid() == 0 ? "" : "sudo -n ") + command + path_).c_str()) == 0;
  }
  std::string path_;
  bool mounted_ = false;
};

}  // namespace pgbaton::testing

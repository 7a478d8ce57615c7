// Messages captured from real servers by scripts/capture-wire: tests/data/wire/pg*.txt.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace pgbaton::wire::test {

using Bytes = std::vector<std::byte>;

struct Golden {
  int line = 0;
  std::string section;  // the comment above: "text values", "binary values"
  std::uint64_t lsn_offset = 0;
  Bytes body;
};

inline Bytes from_hex(const std::string& hex) {
  if (hex.size() % 2 != 0) throw std::runtime_error("odd number of hex digits");
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

inline std::vector<Golden> load_golden(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::vector<Golden> messages;
  std::string text, section;
  for (int line = 1; std::getline(file, text); ++line) {
    if (text.starts_with("# ")) {
      section = text.substr(2);
      continue;
    }
    std::istringstream fields(text);
    std::string offset, hex;
    if (!(fields >> offset >> hex))
      throw std::runtime_error(path.string() + ": malformed line " + std::to_string(line));
    messages.push_back({line, section, std::stoull(offset, nullptr, 16), from_hex(hex)});
  }
  return messages;
}

// One file per major, in the order of their names.
inline std::vector<std::filesystem::path> list_captures(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

// Network-order messages by hand: Build('D').u32(7).text("x").
class Build {
 public:
  explicit Build(char type) { letter(type); }
  Build& letter(char c) { return u8(static_cast<std::uint8_t>(c)); }
  Build& u8(std::uint8_t value) { return number(value, 1); }
  Build& u16(std::uint16_t value) { return number(value, 2); }
  Build& u32(std::uint32_t value) { return number(value, 4); }
  Build& u64(std::uint64_t value) { return number(value, 8); }
  Build& raw(std::string_view text) {
    for (const char c : text) letter(c);
    return *this;
  }
  Build& string(std::string_view text) { return raw(text).u8(0); }
  Build& counted(std::string_view text) { return u32(static_cast<std::uint32_t>(text.size())).raw(text); }
  operator std::span<const std::byte>() const { return bytes_; }
  const Bytes& bytes() const { return bytes_; }

 private:
  Build& number(std::uint64_t value, int size) {
    for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) bytes_.push_back(static_cast<std::byte>(value >> shift));
    return *this;
  }
  Bytes bytes_;
};

}  // namespace pgbaton::wire::test

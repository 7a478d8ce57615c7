// Finds the keys of one table in a window: numbers them 0, 1, 2 … in the order of their arrival. One flat table of
// slots, linear probing; no allocation per key, because a window has up to hundreds of thousands.
//
//   slots  [ – | 2,tag | – | 0,tag | 1,tag | – … ]     number and 32 bits of the hash; at most half of them taken
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace pgbaton::apply {

class KeyIndex {
 public:
  std::optional<std::size_t> find(std::string_view key) const {
    if (slots_.empty()) return std::nullopt;
    const std::size_t hash = std::hash<std::string_view>{}(key);
    for (std::size_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot& slot = slots_[at];
      if (slot.place == 0) return std::nullopt;
      if (slot.tag == tag(hash) && keys_[slot.place - 1] == key) return slot.place - 1;
    }
  }
  // A key that is not there yet; its bytes outlive the index.
  void add(std::string_view key) {
    if ((keys_.size() + 1) * 2 > slots_.size()) grow();
    keys_.push_back(key);
    put(keys_.size());
  }

 private:
  struct Slot {
    std::uint32_t place = 0;  // number + 1; 0: free
    std::uint32_t tag = 0;
  };
  static constexpr std::size_t kFirstSlots = 16;

  std::size_t mask() const { return slots_.size() - 1; }
  static std::uint32_t tag(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  void put(std::size_t place) {
    const std::size_t hash = std::hash<std::string_view>{}(keys_[place - 1]);
    std::size_t at = hash & mask();
    while (slots_[at].place != 0) at = (at + 1) & mask();
    slots_[at] = {static_cast<std::uint32_t>(place), tag(hash)};
  }
  void grow() {
    const std::size_t size = slots_.empty() ? kFirstSlots : slots_.size() * 2;
    slots_.assign(size, {});
    for (std::size_t place = 1; place <= keys_.size(); ++place) put(place);
  }

  std::vector<Slot> slots_;
  std::vector<std::string_view> keys_;
};

}  // namespace pgbaton::apply

// Memory that is given out in order and freed all at once, with stable addresses: the bytes of one transaction part.
// Not thread-safe; moves with its owner (views into it stay valid across a move).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace pgbaton {

class Arena {
 public:
  Arena() = default;
  Arena(Arena&& other) noexcept
      : blocks_(std::move(other.blocks_)),
        size_(std::exchange(other.size_, 0)),
        used_(std::exchange(other.used_, 0)),
        total_(std::exchange(other.total_, 0)) {
    other.blocks_.clear();
  }
  Arena& operator=(Arena&& other) noexcept {
    Arena taken(std::move(other));
    blocks_.swap(taken.blocks_);
    std::swap(size_, taken.size_);
    std::swap(used_, taken.used_);
    std::swap(total_, taken.total_);
    return *this;
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // n default-constructed elements; their destructors never run.
  template <typename T>
  std::span<T> array(std::size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    if (n == 0) return {};
    T* first = static_cast<T*>(raw(n * sizeof(T), alignof(T)));
    std::uninitialized_default_construct_n(first, n);
    return {first, n};
  }
  std::string_view copy(std::string_view text) {
    auto bytes = array<char>(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    return {bytes.data(), bytes.size()};
  }
  std::span<const std::byte> copy(std::span<const std::byte> from) {
    auto bytes = array<std::byte>(from.size());
    if (!from.empty()) std::memcpy(bytes.data(), from.data(), from.size());
    return bytes;
  }
  // Bytes taken from the heap, the unused rest of blocks included: what the memory ceiling counts.
  std::size_t bytes() const { return total_; }

 private:
  // 32 kB keeps a single-row transaction cheap; a larger request gets a block of its own.
  static constexpr std::size_t kBlockBytes = 32 * 1024;
  // The first block is small, because most transactions are.
  static constexpr std::size_t kFirstBlockBytes = 1024;

  void* raw(std::size_t n, std::size_t align) {
    std::size_t at = (used_ + align - 1) / align * align;
    if (blocks_.empty() || at + n > size_) {
      size_ = std::max(blocks_.empty() ? kFirstBlockBytes : kBlockBytes, n);
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size_));
      total_ += size_;
      at = 0;
    }
    used_ = at + n;
    return blocks_.back().get() + at;
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::size_t size_ = 0, used_ = 0, total_ = 0;
};

}  // namespace pgbaton

#include "graph/similar_names.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "lexical/unicode.hpp"

namespace spector {
namespace {

// How it works: of two names within one edit, each has a deletion of at most one character that
// makes them equal; within two edits, of at most two. So names that share such a shortened form are
// compared, and no others. Long names would have too many forms of two deletions: of two within two
// edits, cut at half the length of the shorter, either the first parts are within one edit or the
// rest is equal.
constexpr std::size_t kLeast = 5;       // characters of a name that may be merged
constexpr std::size_t kTwoEdits = 10;   // from here on
constexpr std::size_t kLong = 41;       // from here on by halves,
constexpr std::size_t kMostShort = 42;  // up to here by two deletions: each pair by one of them
constexpr std::size_t kPassKeys = std::size_t{1} << 22;  // held at a time, about

constexpr std::uint64_t kBase = 0x9e3779b97f4a7c15U;

std::uint64_t mixed(std::uint64_t x) noexcept {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93U;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93U;
  return x ^ x >> 32;
}

struct Traits {
  std::uint64_t numbers;     // of the runs of digits
  std::uint64_t characters;  // a bit for each that occurs, modulo 64
};

Traits traits_of(std::u32string_view name) noexcept {
  Traits traits{1, 0};
  bool within = false;
  for (const char32_t c : name) {
    const bool digit = char_properties(c).char_class == CharClass::Digit;
    if (digit) traits.numbers = mixed(traits.numbers * kBase + (within ? 0 : 1)) + c;
    within = digit;
    traits.characters |= std::uint64_t{1} << (c % 64);
  }
  return traits;
}

// The hash of a text is the sum of its characters times kBase to the power of their distance from
// the end, so that those of shortened forms come from those of what is left and right of the gap.
class Forms {
 public:
  // Calls emit(key) for each form of the name; equal forms of two names have equal keys.
  template <class Emit>
  void run(std::u32string_view name, std::uint64_t numbers, const Emit& emit) {
    const std::size_t n = name.size();
    while (powers_.size() <= n) {
      powers_.push_back(powers_.empty() ? 1 : powers_.back() * kBase);
    }
    heads_.assign(1, 0);
    for (const char32_t c : name) heads_.push_back(heads_.back() * kBase + c + 1);
    if (n <= kMostShort) {
      const auto out = [&](std::uint64_t hash) { emit(mixed(hash ^ numbers)); };
      out(heads_[n]);
      one_deletion(name, out);
      if (n >= kTwoEdits) two_deletions(name, out);
    }
    if (n >= kLong) {
      for (std::size_t shorter = std::max(n - 2, kLong); shorter <= n; ++shorter) {
        const std::size_t cut = shorter / 2;
        const auto out = [&](std::uint64_t hash, std::uint64_t part) {
          emit(mixed(mixed(hash ^ numbers) + shorter * 2 + part));
        };
        out(heads_[cut], 0);
        one_deletion(name.substr(0, cut), [&](std::uint64_t hash) { out(hash, 0); });
        out(between(n - (shorter - cut), n), 1);
      }
    }
  }

 private:
  [[nodiscard]] std::uint64_t between(std::size_t begin, std::size_t end) const noexcept {
    return heads_[end] - heads_[begin] * powers_[end - begin];
  }
  template <class Out>
  void one_deletion(std::u32string_view text, const Out& out) const {
    const std::size_t n = text.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (i > 0 && text[i] == text[i - 1]) continue;  // the same form
      out(heads_[i] * powers_[n - 1 - i] + between(i + 1, n));
    }
  }
  template <class Out>
  void two_deletions(std::u32string_view text, const Out& out) const {
    const std::size_t n = text.size();
    for (std::size_t i = 0; i + 1 < n; ++i) {
      if (i > 0 && text[i] == text[i - 1]) continue;
      std::uint64_t head = heads_[i];  // of what is before j, without i
      for (std::size_t j = i + 1; j < n; ++j) {
        out(head * powers_[n - 1 - j] + between(j + 1, n));
        head = head * kBase + text[j] + 1;
      }
    }
  }

  std::vector<std::uint64_t> heads_;   // hash of the first i characters
  std::vector<std::uint64_t> powers_;  // of kBase
};

std::size_t n_forms(std::size_t n) noexcept {
  std::size_t forms = 0;
  if (n <= kMostShort) forms += 1 + n + (n >= kTwoEdits ? n * (n - 1) / 2 : 0);
  if (n >= kLong) forms += 3 * (n / 2 + 2);
  return forms;
}

constexpr std::uint32_t kFar = 3;

// The edit distance if it is at most 2, else kFar.
std::uint32_t distance(std::u32string_view a, std::u32string_view b) noexcept {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() >= kFar) return kFar;
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin());
  const auto begin = static_cast<std::size_t>(differ.first - a.begin());
  a.remove_prefix(begin);
  b.remove_prefix(begin);
  while (!a.empty() && a.back() == b.back()) {
    a.remove_suffix(1);
    b.remove_suffix(1);
  }
  // Cells (i, i - 2) to (i, i + 2) of the usual table, with a border on both sides.
  std::array<std::uint32_t, 7> row;
  row.fill(kFar);
  for (std::uint32_t j = 0; j <= 2 && j <= b.size(); ++j) row[j + 3] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::array<std::uint32_t, 7> next;
    next.fill(kFar);
    for (std::size_t o = 1; o <= 5; ++o) {
      if (i + o < 3 || i + o - 3 > b.size()) continue;
      const std::size_t j = i + o - 3;
      std::uint32_t best = row[o + 1] + 1;
      if (j > 0) {
        best = std::min(best, next[o - 1] + 1);
        best = std::min(best, row[o] + (a[i - 1] == b[j - 1] ? 0 : 1));
      }
      next[o] = std::min(best, kFar);
    }
    row = next;
  }
  return row[b.size() - a.size() + 3];
}

struct Key {
  std::uint64_t key;
  std::uint32_t name;
  friend auto operator<=>(const Key&, const Key&) = default;
};

// Leaves keys that more than one name may have, sorted.
void keep_shared(std::vector<Key>& keys, std::vector<std::uint64_t>& bits) {
  // Two bits for each of 8 times as many places: seen once, seen again.
  const std::size_t n_words = std::bit_ceil(keys.size() / 8 + 1);
  bits.assign(2 * n_words, 0);
  const auto word = [&](const Key& key) { return 2 * (key.key >> 6 & (n_words - 1)); };
  const auto bit = [](const Key& key) { return std::uint64_t{1} << (key.key & 63); };
  for (const Key& key : keys) {
    const std::size_t at = word(key);
    bits[at + 1] |= bits[at] & bit(key);
    bits[at] |= bit(key);
  }
  std::erase_if(keys, [&](const Key& key) { return (bits[word(key) + 1] & bit(key)) == 0; });
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

}  // namespace

std::vector<SimilarNames> similar_names(std::span<const std::u32string> names) {
  std::vector<Traits> traits;
  traits.reserve(names.size());
  std::size_t total = 0;
  for (const std::u32string& name : names) {
    traits.push_back(traits_of(name));
    if (name.size() >= kLeast) total += n_forms(name.size());
  }
  const auto may_be = [&](std::uint32_t a, std::uint32_t b) {
    // An edit removes at most one character and brings at most one.
    return traits[a].numbers == traits[b].numbers &&
           std::popcount(traits[a].characters ^ traits[b].characters) <= 4;
  };

  std::vector<SimilarNames> found;
  std::vector<Key> keys;
  std::vector<std::uint64_t> bits;
  std::vector<std::uint64_t> candidates;
  Forms forms;
  const auto verify = [&] {
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    for (const std::uint64_t candidate : candidates) {
      const auto a = static_cast<std::uint32_t>(candidate >> 32);
      const auto b = static_cast<std::uint32_t>(candidate);
      const std::size_t shorter = std::min(names[a].size(), names[b].size());
      const std::uint32_t edits = distance(names[a], names[b]);
      if (edits <= (shorter < kTwoEdits ? 1U : 2U)) found.push_back({a, b, edits});
    }
    candidates.clear();
  };

  const std::uint64_t passes = total / kPassKeys + 1;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    keys.clear();
    for (std::uint32_t i = 0; i < names.size(); ++i) {
      if (names[i].size() < kLeast) continue;
      forms.run(names[i], traits[i].numbers, [&](std::uint64_t key) {
        if ((key >> 32) * passes >> 32 == pass) keys.push_back({key, i});
      });
    }
    keep_shared(keys, bits);
    for (std::size_t begin = 0; begin < keys.size();) {
      std::size_t end = begin + 1;
      while (end < keys.size() && keys[end].key == keys[begin].key) ++end;
      for (std::size_t i = begin; i < end; ++i) {
        for (std::size_t j = i + 1; j < end; ++j) {
          if (may_be(keys[i].name, keys[j].name)) {
            candidates.push_back(std::uint64_t{keys[i].name} << 32 | keys[j].name);
          }
        }
        if (candidates.size() >= kPassKeys) verify();
      }
      begin = end;
    }
    verify();
  }
  const auto order = [](const SimilarNames& x, const SimilarNames& y) {
    return std::tie(x.distance, x.a, x.b) < std::tie(y.distance, y.a, y.b);
  };
  std::sort(found.begin(), found.end(), order);
  const auto same = [](const SimilarNames& x, const SimilarNames& y) {
    return x.a == y.a && x.b == y.b;
  };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  return found;
}

}  // namespace spector

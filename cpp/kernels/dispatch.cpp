#include "kernels/dispatch.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "kernels/archs.hpp"

namespace spector::kernels {
namespace {

template <class Arch>
void bm25_accumulate(const Bm25Postings& postings, const std::uint32_t* lengths,
                     std::uint32_t window, float* sums) noexcept {
  Bm25Accumulate{}(Arch{}, postings, lengths, window, sums);
}

template <class Arch>
std::size_t collect_at_least(const float* sums, std::size_t count, float threshold,
                             std::uint32_t* indices) noexcept {
  return CollectAtLeast{}(Arch{}, sums, count, threshold, indices);
}

template <class Arch>
const Table kTable{nullptr, nullptr, nullptr};

#ifdef SPECTOR_X86
template <>
const Table kTable<xsimd::avx512bw>{"avx512", bm25_accumulate<xsimd::avx512bw>,
                                    collect_at_least<xsimd::avx512bw>};
template <>
const Table kTable<xsimd::fma3<xsimd::avx2>>{"avx2", bm25_accumulate<xsimd::fma3<xsimd::avx2>>,
                                             collect_at_least<xsimd::fma3<xsimd::avx2>>};
template <>
const Table kTable<xsimd::sse2>{"sse2", bm25_accumulate<xsimd::sse2>,
                                collect_at_least<xsimd::sse2>};
#else
template <>
const Table kTable<xsimd::default_arch>{"native", bm25_accumulate<xsimd::default_arch>,
                                        collect_at_least<xsimd::default_arch>};
#endif

// Tables this machine can run, best first, the scalar one last.
std::vector<const Table*> runnable() {
  std::vector<const Table*> tables;
  const auto machine = xsimd::available_architectures();
  const auto add = [&]<class... Arch>(xsimd::arch_list<Arch...>) {
    ((machine.has(Arch{}) ? tables.push_back(&kTable<Arch>) : void()), ...);
  };
  add(Archs{});
  tables.push_back(&kScalar);
  return tables;
}

std::atomic<const Table*>& current() noexcept {
  static std::atomic<const Table*> table = runnable().front();
  return table;
}

}  // namespace

const Table& active() noexcept { return *current().load(std::memory_order_acquire); }

std::vector<std::string_view> available_isas() {
  std::vector<std::string_view> names;
  for (const Table* table : runnable()) names.insert(names.begin(), table->name);
  return names;
}

void set_isa(std::string_view name) {
  std::string names;
  for (const Table* table : runnable()) {
    if (name == table->name) {
      current().store(table, std::memory_order_release);
      return;
    }
    names.append(names.empty() ? "" : ", ").append(table->name);
  }
  throw std::invalid_argument("SIMD level '" + std::string(name) + "': this machine has " + names);
}

void set_isa_from_environment() {
  // Read once, before any other thread can use the module.
  const char* name = std::getenv("SPECTOR_SIMD");  // NOLINT(concurrency-mt-unsafe)
  if (name != nullptr && *name != '\0') set_isa(name);
}

}  // namespace spector::kernels

#include "graph/temporal_chain.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "base/envelope.hpp"
#include "base/error.hpp"

namespace spector {
namespace {

constexpr std::array<std::string_view, 1> kSectionNames{"records"};
constexpr FileKind kKind{
    .magic = {'T', 'P', 'C', 'H'},
    .version = 2,
    .shape = 3,
    .stride = sizeof(TemporalChain::Record),
    .sections = kSectionNames,
    .remedy = "restore it from a copy, or start with an empty chain",
};

constexpr std::uint32_t slot_of(std::int32_t number) noexcept {
  return static_cast<std::uint32_t>(number);
}
constexpr std::int32_t number_of(std::uint32_t slot) noexcept {
  return static_cast<std::int32_t>(slot);
}

void check(const char* name, std::uint32_t slot, std::size_t size) {
  if (slot < size) return;
  throw std::out_of_range(std::string(name) + " must be below the number of slots, " +
                          std::to_string(size) + ", not " + std::to_string(slot));
}

}  // namespace

TemporalChain::Lists TemporalChain::View::followers(std::span<const std::uint32_t> starts,
                                                    Direction direction,
                                                    std::size_t max_hops) const {
  for (const std::uint32_t start : starts) spector::check("start", start, size());
  Lists lists;
  lists.indptr.reserve(starts.size() + 1);
  lists.indptr.push_back(0);
  constexpr std::size_t kAhead = 8;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (i + kAhead < starts.size()) records_.prefetch(starts[i + kAhead]);
    follow(starts[i], direction, max_hops,
           [&](std::uint32_t slot) { lists.slots.push_back(slot); });
    lists.indptr.push_back(static_cast<std::int64_t>(lists.slots.size()));
  }
  return lists;
}

TemporalChain::View TemporalChain::view() const noexcept {
  View view;
  view.records_ = records_.view();
  view.n_links_ = n_links_;
  view.memory_bytes_ = heap_.next_bytes();
  return view;
}

void TemporalChain::published() noexcept {
  records_.published();
  published_links_ = n_links_;
  heap_.published();
}

void TemporalChain::rollback() noexcept {
  records_.rollback();
  n_links_ = published_links_;
  heap_.rollback();
}

void TemporalChain::check(const char* name, std::uint32_t slot) const {
  spector::check(name, slot, records_.size());
}

void TemporalChain::resize(std::size_t n) {
  if (n > kMaxSlots) {
    throw std::invalid_argument("slots must be at most " + std::to_string(kMaxSlots) + ", not " +
                                std::to_string(n));
  }
  records_.resize(n);
}

void TemporalChain::link(std::uint32_t current, std::uint32_t previous, std::uint32_t session,
                         std::uint32_t time_s) {
  check("current", current);
  check("prev", previous);
  if (current == previous) {
    throw std::invalid_argument("current and prev must be two slots, not twice " +
                                std::to_string(current));
  }
  const Record& before = records_[previous];
  if (before.session != session && (before.linked() || before.session != 0)) {
    throw std::invalid_argument("session must be that of slot " + std::to_string(previous) + ", " +
                                std::to_string(before.session) + ", not " +
                                std::to_string(session));
  }
  take_out(current);
  Record& earlier = records_.edit(previous);
  const std::int32_t later = earlier.next;
  earlier.next = number_of(current);
  earlier.session = session;
  records_.edit(current) = {number_of(previous), later, session, time_s};
  if (later >= 0) records_.edit(slot_of(later)).previous = number_of(current);
  ++n_links_;
}

void TemporalChain::take_out(std::uint32_t slot) {
  const auto [previous, next, session, time_s] = records_[slot];
  if (previous < 0 && next < 0) return;
  if (previous >= 0) records_.edit(slot_of(previous)).next = next;
  if (next >= 0) records_.edit(slot_of(next)).previous = previous;
  records_.edit(slot) = {-1, -1, session, time_s};
  --n_links_;  // of two one is left, or the only one goes
}

void TemporalChain::remove(std::span<const std::uint32_t> slots) {
  for (const std::uint32_t slot : slots) check("slot", slot);
  for (const std::uint32_t slot : slots) {
    take_out(slot);
    const Record& record = records_[slot];
    if (record.session != 0 || record.time_s != 0) records_.edit(slot) = {};
  }
}

std::size_t TemporalChain::prune(std::uint32_t before_s, std::span<const std::uint32_t> slots) {
  for (const std::uint32_t slot : slots) check("slots", slot);
  std::size_t pruned = 0;
  for (const std::uint32_t slot : slots) {
    const Record& record = records_[slot];
    if (!record.linked() || record.time_s == 0 || record.time_s >= before_s) continue;
    take_out(slot);
    ++pruned;
  }
  return pruned;
}

void TemporalChain::View::save(const std::string& path) const {
  std::vector<Record> records;
  records.reserve(size());
  for (std::size_t slot = 0; slot < size();) {
    const std::span<const Record> run = records_.run(slot);
    records.insert(records.end(), run.begin(), run.end());
    slot += run.size();
  }
  const std::array<std::span<const std::byte>, 1> sections{std::as_bytes(std::span(records))};
  write_file(path, kKind, size(), sections);
}

void TemporalChain::load(const std::string& path) {
  const StoredFile file(path, kKind, false);
  const auto stored = file.array<Record>(0);
  const std::span<const Record> records = stored.values;
  if (records.size() != file.count()) file.fail(0, "not as many as the header says");
  if (records.size() > kMaxSlots) file.fail(0, "too many");
  const auto known = [&](std::int32_t number) {
    return number == -1 || (number >= 0 && slot_of(number) < records.size());
  };
  std::size_t n_links = 0;
  for (std::size_t slot = 0; slot < records.size(); ++slot) {
    const Record& record = records[slot];
    if (!known(record.previous) || !known(record.next)) {
      file.fail(0, "a slot that is not there");
    }
    const auto number = static_cast<std::int32_t>(slot);
    if (record.next >= 0) {
      const Record& next = records[slot_of(record.next)];
      if (next.previous != number) file.fail(0, "a link in one direction only");
      if (next.session != record.session) file.fail(0, "a link between two sessions");
      ++n_links;
    }
    if (record.previous >= 0 && records[slot_of(record.previous)].next != number) {
      file.fail(0, "a link in one direction only");
    }
  }
  // Links are mutual, so what the beginnings do not lead to are circles.
  std::size_t reached = 0;
  for (const Record& first : records) {
    if (first.previous >= 0) continue;
    for (std::int32_t next = first.next; next >= 0; next = records[slot_of(next)].next) ++reached;
  }
  if (reached != n_links) file.fail(0, "a chain that closes");

  records_.clear();
  records_.resize(records.size());
  for (std::size_t slot = 0; slot < records.size(); ++slot) {
    const Record& record = records[slot];
    if (record.linked() || record.session != 0 || record.time_s != 0) records_.edit(slot) = record;
  }
  n_links_ = n_links;
}

}  // namespace spector

#include "lexical/index_file.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/epoch.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "lexical/bm25_index.hpp"
#include "lexical/packed_numbers.hpp"
#include "lexical/packed_postings.hpp"
#include "lexical/token_index.hpp"
#include "random.hpp"
#include "temporary_file.hpp"
#include "try_file.hpp"

using namespace spector;

namespace {

// Documents with few and with many rows a term, and with high frequencies.
Documents documents(Random& random, std::uint32_t n) {
  Documents all;
  for (std::uint32_t slot = 0; slot < n; ++slot) {
    std::map<std::uint32_t, std::uint32_t> counts;
    for (unsigned i = 0; i < random() % 9; ++i) {
      counts[random() % (1 + random() % 60)] += random() % 50 == 0 ? 200 + random() % 100 : 1;
    }
    std::uint32_t length = 0;
    std::vector<TermCount> terms;
    for (const auto& [term, count] : counts) {
      terms.push_back({term, count});
      length += count;
    }
    all.add(3 * slot + random() % 3, length, terms);
  }
  return all;
}

// An index and the file it is saved to, which holds its terms as token ids or as texts.
struct Saved {
  EpochDomain epochs;
  Bm25Index index{1.2, 0.75, epochs};
  TemporaryFile file;

  Saved(unsigned seed, std::uint32_t n, IndexKind kind = IndexKind::kTokens) {
    Random random(seed);
    index.put(documents(random, n));
    index.compact(index.compact_numbers());
    index.published();
    std::vector<std::uint32_t> keys(index.n_terms());
    for (std::uint32_t i = 0; i < keys.size(); ++i) keys[i] = 100 * i;
    const auto buckets = FrozenKeys::make_buckets(keys);
    std::vector<std::uint32_t> numbers(keys.size());
    std::iota(numbers.begin(), numbers.end(), 0U);
    StringFreezer ids;
    StringFreezer words;
    IndexContents contents{};
    contents.kind = kind;
    contents.settings = {1.2, 0.75, "code", "", "code-1"};
    contents.segment = segment();
    for (const std::uint32_t slot : contents.slots()) ids.add("id" + std::to_string(slot));
    contents.ids = ids.finish(7);
    contents.next_row = 3 * n;
    if (kind == IndexKind::kTexts) {
      for (const std::uint32_t number : numbers) words.add("word" + std::to_string(number));
      contents.terms = contents.words = words.finish(7);
      contents.word_terms = numbers;
    } else {
      contents.token_ids = keys;
      contents.token_buckets = buckets;
    }
    save_index(file.path(), contents);
  }
  [[nodiscard]] const Segment* segment() const { return index.sealed().value(); }
};

std::size_t windows_of(const Segment::Term& term) {
  return term.windows == Segment::kNone ? 0 : term.windows + std::size_t{1};
}

template <class T>
bool equal(const T* a, const T* b, std::size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(T)) == 0;
}

bool equal(const Segment::Term& a, const Segment::Term& b) {
  const std::size_t n = a.count;
  const std::size_t windows = windows_of(a);
  return std::memcmp(static_cast<const Segment::TermHead*>(&a),
                     static_cast<const Segment::TermHead*>(&b), sizeof(Segment::TermHead)) == 0 &&
         equal(Segment::escapes(a), Segment::escapes(b), a.n_escapes) &&
         equal(reinterpret_cast<const std::byte*>(Segment::offsets(a)),
               reinterpret_cast<const std::byte*>(Segment::offsets(b)), n * a.row_bytes) &&
         equal(Segment::bounds(a), Segment::bounds(b), n) &&
         equal(Segment::frequencies(a), Segment::frequencies(b), n) &&
         (windows == 0 || (equal(Segment::window_starts(a), Segment::window_starts(b), windows) &&
                           equal(Segment::window_maxima(a), Segment::window_maxima(b), windows)));
}

std::vector<std::uint32_t> terms_of(const Segment& segment, std::uint32_t row) {
  std::vector<std::uint32_t> terms;
  segment.for_each_term(row, [&](std::uint32_t term) { terms.push_back(term); });
  return terms;
}

// Lists of the second that are not those of the first.
int different(const Segment& a, const Segment& b) {
  int n = 0;
  for (std::uint32_t place = 0; place < a.counts().size(); ++place) {
    n += equal(a.term(place), b.term(place)) ? 0 : 1;
  }
  return n;
}

constexpr std::size_t kTable = 72;  // cpp/FORMATS.md
constexpr std::size_t kEntry = 24;

template <class T>
T read(const std::string& bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <class T>
void write(std::string& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::uint32_t checksum(const std::string& bytes, std::size_t at, std::size_t n) {
  return crc32c(std::as_bytes(std::span(bytes).subspan(at, n)));
}

// Gives the file the checksums of its contents.
void sign(std::string& bytes) {
  const std::size_t n = read<std::uint32_t>(bytes, 64);
  for (std::size_t at = kTable; at < kTable + n * kEntry; at += kEntry) {
    write(bytes, at + 4,
          checksum(bytes, read<std::uint64_t>(bytes, at + 8), read<std::uint64_t>(bytes, at + 16)));
  }
  write(bytes, 68, checksum(bytes, kTable, n * kEntry));
  write(bytes, 56, checksum(bytes, 64, bytes.size() - 64));
  write(bytes, 60, checksum(bytes, 0, 60));
}

// One to three changes within the sections.
void damage(std::string& bytes, Random& random) {
  constexpr std::array<std::uint32_t, 8> kValues{
      0, 1, 2, 0x7fffffffU, 0x80000000U, 0xffffffffU, 0xfffffffeU, 0x01010101U};
  const std::size_t n = read<std::uint32_t>(bytes, 64);
  for (unsigned i = 0; i <= random() % 3; ++i) {
    const std::size_t entry = kTable + random() % n * kEntry;
    const auto offset = read<std::uint64_t>(bytes, entry + 8);
    const auto size = read<std::uint64_t>(bytes, entry + 16);
    if (size < 4) continue;
    const std::size_t at = offset + random() % (size - 3);
    switch (random() % 5) {
      case 0:
        write(bytes, at, kValues[random() % kValues.size()]);
        break;
      case 1:
        write(bytes, offset + (at - offset) / 4 * 4, kValues[random() % kValues.size()]);
        break;
      case 2:
        write(bytes, at, read<std::uint32_t>(bytes, at) + 1);
        break;
      case 3:
        bytes[at] = static_cast<char>(random());
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
    }
  }
}

}  // namespace

TEST_CASE("packed postings: what goes in comes out, at every width and length") {
  Random random(1);
  std::vector<std::size_t> lengths(130);  // the short ones, which are coded otherwise, all
  std::iota(lengths.begin(), lengths.end(), std::size_t{1});
  lengths.insert(lengths.end(), {255, 256, 257, 1000});
  for (const std::size_t n : lengths) {
    for (unsigned width = 0; width <= 32; ++width) {
      std::vector<std::uint32_t> rows(n);
      std::vector<std::uint32_t> frequencies(n);
      std::uint64_t next = 0;
      std::size_t kept = 0;
      for (; kept < n; ++kept) {
        const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
        next += random() & mask;
        if (next >= 0xffffffffU) break;
        rows[kept] = static_cast<std::uint32_t>(next++);
        frequencies[kept] = 1 + static_cast<std::uint32_t>(random() & mask & 0x7fffffffU);
      }
      if (kept == 0) continue;
      rows.resize(kept);
      frequencies.resize(kept);
      frequencies.back() = width == 32 ? 0x80000000U : frequencies.back();
      const bool is_short = kept < kPackedBlock;
      for (const std::uint32_t n_rows : {rows.back() + 1, 0xfffffffeU}) {
        if (rows.back() >= n_rows) continue;
        std::vector<std::uint8_t> packed;
        pack_postings(rows, frequencies, n_rows, packed);
        const std::size_t size = packed.size();
        packed.resize(size + kPackedSlack, 0xff);
        std::vector<std::uint32_t> got_rows(kept);
        std::vector<std::uint32_t> got_frequencies(kept);
        const auto unpack = [&](std::size_t bytes, std::uint32_t below) {
          return unpack_postings(std::span(packed).first(bytes), below, false, got_rows,
                                 got_frequencies);
        };
        REQUIRE(unpack(size, n_rows));
        CHECK(got_rows == rows);
        CHECK(got_frequencies == frequencies);
        // The codes of a short list depend on the number of rows.
        if (!is_short) CHECK_FALSE(unpack(size, rows.back()));
        CHECK_FALSE(unpack(size - 1, n_rows));
        CHECK_FALSE(unpack(size + 1, n_rows));
      }
    }
  }
}

TEST_CASE("packed postings: a short list takes about what its rows and frequencies tell") {
  std::vector<std::uint8_t> packed;
  const std::uint32_t row = 70'000;
  const std::uint32_t once = 1;
  pack_postings({&row, 1}, {&once, 1}, 100'000, packed);
  CHECK(packed.size() == 3);
}

TEST_CASE("packed postings: of any bytes no list is read that is none") {
  Random random(2);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::uint8_t> bytes(random() % 12);
    for (std::uint8_t& byte : bytes)
      byte = static_cast<std::uint8_t>(random() % 3 == 0 ? random() : 0);
    const std::size_t size = bytes.size();
    bytes.resize(size + kPackedSlack, random() % 2 == 0 ? 0xff : 0);
    std::vector<std::uint32_t> rows(1 + random() % 6);
    std::vector<std::uint32_t> frequencies(rows.size());
    const std::uint32_t n_rows = 1 + random() % 1000;
    if (!unpack_postings(std::span(bytes).first(size), n_rows, random() % 2 == 0, rows,
                         frequencies)) {
      continue;
    }
    CHECK(rows.back() < n_rows);
    CHECK(std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end());
    CHECK(*std::min_element(frequencies.begin(), frequencies.end()) >= 1);
  }
}

TEST_CASE("packed numbers: what goes in comes out; of what is cut or longer nothing does") {
  Random random(3);
  CHECK(pack_numbers({}).empty());
  for (const std::size_t n : {1, 2, 127, 128, 129, 1000}) {
    for (unsigned width = 0; width <= 32; ++width) {
      std::vector<std::uint32_t> numbers(n);
      for (std::uint32_t& number : numbers) {
        number = static_cast<std::uint32_t>(random() & ((std::uint64_t{1} << width) - 1));
      }
      std::vector<std::uint8_t> packed = pack_numbers(numbers);
      std::vector<std::uint32_t> got;
      const auto unpack = [&](std::span<const std::uint8_t> bytes) {
        got.clear();
        return unpack_numbers(bytes,
                              [&](std::size_t, std::uint32_t number) { got.push_back(number); });
      };
      REQUIRE(packed_size(packed) == n);
      REQUIRE(unpack(packed));
      CHECK(got == numbers);
      for (std::size_t size = 1; size < packed.size(); ++size) {
        CHECK_FALSE(unpack(std::span(packed).first(size)));
      }
      packed.push_back(0);
      CHECK_FALSE(unpack(packed));
      packed.pop_back();
      packed[4] = 33;  // no width
      CHECK_FALSE(unpack(packed));
    }
  }
  // So many numbers need more bytes than there are.
  CHECK(packed_size(std::vector<std::uint8_t>(16, 0xff)) == 0);
}

TEST_CASE("PER-4: a stored segment is the made one, bit for bit, copied and mapped") {
  for (const std::uint32_t n : {1, 63, 64, 700, 20000}) {
    const Saved saved(n, n);
    int few = 0;
    int many = 0;
    std::size_t escapes = 0;
    for (std::uint32_t place = 0; place < saved.segment()->counts().size(); ++place) {
      const Segment::Term term = saved.segment()->term(place);
      ++(term.windows == Segment::kNone ? few : many);
      escapes += term.n_escapes;
    }
    if (n >= 700) CHECK((few > 0 && many > 0 && escapes > 0));
    for (const bool mapped : {false, true}) {
      const auto segment = IndexFile(saved.file.path(), mapped).segment();
      if (segment == nullptr) continue;
      CHECK(different(*saved.segment(), *segment) == 0);
      CHECK(segment->bound_average() == saved.segment()->bound_average());
      CHECK(segment->best_average() == saved.segment()->best_average());
      segment->make_row_terms();
      const auto made = IndexFile(saved.file.path(), false).segment();
      made->make_row_terms();
      for (std::uint32_t row = 0; row < segment->n_rows(); ++row) {
        REQUIRE(terms_of(*segment, row) == terms_of(*made, row));
      }
    }
  }
}

TEST_CASE("IDX-5: readers that unpack the same lists at once all get the one that stays") {
  const Saved saved(5, 3000);
  for (int round = 0; round < 20; ++round) {
    const auto segment = IndexFile(saved.file.path(), true).segment();
    constexpr std::size_t kReaders = 4;
    std::vector<const std::byte*> seen[kReaders];
    int wrong[kReaders] = {};
    {
      std::vector<std::jthread> readers;
      for (std::size_t i = 0; i < kReaders; ++i) {
        readers.emplace_back([&, i] {
          for (std::uint32_t place = 0; place < segment->counts().size(); ++place) {
            seen[i].push_back(segment->term(place).arrays);
          }
          wrong[i] = different(*saved.segment(), *segment);
        });
      }
    }
    for (std::size_t i = 0; i < kReaders; ++i) {
      CHECK(wrong[i] == 0);
      CHECK(seen[i] == seen[0]);
    }
  }
}

TEST_CASE("PER-10: processes that map one file read the same") {
  const Saved saved(6, 2000);
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto segment = IndexFile(saved.file.path(), true).segment();
      ::_exit(different(*saved.segment(), *segment) == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

TEST_CASE("PER-4: a list that is none is Corruption when it is asked for, and the others work") {
  const Saved saved(8, 1000);
  const std::string good = saved.file.read();
  const std::size_t entry = kTable + (read<std::uint32_t>(good, 64) - 1) * kEntry;
  std::string bad = good;
  bad[read<std::uint64_t>(good, entry + 8)] = 33;  // no width of a gap
  sign(bad);
  saved.file.write(bad);
  CHECK_THROWS_AS(static_cast<void>(IndexFile(saved.file.path(), false).segment()), Corruption);
  const auto segment = IndexFile(saved.file.path(), true).segment();
  for (int again = 0; again < 2; ++again) {
    CHECK_THROWS_AS(static_cast<void>(segment->term(0)), Corruption);
  }
  CHECK(equal(segment->term(1), saved.segment()->term(1)));
  CHECK_THROWS_AS(segment->make_row_terms(), Corruption);
}

TEST_CASE("PER-4: crafted files with good checksums are read, or refused, and nothing else") {
  for (const IndexKind kind : {IndexKind::kTokens, IndexKind::kTexts}) {
    const Saved saved(9, 150, kind);
    const std::string good = saved.file.read();
    CHECK(try_file(std::as_bytes(std::span(good))));
    Random random(10);
    int refused = 0;
    constexpr int kTries = 2000;
    for (int i = 0; i < kTries; ++i) {
      std::string bad = good;
      damage(bad, random);
      sign(bad);
      refused += try_file(std::as_bytes(std::span(bad))) ? 0 : 1;
    }
    CHECK(refused > kTries / 10);
    CHECK(refused < kTries);
  }
}

namespace {

bool equal(const std::vector<Hit>& a, const std::vector<Hit>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Hit& x, const Hit& y) {
    return x.slot == y.slot && x.score == y.score;
  });
}

// An index that has taken its documents from a file.
struct Loaded {
  EpochDomain epochs;
  Bm25Index index;
  Bm25State state;

  Loaded(const Saved& saved, bool mapped, const MergePolicy& policy)
      : index(1.2, 0.75, epochs, policy) {
    index.adopt(IndexFile(saved.file.path(), mapped).segment());
    publish();
  }
  void publish() {
    state = index.state();
    index.published();
  }
  std::vector<Hit> search(const std::vector<QueryTerm>& query, std::size_t k) const {
    return spector::search(state, epochs.pin(), query, k);
  }
};

}  // namespace

TEST_CASE("IDX-1, IDX-2: what is deleted from a loaded index counts, counted by term or not") {
  for (unsigned seed = 0; seed < 8; ++seed) {
    const Saved saved(20 + seed, 900);
    Random random(seed);
    // One looks dead rows up in the lists for a while; the other one counts them at once.
    Loaded late(saved, seed % 2 == 0, {.small = 0, .uncounted = 1 + 20 * (seed % 3)});
    Loaded early(saved, false, {});
    const std::vector<std::uint32_t> slots(saved.segment()->slots().begin(),
                                           saved.segment()->slots().end());
    const EpochDomain::Pin pin = late.epochs.pin();
    std::vector<std::pair<Bm25State, std::vector<Hit>>> history;
    const std::vector<QueryTerm> fixed{{0, 1.0}, {1, 1.0}, {7, 1.0}};
    std::shared_ptr<Bm25Index::Merge> job;
    bool made = false;
    int counted = 0;
    for (int step = 0; step < 400; ++step) {
      const std::uint32_t slot = slots[random() % slots.size()];
      if (random() % 3 == 0) {
        const std::vector<TermCount> terms{{random() % 5, 1 + random() % 3},
                                           {5 + random() % 40, 1}};
        late.index.put(slot, terms, 4);
        early.index.put(slot, terms, 4);
      } else {
        CHECK(late.index.erase(slot) == early.index.erase(slot));
      }
      late.publish();
      early.publish();
      if (job == nullptr) {
        if (random() % 4 == 0) job = late.index.begin_merge();
        made = false;
      } else if (!made) {
        job->run();
        made = true;
      } else {
        if (random() % 8 == 0) {
          late.index.abandon(*job);
        } else if (late.index.finish(*job)) {
          late.publish();
          ++counted;
        }
        job.reset();
      }
      std::vector<QueryTerm> query;
      for (unsigned i = 0; i < 1 + random() % 4; ++i) query.push_back({random() % 60, 1.0});
      const std::size_t k = 1 + random() % 40;
      REQUIRE(equal(late.search(query, k), early.search(query, k)));
      for (const QueryTerm& term : query) {
        CHECK(document_frequency(late.state, pin, term.term) ==
              document_frequency(early.state, early.epochs.pin(), term.term));
      }
      if (step % 20 == 0) history.emplace_back(late.state, late.search(fixed, 50));
    }
    CHECK(counted > 0);
    const Bm25Stats a = late.index.stats();
    const Bm25Stats b = early.index.stats();
    CHECK(a.documents == b.documents);
    CHECK(a.terms == b.terms);
    CHECK(a.postings == b.postings);
    CHECK(a.total_length == b.total_length);
    for (const auto& [state, hits] : history) {
      REQUIRE(equal(spector::search(state, pin, fixed, 50), hits));
    }
    CHECK(late.index.compact_numbers() == early.index.compact_numbers());
    late.index.compact();
    late.publish();
    CHECK(equal(late.search(fixed, 1000), early.search(fixed, 1000)));
  }
}

TEST_CASE("IDX-2: the first deletions from a loaded index do not read its lists") {
  const Saved saved(31, 1000);
  Loaded loaded(saved, true, {.small = 0, .uncounted = 10});
  const std::uint64_t bytes = IndexFile(saved.file.path(), true).segment()->memory_bytes();
  const auto segment = loaded.state.segments.front();
  for (int i = 0; i < 9; ++i) CHECK(loaded.index.erase(saved.segment()->slots()[i * 50]));
  CHECK_FALSE(loaded.index.merge_is_due());
  CHECK_FALSE(segment->has_row_terms());
  CHECK(segment->memory_bytes() < bytes + 500);
  CHECK(loaded.index.erase(saved.segment()->slots()[999]));
  CHECK(loaded.index.merge_is_due());
}

TEST_CASE("IDX-5: deletions from a loaded index are seen whole beside a writer, counted or not") {
  constexpr std::size_t kReaders = 3;
  const Saved saved(32, 600);
  const std::vector<std::uint32_t> query{0, 100, 700};  // token ids
  for (unsigned round = 0; round < 6; ++round) {
    const IndexFile file(saved.file.path(), round % 2 == 0);
    TokenIndex index(1.2, 0.75, {.small = 0, .uncounted = 1 + round * 10});
    index.load(file);
    const std::span<const std::uint32_t> slots = saved.segment()->slots();
    const std::size_t changes = slots.size() / 2;
    std::vector<std::vector<Hit>> history(changes + 1);
    history[0] = index.search(query, 1000);
    std::atomic<std::size_t> complete{0};
    struct Seen {
      std::size_t before;
      std::size_t after;
      std::vector<Hit> hits;
    };
    std::array<std::vector<Seen>, kReaders> seen;
    {
      std::vector<std::jthread> readers;
      for (std::size_t reader = 0; reader < kReaders; ++reader) {
        readers.emplace_back([&, reader] {
          while (complete < changes) {
            const std::size_t before = complete;
            auto hits = index.search(query, 1000);
            seen[reader].push_back({before, complete, std::move(hits)});
          }
        });
      }
      for (std::size_t change = 1; change <= changes; ++change) {
        index.erase(std::array{slots[2 * change - 1]});
        history[change] = index.search(query, 1000);
        complete = change;
      }
    }
    int wrong = 0;
    for (const auto& all : seen) {
      for (const Seen& one : all) {
        const std::size_t last = std::min(one.after + 1, changes);
        bool found = false;
        for (std::size_t i = one.before; i <= last && !found; ++i) {
          found = equal(one.hits, history[i]);
        }
        wrong += found ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
    CHECK(index.size() == slots.size() - changes);
    CHECK(index.stats().documents == slots.size() - changes);
  }
}

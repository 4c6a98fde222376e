#include "try_file.hpp"

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "lexical/index_file.hpp"
#include "lexical/row_table.hpp"
#include "lexical/text_index.hpp"
#include "lexical/token_index.hpp"
#include "temporary_file.hpp"

using namespace spector;

namespace {

constexpr std::size_t kMost = 40;  // of each thing that is tried

// Words are their own stems.
template <class Ask>
auto answered(const Ask& ask) {
  Stems stems;
  while (true) {
    auto result = ask(stems);
    const auto* need = std::get_if<NeedStems>(&result);
    if (need == nullptr) return std::get<0>(std::move(result));
    for (const std::string& word : need->words) stems[word] = word;
  }
}

void use_texts(const IndexFile& file) {
  TextIndex index(file.settings().k1, file.settings().b, true, true);
  index.load(file);
  const FrozenStrings words = file.words();
  std::string all;
  const auto ask = [&](const std::string& text) {
    TokenStream query;
    analyze(AnalyzerKind::Code, text, query);
    for (const std::size_t k : {3, 100000}) {
      const auto hits =
          answered([&](const Stems& stems) { return index.search(query, stems, k, nullptr); });
      for (std::size_t i = 0; i < std::min(hits.size(), kMost); ++i) {
        answered([&](const Stems& stems) { return index.explain(query, stems, hits[i].slot); });
      }
    }
  };
  for (std::uint32_t i = 0; i < std::min<std::size_t>(words.size(), kMost); ++i) {
    ask(std::string(words[i]));
    all.append(words[i]).push_back(' ');
  }
  ask(all);
  AnalysedBatch batch;
  TokenStream text;
  analyze(AnalyzerKind::Code, all + " fresh", text);
  batch.begin_document();
  batch.add(text);
  const std::vector<std::uint32_t> fresh{file.next_row()};
  answered([&](const Stems& stems) { return index.put(fresh, {&batch, 1}, stems); });
  const auto slots = file.slots().values;
  index.erase(slots.first(std::min(slots.size(), kMost)));
  ask(all);
  index.compact();
  ask(all);
}

void use_tokens(const IndexFile& file) {
  TokenIndex index(file.settings().k1, file.settings().b);
  index.load(file);
  std::vector<std::uint32_t> all;
  for (const std::uint32_t token : file.token_ids().keys) {
    if (all.size() < kMost) all.push_back(token);
  }
  const auto ask = [&] {
    for (const std::size_t k : {3, 100000}) {
      for (const std::uint32_t token : all) {
        const std::vector<std::uint32_t> query{token};
        static_cast<void>(index.search(query, k));
      }
      static_cast<void>(index.search(all, k));
    }
  };
  ask();
  const std::vector<std::uint32_t> fresh{file.next_row()};
  const std::vector<std::int64_t> ends{0, static_cast<std::int64_t>(all.size())};
  index.put(fresh, {ends, all});
  const auto slots = file.slots().values;
  index.erase(slots.first(std::min(slots.size(), kMost)));
  ask();
  index.compact();
  ask();
}

bool try_loaded(const std::string& path, bool mapped) {
  try {
    const IndexFile file(path, mapped);
    RowTable rows;
    rows.load(file);
    for (std::uint32_t row = 0; row < kMost; ++row) {
      const std::vector<std::int64_t> one{row};
      const auto id = rows.ids(one).front();
      if (id) rows.remove(*id);
    }
    if (file.kind() == IndexKind::kTexts) {
      use_texts(file);
    } else {
      use_tokens(file);
    }
    return true;
  } catch (const Error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

bool try_file(std::span<const std::byte> bytes) {
  const TemporaryFile file;
  file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const bool copied = try_loaded(file.path(), false);
  return try_loaded(file.path(), true) && copied;
}

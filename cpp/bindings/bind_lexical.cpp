#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/parallel.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "bindings/strings.hpp"
#include "lexical/analyzer.hpp"
#include "lexical/index_file.hpp"
#include "lexical/row_table.hpp"
#include "lexical/text_index.hpp"
#include "lexical/token_index.hpp"
#include "lexical/unicode.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

using Slots = py::array_t<std::uint32_t, py::array::c_style>;
using Rows = py::array_t<std::int64_t, py::array::c_style>;
using Scores = py::array_t<float, py::array::c_style>;

template <class T>
std::span<const T> span_of(const py::array_t<T, py::array::c_style>& array) {
  if (array.ndim() != 1) {
    throw std::invalid_argument("expected a 1-dimensional array, not one of " +
                                std::to_string(array.ndim()) + " dimensions");
  }
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// One-dimensional and not initialised. As py::array_t makes it, but without lists of its shape and
// strides on the heap: a search of a small index takes hardly longer than those.
template <class Array>
Array new_array(std::size_t n) {
  const auto& numpy = py::detail::npy_api::get();
  const auto size = static_cast<Py_intptr_t>(n);
  PyObject* made = numpy.PyArray_NewFromDescr_(
      numpy.PyArray_Type_, py::dtype::of<typename Array::value_type>().release().ptr(), 1, &size,
      nullptr, nullptr, 0, nullptr);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<Array>(made);
}

std::pair<Rows, Scores> to_arrays(const std::vector<Hit>& hits) {
  auto rows = new_array<Rows>(hits.size());
  auto scores = new_array<Scores>(hits.size());
  std::int64_t* row = rows.mutable_data();
  float* score = scores.mutable_data();
  for (const Hit& hit : hits) {
    *row++ = hit.slot;
    *score++ = hit.score;
  }
  return {std::move(rows), std::move(scores)};
}

// The slots that a filter allows; nothing for no filter.
std::optional<SlotSet> slot_set(const std::optional<std::span<const std::uint32_t>>& slots) {
  return slots ? std::optional<SlotSet>(*slots) : std::nullopt;
}
std::optional<std::span<const std::uint32_t>> span_of(const std::optional<Slots>& slots) {
  return slots ? std::optional(span_of(*slots)) : std::nullopt;
}

// rows[n, m], scores[n, m] for lists of up to m hits; places without a hit have row -1 and score 0.
std::pair<Rows, Scores> to_matrices(const std::vector<std::vector<Hit>>& lists) {
  const auto n = static_cast<py::ssize_t>(lists.size());
  py::ssize_t width = 0;
  for (const auto& hits : lists) width = std::max(width, static_cast<py::ssize_t>(hits.size()));
  Rows rows({n, width});
  Scores scores({n, width});
  std::fill_n(rows.mutable_data(), rows.size(), -1);
  std::fill_n(scores.mutable_data(), scores.size(), 0.0F);
  for (py::ssize_t i = 0; i < n; ++i) {
    const std::vector<Hit>& hits = lists[static_cast<std::size_t>(i)];
    for (std::size_t place = 0; place < hits.size(); ++place) {
      rows.mutable_data()[i * width + static_cast<py::ssize_t>(place)] = hits[place].slot;
      scores.mutable_data()[i * width + static_cast<py::ssize_t>(place)] = hits[place].score;
    }
  }
  return {std::move(rows), std::move(scores)};
}

AnalyzerKind analyzer_kind(const std::string& name) {
  if (name == "code") return AnalyzerKind::Code;
  if (name == "standard") return AnalyzerKind::Standard;
  if (name == "whitespace") return AnalyzerKind::Whitespace;
  throw std::invalid_argument("analyzer '" + name +
                              "' is not known: code, standard, whitespace or a callable");
}

// Text to tokens and words to stems: the parts of an index that may call Python. Immutable.
class Pipeline {
 public:
  // `analyzer`: a name, or a callable from str to a sequence of str. `stem`: a callable from a list
  // of words to the list of their stems, or None.
  Pipeline(const py::object& analyzer, py::object stem) : stem_(std::move(stem)) {
    if (py::isinstance<py::str>(analyzer)) {
      kind_ = analyzer_kind(analyzer.cast<std::string>());
    } else {
      tokenize_ = analyzer;
    }
  }

  [[nodiscard]] bool stemming() const { return !stem_.is_none(); }

  // The core's own analyzer does the work; else a Python callable does.
  [[nodiscard]] bool native() const { return !tokenize_; }

  // Needs the GIL only where a callable is used.
  void run(const Utf8& text, TokenStream& out) const {
    if (native()) {
      analyze(kind_, text.view(), out);
      return;
    }
    out.clear();
    const py::object tokens = tokenize_(text.object());
    for (const py::handle token : tokens) {
      const Utf8 utf8(token, "a token of the analyzer");
      if (utf8.view().empty()) continue;
      if (utf8.view().size() > 0xffffffffU) throw std::invalid_argument("a token is over 4 GiB");
      out.compounds.push_back({.first_token = out.tokens.size(), .n_tokens = 1});
      out.tokens.push_back(
          {.begin = out.chars.size(), .size = static_cast<std::uint32_t>(utf8.view().size())});
      out.chars.append(utf8.view());
    }
  }

  // Calls `ask(stems)` without the GIL until it no longer needs stems.
  template <class Ask>
  auto with_stems(const Ask& ask) const {
    Stems stems;
    while (true) {
      auto answer = [&] {
        const GilRelease release;
        return ask(static_cast<const Stems&>(stems));
      }();
      if (auto* need = std::get_if<NeedStems>(&answer)) {
        add_stems(need->words, stems);
      } else {
        return std::get<0>(std::move(answer));
      }
    }
  }

 private:
  void add_stems(const std::vector<std::string>& words, Stems& stems) const {
    const auto found = stem_(py::cast(words)).cast<std::vector<std::string>>();
    if (found.size() != words.size()) {
      throw std::invalid_argument("the stemmer gave " + std::to_string(found.size()) +
                                  " stems for " + std::to_string(words.size()) + " words");
    }
    for (std::size_t i = 0; i < words.size(); ++i) stems.emplace(words[i], found[i]);
  }

  AnalyzerKind kind_ = AnalyzerKind::Code;
  py::object tokenize_;
  py::object stem_;
};

// Documents ready to be put, and the first one that was refused (with why), if any.
struct Prepared {
  Prepared() = default;
  Prepared(Prepared&&) = default;
  Prepared& operator=(Prepared&&) = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() = default;

  std::vector<AnalysedBatch> batches;  // in the order of the documents
  std::size_t n_documents = 0;
  py::object error = py::none();       // what the callable analyzer raised
  std::optional<std::string> refusal;  // a value of the wrong type
};

class PyTextIndex {
 public:
  PyTextIndex(double k1, double b, const py::object& analyzer, py::object stem, bool stop_words)
      : pipeline_(analyzer, std::move(stem)), index_(k1, b, pipeline_.stemming(), stop_words) {}

  // Analyses documents up to the first that is refused. The GIL is given up once for all of them,
  // not for each: getting it back can take milliseconds when other threads are busy.
  [[nodiscard]] Prepared prepare(const py::sequence& texts, const py::object& contexts) const {
    const std::size_t n = py::len(texts);
    if (!contexts.is_none() && py::len(contexts) != n) {
      throw std::invalid_argument("contexts has " + std::to_string(py::len(contexts)) +
                                  " entries for " + std::to_string(n) + " texts");
    }
    Prepared prepared;
    std::vector<Document> documents;
    documents.reserve(n);
    if (!pipeline_.native()) prepared.batches.resize(1);
    try {
      for (std::size_t i = 0; i < n; ++i) {
        std::optional<Utf8> context;
        if (!contexts.is_none()) {
          const py::object given = contexts[py::int_(i)];
          if (!given.is_none()) context.emplace(given, "context");
        }
        documents.emplace_back(std::move(context), Utf8(texts[i], "text"));
        if (!pipeline_.native()) {
          analyse_documents({&documents.back(), 1}, prepared.batches.front());
        }
      }
    } catch (py::error_already_set& error) {
      // Ctrl-C and the like are not about a document.
      if (!error.matches(PyExc_Exception)) throw;
      prepared.error = error.value();
    } catch (const py::type_error& error) {
      prepared.refusal = error.what();
    }
    if (pipeline_.native()) {
      const GilRelease release;
      // Cut by the texts alone, so that equal calls give equal numbers to terms on any machine.
      std::vector<std::size_t> begins;
      std::size_t bytes = kBatchBytes;
      for (std::size_t i = 0; i < documents.size(); ++i) {
        if (bytes >= kBatchBytes) {
          begins.push_back(i);
          bytes = 0;
        }
        bytes += documents[i].second.view().size();
      }
      begins.push_back(documents.size());
      prepared.batches.resize(begins.size() - 1);
      parallel_for(prepared.batches.size(), std::max(1U, std::thread::hardware_concurrency()),
                   [&](std::size_t i) {
                     analyse_documents(
                         std::span(documents).subspan(begins[i], begins[i + 1] - begins[i]),
                         prepared.batches[i]);
                   });
    }
    for (const AnalysedBatch& batch : prepared.batches) prepared.n_documents += batch.size();
    return prepared;
  }

  std::size_t put(const Slots& slots, const Prepared& prepared) {
    const auto numbers = span_of(slots);
    if (numbers.size() != prepared.n_documents) {
      throw std::invalid_argument(std::to_string(numbers.size()) + " slots for " +
                                  std::to_string(prepared.n_documents) + " texts");
    }
    return pipeline_.with_stems(
        [&](const Stems& stems) { return index_.put(numbers, prepared.batches, stems); });
  }

  std::size_t erase(const Slots& slots) {
    const auto numbers = span_of(slots);
    const GilRelease release;
    return index_.erase(numbers);
  }

  [[nodiscard]] std::pair<Rows, Scores> search(const py::object& query, std::size_t k,
                                               const std::optional<Slots>& allow) const {
    const TokenStream stream = analyse(query);
    const auto allowed = span_of(allow);
    return to_arrays(pipeline_.with_stems([&](const Stems& stems) {
      const std::optional<SlotSet> set = slot_set(allowed);
      return index_.search(stream, stems, k, set ? &*set : nullptr);
    }));
  }

  [[nodiscard]] py::list search_many(const py::sequence& queries, std::size_t k,
                                     std::size_t threads, const std::optional<Slots>& allow) const {
    std::vector<TokenStream> streams(py::len(queries));
    for (std::size_t i = 0; i < streams.size(); ++i) streams[i] = analyse(queries[i]);
    const auto allowed = span_of(allow);
    const auto lists = pipeline_.with_stems([&](const Stems& stems) {
      const std::optional<SlotSet> set = slot_set(allowed);
      return index_.search_many(streams, stems, k, threads, set ? &*set : nullptr);
    });
    py::list arrays;
    for (const std::vector<Hit>& hits : lists) arrays.append(py::cast(to_arrays(hits)));
    return arrays;
  }

  [[nodiscard]] py::list explain(const py::object& query, std::uint32_t slot) const {
    const TokenStream stream = analyse(query);
    py::list terms;
    for (const auto& [term, score] : pipeline_.with_stems(
             [&](const Stems& stems) { return index_.explain(stream, stems, slot); })) {
      terms.append(py::make_tuple(term, score.f, score.n, score.idf, score.length, score.weight,
                                  score.contribution));
    }
    return terms;
  }

  void compact() {
    const GilRelease release;
    index_.compact();
  }
  void settle() {
    const GilRelease release;
    index_.settle();
  }
  void save(const std::string& path, const IndexSettings& settings, const RowTable& rows) {
    const GilRelease release;
    index_.save(path, settings, rows);
  }
  void load(const IndexFile& file) {
    const GilRelease release;
    index_.load(file);
  }
  [[nodiscard]] bool contains(std::uint32_t slot) const { return index_.contains(slot); }
  [[nodiscard]] std::size_t size() const { return index_.size(); }
  [[nodiscard]] TextIndexStats stats() {
    const GilRelease release;
    return index_.stats();
  }

 private:
  [[nodiscard]] TokenStream analyse(const py::object& query) const {
    TokenStream stream;
    pipeline_.run(Utf8(query, "query"), stream);
    return stream;
  }

  using Document = std::pair<std::optional<Utf8>, Utf8>;  // context, text
  static constexpr std::size_t kBatchBytes = std::size_t{1} << 20;

  // On an exception (of a callable) the document is not in the batch.
  void analyse_documents(std::span<const Document> documents, AnalysedBatch& batch) const {
    TokenStream context;
    TokenStream text;
    for (const Document& document : documents) {
      if (document.first) pipeline_.run(*document.first, context);
      pipeline_.run(document.second, text);
      batch.begin_document();
      if (document.first) batch.add(context);
      batch.add(text);
    }
  }

  Pipeline pipeline_;
  TextIndex index_;
};

// k1 and b are the index's own.
IndexSettings index_settings(std::string analyzer, std::string language, std::string fingerprint) {
  return {0, 0, std::move(analyzer), std::move(language), std::move(fingerprint)};
}

// Paths are bytes, as the operating system takes them.
void register_index_file(py::module_& module) {
  bound<IndexSettings>(module, "IndexSettings")
      .def(py::init(&index_settings), py::arg("analyzer"), py::arg("language"),
           py::arg("fingerprint"))
      .def_readonly("k1", &IndexSettings::k1)
      .def_readonly("b", &IndexSettings::b)
      .def_readonly("analyzer", &IndexSettings::analyzer)
      .def_readonly("language", &IndexSettings::language)
      .def_readonly("fingerprint", &IndexSettings::fingerprint);
  bound<IndexFile>(module, "IndexFile")
      .def(py::init([](const py::bytes& path, bool mapped) {
             const std::string name = path;
             const GilRelease release;
             return std::make_unique<IndexFile>(name, mapped);
           }),
           py::arg("path"), py::arg("mapped"))
      .def_property_readonly("holds_texts",
                             [](const IndexFile& file) { return file.kind() == IndexKind::kTexts; })
      .def_property_readonly("settings", &IndexFile::settings)
      .def("__len__", &IndexFile::n_documents);
}

py::dict to_dict(const Bm25Stats& stats) {
  py::dict dict;
  dict["documents"] = stats.documents;
  dict["terms"] = stats.terms;
  dict["postings"] = stats.postings;
  dict["dead_postings"] = stats.dead_postings;
  dict["segments"] = stats.segments;
  dict["total_length"] = stats.total_length;
  dict["bytes"] = stats.bytes;
  return dict;
}

// Checks CSR arrays before the GIL is given up (style: arguments at the public function).
TokenLists token_lists(const Rows& indptr, const Slots& token_ids) {
  const auto ends = span_of(indptr);
  const auto ids = span_of(token_ids);
  if (ends.empty() || ends.front() != 0) {
    throw std::invalid_argument("indptr must begin with 0");
  }
  for (std::size_t i = 1; i < ends.size(); ++i) {
    if (ends[i] < ends[i - 1]) {
      throw std::invalid_argument("indptr must not descend, but indptr[" + std::to_string(i) +
                                  "] is " + std::to_string(ends[i]) + " after " +
                                  std::to_string(ends[i - 1]));
    }
  }
  if (static_cast<std::size_t>(ends.back()) != ids.size()) {
    throw std::invalid_argument("indptr ends with " + std::to_string(ends.back()) +
                                " but there are " + std::to_string(ids.size()) + " token ids");
  }
  return {ends, ids};
}

// A search whose arguments need no preparation: a one-dimensional, contiguous array of uint32 and
// an int that is a k. None for all others, which the caller has to check and convert first. In a
// small index that alone takes as long as the search.
py::object search_plain(const TokenIndex& index, const py::object& token_ids, const py::object& k) {
  if (PyLong_CheckExact(k.ptr()) == 0 || !py::isinstance<Slots>(token_ids)) return py::none();
  const auto query = py::reinterpret_borrow<Slots>(token_ids);
  const auto limit = PyLong_AsSsize_t(k.ptr());
  constexpr py::ssize_t kMost = 0xffffffffL;
  if (limit < 1 || limit > kMost || query.ndim() != 1) {
    PyErr_Clear();  // of a k beyond all numbers
    return py::none();
  }
  const std::span<const std::uint32_t> tokens = span_of(query);
  std::vector<Hit> hits;
  {
    const GilRelease release;
    hits = index.search(tokens, static_cast<std::size_t>(limit));
  }
  auto [rows, scores] = to_arrays(hits);
  return py::make_tuple(std::move(rows), std::move(scores));
}

// One tuple per compound: (text range in code points, identifier, tokens as (text, part, word,
// stop)).
py::list analyze_text(const std::string& kind, const py::object& text) {
  const Utf8 utf8(text, "text");
  TokenStream stream;
  std::vector<std::size_t> code_points;  // before each byte; empty when bytes are code points
  const AnalyzerKind analyzer = analyzer_kind(kind);
  {
    const GilRelease release;
    analyze(analyzer, utf8.view(), stream);
    std::size_t n = 0;
    for (const char c : utf8.view()) {
      code_points.push_back(n);
      n += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    }
    code_points.push_back(n);
  }
  // code_points[i] counts the characters that begin before byte i.
  py::list compounds;
  for (const Compound& compound : stream.compounds) {
    py::list tokens;
    for (std::uint32_t i = 0; i < compound.n_tokens; ++i) {
      const Token& token = stream.tokens[compound.first_token + i];
      tokens.append(
          py::make_tuple(py::str(stream.text(token)), token.part, token.word, token.stop));
    }
    compounds.append(py::make_tuple(code_points[compound.source_begin],
                                    code_points[compound.source_end], compound.identifier,
                                    std::move(tokens)));
  }
  return compounds;
}

}  // namespace

void register_lexical(py::module_& module) {
  module.attr("ANALYZER_VERSION") = kAnalyzerVersion;
  module.attr("UNICODE_VERSION") = kUnicodeVersion;
  module.def("analyze", &analyze_text, py::arg("kind"), py::arg("text"));

  register_index_file(module);

  bound<Prepared>(module, "PreparedTexts")
      .def("__len__", [](const Prepared& prepared) { return prepared.n_documents; })
      .def_readonly("error", &Prepared::error)
      .def_readonly("refusal", &Prepared::refusal);

  bound<PyTextIndex>(module, "TextIndex")
      .def(py::init<double, double, const py::object&, py::object, bool>(), py::arg("k1"),
           py::arg("b"), py::arg("analyzer"), py::arg("stem"), py::arg("stop_words"))
      .def("prepare", &PyTextIndex::prepare, py::arg("texts"), py::arg("contexts"))
      .def("put", &PyTextIndex::put, py::arg("slots").noconvert(), py::arg("prepared"))
      .def("erase", &PyTextIndex::erase, py::arg("slots").noconvert())
      .def("search", &PyTextIndex::search, py::arg("query"), py::arg("k"),
           py::arg("allow").noconvert() = py::none())
      .def("search_many", &PyTextIndex::search_many, py::arg("queries"), py::arg("k"),
           py::arg("threads"), py::arg("allow").noconvert() = py::none())
      .def("explain", &PyTextIndex::explain, py::arg("query"), py::arg("slot"))
      .def("compact", &PyTextIndex::compact)
      .def("settle", &PyTextIndex::settle)
      .def("save", &PyTextIndex::save, py::arg("path"), py::arg("settings"), py::arg("rows"))
      .def("load", &PyTextIndex::load, py::arg("file"))
      .def("contains", &PyTextIndex::contains, py::arg("slot"))
      .def("size", &PyTextIndex::size)
      .def("stats", [](PyTextIndex& index) {
        const TextIndexStats stats = index.stats();
        py::dict dict = to_dict(stats.bm25);
        dict["bytes"] = stats.bm25.bytes + stats.vocabulary_bytes;
        return dict;
      });

  bound<TokenIndex>(module, "TokenIndex")
      .def(py::init<double, double>(), py::arg("k1"), py::arg("b"))
      .def(
          "put",
          [](TokenIndex& index, const Slots& slots, const Rows& indptr, const Slots& token_ids) {
            const auto numbers = span_of(slots);
            const TokenLists documents = token_lists(indptr, token_ids);
            if (numbers.size() != documents.size()) {
              throw std::invalid_argument(std::to_string(numbers.size()) + " ids for " +
                                          std::to_string(documents.size()) +
                                          " documents in indptr");
            }
            const GilRelease release;
            index.put(numbers, documents);
          },
          py::arg("slots").noconvert(), py::arg("indptr").noconvert(),
          py::arg("token_ids").noconvert())
      .def(
          "erase",
          [](TokenIndex& index, const Slots& slots) {
            const auto numbers = span_of(slots);
            const GilRelease release;
            return index.erase(numbers);
          },
          py::arg("slots").noconvert())
      .def(
          "search",
          [](const TokenIndex& index, const Slots& token_ids, std::size_t k,
             const std::optional<Slots>& allow) {
            const auto query = span_of(token_ids);
            const auto allowed = span_of(allow);
            std::vector<Hit> hits;
            {
              const GilRelease release;
              const std::optional<SlotSet> set = slot_set(allowed);
              hits = index.search(query, k, set ? &*set : nullptr);
            }
            return to_arrays(hits);
          },
          py::arg("token_ids").noconvert(), py::arg("k"), py::arg("allow").noconvert() = py::none())
      .def("search_plain", &search_plain, py::arg("token_ids"), py::arg("k"))
      .def(
          "search_many",
          [](const TokenIndex& index, const Rows& indptr, const Slots& token_ids, std::size_t k,
             std::size_t threads, const std::optional<Slots>& allow) {
            const TokenLists queries = token_lists(indptr, token_ids);
            const auto allowed = span_of(allow);
            std::vector<std::vector<Hit>> lists;
            {
              const GilRelease release;
              const std::optional<SlotSet> set = slot_set(allowed);
              lists = index.search_many(queries, k, threads, set ? &*set : nullptr);
            }
            return to_matrices(lists);
          },
          py::arg("indptr").noconvert(), py::arg("token_ids").noconvert(), py::arg("k"),
          py::arg("threads"), py::arg("allow").noconvert() = py::none())
      .def("compact", &TokenIndex::compact, py::call_guard<GilRelease>())
      .def("settle", &TokenIndex::settle, py::call_guard<GilRelease>())
      .def("save", &TokenIndex::save, py::arg("path"), py::arg("settings"), py::arg("rows"),
           py::call_guard<GilRelease>())
      .def("load", &TokenIndex::load, py::arg("file"), py::call_guard<GilRelease>())
      .def("contains", &TokenIndex::contains, py::arg("slot"))
      .def("size", &TokenIndex::size)
      .def("stats", [](TokenIndex& index) {
        const Bm25Stats stats = [&] {
          const GilRelease release;
          return index.stats();
        }();
        return to_dict(stats);
      });

  bound<RowTable>(module, "RowTable")
      .def(py::init<>())
      .def(
          "assign",
          [](RowTable& table, const py::sequence& ids) {
            std::vector<Utf8> owners;
            std::vector<std::string_view> views;
            // Item by item: a sequence such as a numpy array makes each one anew.
            for (std::size_t i = 0; i < py::len(ids); ++i) {
              owners.emplace_back(py::object(ids[i]), "id", Utf8::kStrict);
              views.push_back(owners.back().view());
            }
            const std::vector<std::uint32_t> rows = table.assign(views);
            return Slots(static_cast<py::ssize_t>(rows.size()), rows.data());
          },
          py::arg("ids"))
      .def(
          "assign_numbers",
          [](RowTable& table, std::uint32_t n) {
            const GilRelease release;
            std::vector<std::string> ids;
            ids.reserve(n);
            for (std::uint32_t i = 0; i < n; ++i) ids.push_back(std::to_string(i));
            table.assign(std::vector<std::string_view>(ids.begin(), ids.end()));
          },
          py::arg("n"))
      .def(
          "find_known",
          [](const RowTable& table, const py::iterable& ids) {
            std::vector<Utf8> owners;
            std::vector<std::string_view> views;
            for (const py::handle id : ids) {
              owners.emplace_back(id, "an id of allow");
              views.push_back(owners.back().view());
            }
            const std::vector<std::uint32_t> rows = table.find_known(views);
            return Slots(static_cast<py::ssize_t>(rows.size()), rows.data());
          },
          py::arg("ids"))
      .def(
          "remove",
          [](RowTable& table, const py::object& id) {
            return table.remove(Utf8(id, "id", Utf8::kStrict).view());
          },
          py::arg("id"))
      .def(
          "find",
          [](const RowTable& table, const py::object& id) {
            return table.find(Utf8(id, "id", Utf8::kStrict).view());
          },
          py::arg("id"))
      .def(
          "ids", [](const RowTable& table, const Rows& rows) { return table.ids(span_of(rows)); },
          py::arg("rows").noconvert())
      .def("load", &RowTable::load, py::arg("file"), py::call_guard<GilRelease>())
      .def("__len__", &RowTable::size)
      .def("memory_bytes", &RowTable::memory_bytes);
}

}  // namespace spector::bindings

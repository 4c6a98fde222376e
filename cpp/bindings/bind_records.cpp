#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "records/decay.hpp"
#include "records/record_store.hpp"
#include "records/scorer.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

using Bytes = Array<std::uint8_t>;
using Slots = Array<std::uint32_t>;
using Floats = Array<float>;
using Times = Array<std::int64_t>;
using Hashes = Array<std::uint64_t>;

// Headers come and go as arrays of 64 bytes each.
std::span<const RecordHeader> headers_of(const Bytes& bytes) {
  const std::span<const std::uint8_t> span = span_of(bytes);
  if (span.size() % sizeof(RecordHeader) != 0 ||
      reinterpret_cast<std::uintptr_t>(span.data()) % alignof(RecordHeader) != 0) {
    throw std::invalid_argument("headers must be 64 bytes each, aligned to 8");
  }
  return {reinterpret_cast<const RecordHeader*>(span.data()), span.size() / sizeof(RecordHeader)};
}

// Options with the arrays that their lists are in.
class PyOptions {
 public:
  PyOptions(ScoringOptions options, std::optional<Slots> allow, std::vector<Slots> tags,
            std::optional<Slots> hyperfocus)
      : options_(std::move(options)),
        allow_(std::move(allow)),
        tags_(std::move(tags)),
        hyperfocus_(std::move(hyperfocus)) {
    if (allow_) options_.allow = span_of(*allow_);
    if (hyperfocus_) options_.hyperfocus = span_of(*hyperfocus_);
    for (const Slots& tag : tags_) options_.tags.push_back(span_of(tag));
  }
  [[nodiscard]] const ScoringOptions& get() const noexcept { return options_; }
  // The same at another time and for other slots.
  [[nodiscard]] std::unique_ptr<PyOptions> at(std::int64_t now, std::optional<Slots> allow) const {
    ScoringOptions options = options_;
    options.now = now;
    options.allow.reset();
    options.tags.clear();
    return std::make_unique<PyOptions>(std::move(options), std::move(allow), tags_, hyperfocus_);
  }

 private:
  ScoringOptions options_;
  std::optional<Slots> allow_;
  std::vector<Slots> tags_;
  std::optional<Slots> hyperfocus_;
};

std::unique_ptr<PyOptions> make_options(
    std::int64_t now, bool include_contradictions, std::int64_t min_timestamp,
    std::int64_t max_timestamp, std::optional<Slots> allow, std::vector<Slots> tags, bool any_tag,
    std::optional<Slots> hyperfocus, float boost, std::int8_t min_valence, std::int8_t max_valence,
    float min_importance, std::uint8_t types, bool staleness, float strictness, float alpha,
    float beta, bool additive, double decay_exponent, double decay_floor,
    std::optional<std::int8_t> query_valence, std::optional<float> lateral_distance) {
  ScoringOptions options;
  options.now = now;
  options.include_contradictions = include_contradictions;
  options.min_timestamp = min_timestamp;
  options.max_timestamp = max_timestamp;
  options.any_tag = any_tag;
  options.boost = boost;
  options.min_valence = min_valence;
  options.max_valence = max_valence;
  options.min_importance = min_importance;
  options.types = types;
  options.staleness = staleness;
  options.strictness = strictness;
  options.alpha = alpha;
  options.beta = beta;
  options.additive = additive;
  options.decay = {decay_exponent, decay_floor};
  options.query_valence = query_valence;
  options.lateral_distance = lateral_distance;
  return std::make_unique<PyOptions>(std::move(options), std::move(allow), std::move(tags),
                                     std::move(hyperfocus));
}

template <class T, class Member>
Array<T> column(const Answer& answer, Member Scored::* member) {
  Array<T> values = new_array<T>(answer.hits.size() + answer.lateral.size());
  T* out = values.mutable_data();
  for (const std::vector<Scored>* hits : {&answer.hits, &answer.lateral}) {
    for (const Scored& hit : *hits) *out++ = hit.*member;
  }
  return values;
}

py::tuple to_tuple(const Answer& answer) {
  const PhaseCounts& counts = answer.counts;
  return py::make_tuple(
      column<std::uint32_t>(answer, &Scored::slot), column<float>(answer, &Scored::score),
      column<float>(answer, &Scored::similarity), column<float>(answer, &Scored::distance),
      column<float>(answer, &Scored::decay), answer.lateral.size(),
      py::make_tuple(counts.candidates, counts.in_time, counts.in_valence, counts.important,
                     counts.vectors, counts.exact));
}

TagLists tag_lists(const Hashes& tags, const Times& ends, const Slots& slots) {
  return {span_of(tags), span_of(ends), span_of(slots)};
}

class PyRecordStore {
 public:
  explicit PyRecordStore(const VectorSettings& settings) : store_(settings), settings_(settings) {}
  explicit PyRecordStore(const RecordFile& file) : store_(file), settings_(file.settings()) {}

  void put(const Slots& slots, const Bytes& headers, const std::optional<Floats>& vectors) {
    const auto slot_span = span_of(slots);
    const auto header_span = headers_of(headers);
    const auto vector_span = vectors ? span_of(*vectors) : std::span<const float>{};
    const GilRelease release;
    store_.write([&](RecordStore& store) { store.put(slot_span, header_span, vector_span); });
  }
  void update(const Slots& slots, const Bytes& headers, Fields fields, std::uint8_t flags) {
    const auto slot_span = span_of(slots);
    const auto header_span = headers_of(headers);
    const GilRelease release;
    store_.write([&](RecordStore& store) { store.update(slot_span, header_span, fields, flags); });
  }
  std::size_t remove(const Slots& slots) {
    const auto span = span_of(slots);
    const GilRelease release;
    return store_.write([&](RecordStore& store) { return store.remove(span); });
  }
  void compact() {
    const GilRelease release;
    store_.write([](RecordStore& store) { store.compact(); });
  }

  [[nodiscard]] bool contains(std::uint32_t slot) const {
    return store_.read([&](const RecordStore::View& view) { return view.contains(slot); });
  }
  [[nodiscard]] std::size_t size() const {
    return store_.read([](const RecordStore::View& view) { return view.n_records; });
  }
  [[nodiscard]] Slots slots() const {
    std::vector<std::uint32_t> found;
    {
      const GilRelease release;
      store_.read([&](const RecordStore::View& view) {
        for (std::size_t slot = 0; slot < view.slots(); ++slot) {
          const auto number = static_cast<std::uint32_t>(slot);
          if (view.contains(number)) found.push_back(number);
        }
      });
    }
    return to_array(found);
  }
  [[nodiscard]] Bytes headers(const Slots& slots) const {
    const auto span = span_of(slots);
    Bytes bytes(static_cast<py::ssize_t>(span.size() * sizeof(RecordHeader)));
    std::uint8_t* const out = bytes.mutable_data();
    {
      const GilRelease release;
      store_.read([&](const RecordStore::View& view) {
        for (std::size_t i = 0; i < span.size(); ++i) {
          view.check(span[i]);
          const RecordHeader header = view.header(span[i]);
          std::memcpy(out + i * sizeof header, &header, sizeof header);
        }
      });
    }
    return bytes;
  }
  [[nodiscard]] std::optional<Floats> vector(std::uint32_t slot) const {
    std::vector<float> values(settings_.row_size());
    const bool there = store_.read([&](const RecordStore::View& view) {
      view.check(slot);
      if (!view.has_vector(slot)) return false;
      view.vector(slot, values);
      return true;
    });
    if (!there) return {};
    return to_array(std::span<const float>(values).first(settings_.dimensions));
  }

  template <class Rank>
  [[nodiscard]] Answer answer(const Floats& query, std::size_t k, const PyOptions& options,
                              const Rank& rank) const {
    const auto span = span_of(query);
    const GilRelease release;
    return store_.read(
        [&](const RecordStore::View& view) { return rank(view, span, options.get(), k); });
  }
  // Slots and scores of `search` if `weighed`, else of `similar`; or cosines as scores.
  [[nodiscard]] std::pair<Array<std::int64_t>, Floats> ranked(const Floats& query, std::size_t k,
                                                              const PyOptions& options,
                                                              bool weighed, bool cosines) const {
    const Answer found = answer(query, k, options, weighed ? &search : &similar);
    std::pair<Array<std::int64_t>, Floats> arrays{new_array<std::int64_t>(found.hits.size()),
                                                  new_array<float>(found.hits.size())};
    std::int64_t* slot = arrays.first.mutable_data();
    float* score = arrays.second.mutable_data();
    for (const Scored& hit : found.hits) {
      *slot++ = hit.slot;
      *score++ = cosines ? 1 - hit.distance * hit.distance / 2 : hit.score;
    }
    return arrays;
  }
  [[nodiscard]] std::pair<Array<std::int64_t>, Floats> weigh(const Array<std::int64_t>& slots,
                                                             const Floats& scores,
                                                             const PyOptions& options,
                                                             std::optional<float> share) const {
    const auto slot_span = span_of(slots);
    const auto score_span = span_of(scores);
    const Weighed found = store_.read([&](const RecordStore::View& view) {
      return spector::weigh(view, slot_span, score_span, options.get(), share);
    });
    return {to_array(found.slots), to_array(found.scores)};
  }
  [[nodiscard]] std::pair<Floats, Floats> factors(const Slots& slots,
                                                  const PyOptions& options) const {
    const auto span = span_of(slots);
    std::vector<Factor> found;
    {
      const GilRelease release;
      found = store_.read([&](const RecordStore::View& view) {
        return spector::factors(view, span, options.get());
      });
    }
    std::pair<Floats, Floats> arrays{new_array<float>(found.size()),
                                     new_array<float>(found.size())};
    for (std::size_t i = 0; i < found.size(); ++i) {
      arrays.first.mutable_data()[i] = found[i].factor;
      arrays.second.mutable_data()[i] = found[i].decay;
    }
    return arrays;
  }
  [[nodiscard]] Array<bool> passes(const Slots& slots, const PyOptions& options) const {
    const auto span = span_of(slots);
    std::vector<std::uint8_t> passed;
    {
      const GilRelease release;
      passed = store_.read([&](const RecordStore::View& view) {
        return spector::passes(view, span, options.get());
      });
    }
    Array<bool> array(static_cast<py::ssize_t>(passed.size()));
    std::copy(passed.begin(), passed.end(), array.mutable_data());
    return array;
  }
  [[nodiscard]] std::optional<std::pair<std::uint32_t, float>> nearest(const Floats& vector,
                                                                       std::uint8_t types) const {
    const auto span = span_of(vector);
    const GilRelease release;
    const auto found = store_.read(
        [&](const RecordStore::View& view) { return spector::nearest(view, span, types); });
    if (!found) return {};
    return std::pair(found->slot, found->distance);
  }
  [[nodiscard]] std::size_t touch() const {
    const GilRelease release;
    return store_.read([](const RecordStore::View& view) { return view.touch(); });
  }
  [[nodiscard]] py::dict memory_usage() const {
    const RecordStore::View view =
        store_.read([](const RecordStore::View& published) { return published; });
    py::dict dict;
    dict["bytes"] = view.memory_bytes();
    dict["vector_bytes"] = view.n_vectors * view.row_bytes;
    dict["dead_vector_bytes"] = (view.n_rows - view.n_vectors) * view.row_bytes;
    return dict;
  }
  void save(const std::string& path, const Hashes& tags, const Times& ends,
            const Slots& slots) const {
    const TagLists lists = tag_lists(tags, ends, slots);
    const GilRelease release;
    store_.read([&](const RecordStore::View& view) { save_records(view, path, lists); });
  }
  [[nodiscard]] const VectorSettings& settings() const noexcept { return settings_; }

 private:
  Shared<RecordStore> store_;
  VectorSettings settings_;
};

}  // namespace

void register_records(py::module_& module) {
  module.def(
      "decay_bucket", [](std::int64_t age_ms) { return decay_bucket(age_ms); }, py::arg("age_ms"));
  module.def(
      "decay_multipliers",
      [](double exponent, double floor) {
        const auto multipliers = DecayTable{exponent, floor}.multipliers();
        return to_array(std::span<const float>(multipliers));
      },
      py::arg("exponent"), py::arg("floor"));
  module.def(
      "reconsolidated",
      [](unsigned bucket, std::uint32_t explicit_recalls, std::uint32_t passive_recalls) {
        return reconsolidated(bucket, explicit_recalls, passive_recalls);
      },
      py::arg("bucket"), py::arg("explicit_recalls"), py::arg("passive_recalls"));
  module.def(
      "arousal_factor", [](std::uint8_t arousal) { return arousal_factor(arousal); },
      py::arg("arousal"));
  module.def(
      "strength_increment", [](float multiplier) { return strength_increment(multiplier); },
      py::arg("multiplier"));
  module.def(
      "tag_filter", [](std::uint64_t tag_hash) { return tag_filter(tag_hash); },
      py::arg("tag_hash"));

  bound<PyOptions>(module, "ScoringOptions")
      .def(py::init(&make_options), py::kw_only(), py::arg("now"),
           py::arg("include_contradictions"), py::arg("min_timestamp"), py::arg("max_timestamp"),
           py::arg("allow").noconvert(), py::arg("tags").noconvert(), py::arg("any_tag"),
           py::arg("hyperfocus").noconvert(), py::arg("boost"), py::arg("min_valence"),
           py::arg("max_valence"), py::arg("min_importance"), py::arg("types"),
           py::arg("staleness"), py::arg("strictness"), py::arg("alpha"), py::arg("beta"),
           py::arg("additive"), py::arg("decay_exponent"), py::arg("decay_floor"),
           py::arg("query_valence"), py::arg("lateral_distance"))
      .def("at", &PyOptions::at, py::arg("now"), py::arg("allow").noconvert());

  bound<RecordFile>(module, "RecordFile")
      .def(py::init<const std::string&>(), py::arg("path"), py::call_guard<GilRelease>())
      .def(
          "check_tags",
          [](const RecordFile& file, const Hashes& tags, const Times& ends, const Slots& slots) {
            const TagLists lists = tag_lists(tags, ends, slots);
            const GilRelease release;
            file.check_tags(lists);
          },
          py::arg("tags").noconvert(), py::arg("ends").noconvert(), py::arg("slots").noconvert());

  bound<PyRecordStore>(module, "RecordStore")
      .def(py::init([](std::uint32_t dimensions, int similarity, int storage) {
             return std::make_unique<PyRecordStore>(
                 VectorSettings{dimensions, static_cast<Similarity>(similarity),
                                static_cast<VectorStorage>(storage)});
           }),
           py::arg("dimensions"), py::arg("similarity"), py::arg("storage"))
      .def_static(
          "load", [](const RecordFile& file) { return std::make_unique<PyRecordStore>(file); },
          py::arg("file"), py::call_guard<GilRelease>())
      .def("put", &PyRecordStore::put, py::arg("slots").noconvert(), py::arg("headers").noconvert(),
           py::arg("vectors").noconvert())
      .def("update", &PyRecordStore::update, py::arg("slots").noconvert(),
           py::arg("headers").noconvert(), py::arg("fields"), py::arg("flags"))
      .def("remove", &PyRecordStore::remove, py::arg("slots").noconvert())
      .def("compact", &PyRecordStore::compact)
      .def("contains", &PyRecordStore::contains, py::arg("slot"))
      .def("size", &PyRecordStore::size)
      .def("slots", &PyRecordStore::slots)
      .def("headers", &PyRecordStore::headers, py::arg("slots").noconvert())
      .def("vector", &PyRecordStore::vector, py::arg("slot"))
      .def(
          "similar",
          [](const PyRecordStore& store, const Floats& query, std::size_t k,
             const PyOptions& options) {
            return to_tuple(store.answer(query, k, options, &similar));
          },
          py::arg("query").noconvert(), py::arg("k"), py::arg("options"))
      .def(
          "search",
          [](const PyRecordStore& store, const Floats& query, std::size_t k,
             const PyOptions& options) {
            return to_tuple(store.answer(query, k, options, &search));
          },
          py::arg("query").noconvert(), py::arg("k"), py::arg("options"))
      .def("ranked", &PyRecordStore::ranked, py::arg("query").noconvert(), py::arg("k"),
           py::arg("options"), py::arg("weighed"), py::arg("cosines"))
      .def("weigh", &PyRecordStore::weigh, py::arg("slots").noconvert(),
           py::arg("scores").noconvert(), py::arg("options"), py::arg("share"))
      .def("factors", &PyRecordStore::factors, py::arg("slots").noconvert(), py::arg("options"))
      .def("passes", &PyRecordStore::passes, py::arg("slots").noconvert(), py::arg("options"))
      .def("nearest", &PyRecordStore::nearest, py::arg("vector").noconvert(), py::arg("types"))
      .def("touch", &PyRecordStore::touch)
      .def("memory_usage", &PyRecordStore::memory_usage)
      .def("save", &PyRecordStore::save, py::arg("path"), py::arg("tags").noconvert(),
           py::arg("ends").noconvert(), py::arg("slots").noconvert())
      .def("settings", [](const PyRecordStore& store) {
        const VectorSettings& settings = store.settings();
        return py::make_tuple(settings.dimensions, static_cast<int>(settings.similarity),
                              static_cast<int>(settings.storage));
      });
}

}  // namespace spector::bindings

// Learned sparse vectors and token vectors: lists beside BM25 and the dense one.
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/shared.hpp"
#include "bindings/arrays.hpp"
#include "bindings/bound.hpp"
#include "bindings/gil.hpp"
#include "bindings/register.hpp"
#include "bindings/strings.hpp"
#include "lexical/sparse_index.hpp"
#include "records/fusion.hpp"
#include "records/token_vectors.hpp"

namespace py = pybind11;

namespace spector::bindings {
namespace {

std::pair<Array<std::int64_t>, Array<float>> to_arrays(const std::vector<ScoredSlot>& hits) {
  Array<std::int64_t> slots = new_array<std::int64_t>(hits.size());
  Array<float> scores = new_array<float>(hits.size());
  std::int64_t* slot = slots.mutable_data();
  float* score = scores.mutable_data();
  for (const ScoredSlot& hit : hits) {
    *slot++ = hit.slot;
    *score++ = hit.score;
  }
  return {std::move(slots), std::move(scores)};
}

// Python maps from term to weight, and the views of their terms.
class Maps {
 public:
  void add(const py::dict& map, const char* what) {
    for (const auto& [term, weight] : map) {
      strings_.emplace_back(term, what);
      weights_.push_back(py::cast<float>(weight));
    }
    ends_.push_back(strings_.size());
  }
  // Of all that were added; call it when they are.
  [[nodiscard]] SparseVectors vectors() {
    terms_.clear();
    for (const Utf8& string : strings_) terms_.push_back(string.view());
    return {ends_, terms_, weights_};
  }

 private:
  std::vector<Utf8> strings_;
  std::vector<std::string_view> terms_;
  std::vector<float> weights_;
  std::vector<std::uint64_t> ends_{0};
};

void check_query(const SparseVectors& query) {
  for (const float weight : query.weights) {
    if (!std::isfinite(weight) || weight <= 0) {
      throw std::invalid_argument("a weight must be finite and above 0, not " +
                                  std::to_string(weight));
    }
  }
}

// Ascending and each once.
std::optional<std::vector<std::uint32_t>> ascending(
    const std::optional<Array<std::uint32_t>>& slots) {
  if (!slots) return std::nullopt;
  const std::span<const std::uint32_t> given = span_of(*slots);
  std::vector<std::uint32_t> sorted(given.begin(), given.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

void register_sparse(py::module_& module) {
  using Index = Shared<SparseIndex>;
  bound<Index>(module, "SparseIndex")
      .def(py::init<>())
      .def(
          "put",
          [](Index& self, const Array<std::uint32_t>& slots, const py::list& documents) {
            const std::span<const std::uint32_t> span = span_of(slots);
            if (documents.size() != span.size()) {
              throw std::invalid_argument("there must be one map for each slot");
            }
            Maps maps;
            for (const py::handle document : documents) {
              maps.add(py::reinterpret_borrow<py::dict>(document), "a term");
            }
            const SparseVectors vectors = maps.vectors();
            const GilRelease release;
            self.write([&](SparseIndex& index) { index.put(span, vectors); });
          },
          py::arg("slots").noconvert(), py::arg("documents"))
      .def(
          "erase",
          [](Index& self, const Array<std::uint32_t>& slots) {
            const std::span<const std::uint32_t> span = span_of(slots);
            const GilRelease release;
            return self.write([&](SparseIndex& index) { return index.erase(span); });
          },
          py::arg("slots").noconvert())
      .def(
          "search",
          [](const Index& self, const py::dict& query, std::size_t k,
             const std::optional<Array<std::uint32_t>>& allow) {
            Maps maps;
            maps.add(query, "a term");
            const SparseVectors vectors = maps.vectors();
            check_query(vectors);
            const auto slots = ascending(allow);
            std::vector<ScoredSlot> hits;
            {
              const GilRelease release;
              hits = self.read([&](const SparseIndex::View& view) {
                std::optional<std::span<const std::uint32_t>> span;
                if (slots) span = *slots;
                return view.search(vectors.terms, vectors.weights, k, span);
              });
            }
            return to_arrays(hits);
          },
          py::arg("query"), py::arg("k"), py::arg("allow") = py::none())
      .def(
          "score",
          [](const Index& self, const py::dict& query, std::uint32_t slot) {
            Maps maps;
            maps.add(query, "a term");
            const SparseVectors vectors = maps.vectors();
            check_query(vectors);
            return self.read([&](const SparseIndex::View& view) {
              return view.score(vectors.terms, vectors.weights, slot);
            });
          },
          py::arg("query"), py::arg("slot"))
      .def("compact",
           [](Index& self) {
             const GilRelease release;
             self.write([](SparseIndex& index) { index.compact(); });
           })
      .def("contains",
           [](const Index& self, std::uint32_t slot) {
             return self.read([&](const SparseIndex::View& view) { return view.contains(slot); });
           })
      .def("memory_usage",
           [](const Index& self) {
             return self.read([](const SparseIndex::View& view) { return view.bytes(); });
           })
      .def("__len__", [](const Index& self) {
        return self.read([](const SparseIndex::View& view) { return view.size(); });
      });
}

// Parts of layers, one element of each list for each.
std::vector<Layer> layers_of(const std::vector<Array<std::uint32_t>>& slots,
                             const std::vector<Array<double>>& activations,
                             const std::vector<std::uint32_t>& numbers,
                             const std::vector<double>& scales) {
  const std::size_t n = slots.size();
  if (activations.size() != n || numbers.size() != n || scales.size() != n) {
    throw std::invalid_argument("all arguments must have one element for each part");
  }
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < n; ++i) {
    layers.push_back({span_of(slots[i]), span_of(activations[i]), numbers[i], scales[i]});
    if (layers.back().slots.size() != layers.back().activations.size()) {
      throw std::invalid_argument("slots and activations of a part must be equally many");
    }
  }
  return layers;
}

void register_tokens(py::module_& module) {
  using Tokens = Shared<TokenVectors>;
  bound<Tokens>(module, "TokenVectors")
      .def(py::init<std::size_t>(), py::arg("dimensions"))
      .def(
          "put",
          [](Tokens& self, const Array<std::uint32_t>& slots, const Array<std::uint64_t>& ends,
             const Array<std::int8_t>& codes, const Array<float>& scales) {
            const auto given = span_of(slots);
            const auto rows = span_of(ends);
            const auto values = span_of(codes);
            const auto steps = span_of(scales);
            const std::size_t dimensions =
                self.read([](const TokenVectors::View& view) { return view.dimensions(); });
            if (rows.size() != given.size() + 1 || rows.front() != 0 ||
                !std::is_sorted(rows.begin(), rows.end()) || rows.back() != steps.size() ||
                values.size() != steps.size() * dimensions) {
              throw std::invalid_argument("ends, codes and scales do not fit each other");
            }
            const GilRelease release;
            self.write([&](TokenVectors& store) { store.put(given, rows, values, steps); });
          },
          py::arg("slots").noconvert(), py::arg("ends").noconvert(), py::arg("codes").noconvert(),
          py::arg("scales").noconvert())
      .def(
          "erase",
          [](Tokens& self, const Array<std::uint32_t>& slots) {
            const auto given = span_of(slots);
            const GilRelease release;
            return self.write([&](TokenVectors& store) { return store.erase(given); });
          },
          py::arg("slots").noconvert())
      .def(
          "search",
          [](const Tokens& self, const Array<float>& query, std::size_t k,
             const std::optional<Array<std::uint32_t>>& among) {
            const auto values = span_of(query);
            const auto slots = ascending(among);
            std::vector<ScoredSlot> hits;
            {
              const GilRelease release;
              hits = self.read([&](const TokenVectors::View& view) {
                std::optional<std::span<const std::uint32_t>> span;
                if (slots) span = *slots;
                return view.search(values, k, span);
              });
            }
            return to_arrays(hits);
          },
          py::arg("query").noconvert(), py::arg("k"), py::arg("among") = py::none())
      .def_property_readonly(
          "dimensions",
          [](const Tokens& self) {
            return self.read([](const TokenVectors::View& view) { return view.dimensions(); });
          })
      .def("contains",
           [](const Tokens& self, std::uint32_t slot) {
             return self.read([&](const TokenVectors::View& view) { return view.contains(slot); });
           })
      .def("memory_usage",
           [](const Tokens& self) {
             return self.read([](const TokenVectors::View& view) { return view.bytes(); });
           })
      .def("__len__", [](const Tokens& self) {
        return self.read([](const TokenVectors::View& view) { return view.size(); });
      });
}

}  // namespace

void register_signals(py::module_& module) {
  module.def(
      "fuse",
      [](const std::vector<Array<std::int64_t>>& slots, const std::vector<Array<float>>& scores,
         const std::vector<double>& weights, unsigned rrf_k) {
        if (slots.size() != scores.size() || slots.size() != weights.size()) {
          throw std::invalid_argument("slots, scores and weights must be one for each list");
        }
        std::vector<RankedList> lists;
        for (std::size_t i = 0; i < slots.size(); ++i) {
          lists.push_back({span_of(slots[i]), span_of(scores[i]), weights[i]});
        }
        const Fused fused = fuse(lists, rrf_k);
        return std::pair(to_array(fused.slots), to_array(fused.scores));
      },
      py::arg("slots").noconvert(), py::arg("scores").noconvert(), py::arg("weights"),
      py::arg("rrf_k"));

  module.def(
      "add_layers",
      [](const std::vector<Array<std::uint32_t>>& slots,
         const std::vector<Array<double>>& activations, const std::vector<std::uint32_t>& numbers,
         const std::vector<double>& scales) {
        const Gains found = add_layers(layers_of(slots, activations, numbers, scales));
        return std::pair(to_array(found.slots), to_array(found.gains));
      },
      py::arg("slots").noconvert(), py::arg("activations").noconvert(), py::arg("numbers"),
      py::arg("scales"));
  module.def(
      "add_to",
      [](const Array<std::int64_t>& found, const Array<float>& scores,
         const std::vector<Array<std::uint32_t>>& slots,
         const std::vector<Array<double>>& activations, const std::vector<std::uint32_t>& numbers,
         const std::vector<double>& scales) {
        if (found.size() != scores.size()) {
          throw std::invalid_argument("found and scores must be equally many");
        }
        const Gains gains = add_layers(layers_of(slots, activations, numbers, scales));
        const Fused sums = accumulate(span_of(found), span_of(scores), gains.slots, gains.gains);
        return std::pair(to_array(sums.slots), to_array(sums.scores));
      },
      py::arg("found").noconvert(), py::arg("scores").noconvert(), py::arg("slots").noconvert(),
      py::arg("activations").noconvert(), py::arg("numbers"), py::arg("scales"));
  module.def(
      "seeds_of",
      [](const Array<std::int64_t>& slots, const Array<float>& scores, std::size_t most) {
        if (slots.size() != scores.size()) {
          throw std::invalid_argument("slots and scores must be equally many");
        }
        const Seeds found = seeds_of(span_of(slots), span_of(scores), most);
        return std::pair(to_array(found.slots), to_array(found.strengths));
      },
      py::arg("slots").noconvert(), py::arg("scores").noconvert(), py::arg("most"));
  module.def(
      "bound_by_seeds",
      [](const Array<std::uint32_t>& led_seeds, const Array<std::uint32_t>& led_slots,
         const Array<double>& activations, const Array<std::uint32_t>& seeds,
         const Array<double>& strengths, const Array<std::int64_t>& slots,
         const Array<float>& scores, double below, double weight, double least) {
        const Led led{span_of(led_seeds), span_of(led_slots), span_of(activations)};
        const auto seed_span = span_of(seeds);
        const std::size_t n = led.slots.size();
        if (led.seeds.size() != n || led.activations.size() != n ||
            seeds.size() != strengths.size() || slots.size() != scores.size()) {
          throw std::invalid_argument("arrays that belong together must be of one length");
        }
        for (const std::uint32_t seed : led.seeds) {
          if (seed >= seed_span.size()) throw std::invalid_argument("there is no such seed");
        }
        const Bounded found = bound_by_seeds(led, seed_span, span_of(strengths), span_of(slots),
                                             span_of(scores), {below, weight, least});
        return std::pair(to_array(found.places), to_array(found.activations));
      },
      py::arg("led_seeds").noconvert(), py::arg("led_slots").noconvert(),
      py::arg("activations").noconvert(), py::arg("seeds").noconvert(),
      py::arg("strengths").noconvert(), py::arg("slots").noconvert(), py::arg("scores").noconvert(),
      py::arg("below"), py::arg("weight"), py::arg("least"));
  module.def(
      "accumulate",
      [](const Array<std::int64_t>& slots, const Array<float>& scores,
         const Array<std::int64_t>& extra, const Array<double>& gains) {
        if (slots.size() != scores.size() || extra.size() != gains.size()) {
          throw std::invalid_argument("slots and scores, extra and gains must be equally many");
        }
        const Fused found =
            accumulate(span_of(slots), span_of(scores), span_of(extra), span_of(gains));
        return std::pair(to_array(found.slots), to_array(found.scores));
      },
      py::arg("slots").noconvert(), py::arg("scores").noconvert(), py::arg("extra").noconvert(),
      py::arg("gains").noconvert());

  register_sparse(module);
  register_tokens(module);
}

}  // namespace spector::bindings

// Speed of the analyzer by kind of text, in bytes a second.
#include <benchmark/benchmark.h>

#include <string>

#include "lexical/analyzer.hpp"

namespace {

void analyze(benchmark::State& state, const std::string& sample) {
  std::string text;
  while (text.size() < 1 << 16) text += sample;
  spector::TokenStream stream;
  for (auto _ : state) {
    spector::analyze(spector::AnalyzerKind::Code, text, stream);
    benchmark::DoNotOptimize(stream.tokens.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

BENCHMARK_CAPTURE(analyze, prose, "The quick brown fox jumps over the lazy dog again and again. ");
BENCHMARK_CAPTURE(analyze, code, "self.getUserName(db_conf['src/app/db-conf.yaml'], ERR_CONN_42) ");
BENCHMARK_CAPTURE(analyze, accents, "Déjà vu à l'hôtel: où êtes-vous née, chère Zoë? ");
BENCHMARK_CAPTURE(analyze, japanese, "東京タワーの入場券を予約した。");

}  // namespace

// Text to tokens: the one analyzer that indexing and querying share (TOK-1 to TOK-12).
//
// A text is a sequence of *compounds* (`src/app/db-conf.yaml`, `getUserName`, `word`, one CJK
// bigram); each is one position (TOK-9). A compound carries its whole form first and then its
// parts, each text once, no token longer than 256 bytes. A letters-only identifier (`YouTube`) has
// two whole forms of the same characters, the exact one and the word. Stemming is not done here:
// tokens marked `word` are stemmed by the vocabulary, once per new word. `analyze` is a pure
// function: calls may run together on separate TokenStreams.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spector {

enum class AnalyzerKind : std::uint8_t { Code, Standard, Whitespace };

struct Token {
  std::uint64_t begin = 0;  // byte range in TokenStream::chars: the folded form
  std::uint32_t size = 0;
  bool part = false;  // false: the compound's whole form
  bool word = false;  // letters only: replaced by its stem where a language is set (AM-1)
  bool stop = false;  // an English function word: ignored in a query beside other tokens (TOK-8)
};

struct Compound {
  std::uint64_t first_token = 0;
  std::uint32_t n_tokens = 0;
  bool identifier = false;         // TOK-12
  bool whole_only = false;         // a query uses the whole form and nothing else (TOK-4)
  std::uint64_t source_begin = 0;  // byte range in the text as it was given
  std::uint64_t source_end = 0;
};

// Reused between texts so that analysing allocates nothing once the buffers have grown.
struct TokenStream {
  std::string chars;  // what the tokens point into; their ranges overlap, some bytes are of none
  std::vector<Token> tokens;
  std::vector<Compound> compounds;

  void clear();
  [[nodiscard]] std::string_view text(const Token& token) const {
    return std::string_view(chars).substr(token.begin, token.size);
  }
};

// Replaces the content of `out` by the tokens of `utf8`. Time is linear in the text; ill-formed
// UTF-8 is read as U+FFFD (TOK-11); no text is refused.
void analyze(AnalyzerKind kind, std::string_view utf8, TokenStream& out);

// Part of the index fingerprint; raised whenever any token changes.
inline constexpr int kAnalyzerVersion = 2;

}  // namespace spector

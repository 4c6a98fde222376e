#include "lexical/analyzer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lexical/unicode.hpp"

using namespace spector;

namespace {

using Strings = std::vector<std::string>;

TokenStream analyzed(std::string_view text, AnalyzerKind kind = AnalyzerKind::Code) {
  TokenStream stream;
  analyze(kind, text, stream);
  return stream;
}

// The text of each token; what is no whole form has no mark, `!` marks a whole form, `~` a word,
// `?` a stop word.
Strings marked(const TokenStream& stream, const Compound& compound) {
  Strings texts;
  for (std::uint64_t i = compound.first_token; i < compound.first_token + compound.n_tokens; ++i) {
    const Token& token = stream.tokens[i];
    texts.push_back(std::string(stream.text(token)) + (token.part ? "" : "!") +
                    (token.word ? "~" : "") + (token.stop ? "?" : ""));
  }
  return texts;
}

// The tokens of a text that is one compound.
Strings one(std::string_view text) {
  const TokenStream stream = analyzed(text);
  REQUIRE(stream.compounds.size() == 1);
  return marked(stream, stream.compounds[0]);
}

// The whole form of each compound.
Strings wholes(std::string_view text, AnalyzerKind kind = AnalyzerKind::Code) {
  const TokenStream stream = analyzed(text, kind);
  Strings texts;
  for (const Compound& compound : stream.compounds) {
    texts.emplace_back(stream.text(stream.tokens[compound.first_token]));
  }
  return texts;
}

// Every token of a text once, sorted.
Strings all(std::string_view text) {
  const TokenStream stream = analyzed(text);
  Strings texts;
  for (const Token& token : stream.tokens) texts.emplace_back(stream.text(token));
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

// The parts of the text that the compounds cover.
Strings sources(std::string_view text, AnalyzerKind kind = AnalyzerKind::Code) {
  Strings texts;
  for (const Compound& c : analyzed(text, kind).compounds) {
    texts.emplace_back(text.substr(c.source_begin, c.source_end - c.source_begin));
  }
  return texts;
}

bool is_identifier(std::string_view text) {
  const TokenStream stream = analyzed(text);
  REQUIRE(stream.compounds.size() == 1);
  return stream.compounds[0].identifier;
}

bool contains(const Strings& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

std::string repeated(std::string_view unit, std::size_t n) {
  std::string text;
  text.reserve(unit.size() * n);
  for (std::size_t i = 0; i < n; ++i) text += unit;
  return text;
}

}  // namespace

TEST_CASE("TOK-1: compounds and their joiners") {
  CHECK(one("__init__") == Strings{"__init__!", "init~"});
  CHECK(one("@alice") == Strings{"alice!~"});
  CHECK(one("c++") == Strings{"c++!", "c~"});
  CHECK(one("C#") == Strings{"c#!", "c~"});
  CHECK(one("#42") == Strings{"42!"});
  CHECK(wholes("c++11 f#; x+ 7# 7++") == Strings{"c++", "11", "f#", "x", "7", "7"});
  CHECK(one("lang/c#") == Strings{"lang/c#!", "lang~", "c#", "c~"});
  CHECK(wholes("a--b a.b..c -x- (y) z.") == Strings{"a", "b", "a.b", "c", "x", "y", "z"});
  CHECK(wholes("a//b a:::b a:////b a::") == Strings{"a", "b", "a", "b", "a", "b", "a"});
  CHECK(wholes("_ __ -_- ._. ' + # / \\").empty());
  CHECK(one("user__name") == Strings{"user__name!", "user~", "name~"});
  CHECK(one("src/__init__.py") ==
        Strings{"src/__init__.py!", "src~", "__init__.py", "__init__", "py~", "init~"});
  CHECK(wholes("a._.b") == Strings{"a", "b"});
  // The typographic apostrophe and hyphen are joiners as well.
  CHECK(one("rock\u2019n\u2019roll") == Strings{"rock'n'roll!", "rock~", "n~", "roll~"});
  CHECK(one("CVE\u20112031") == Strings{"cve-2031!", "cve~", "2031"});
}

TEST_CASE("TOK-2: whole, suffixes, segments") {
  CHECK(one("etc/app/db-conf.yaml") == Strings{"etc/app/db-conf.yaml!", "app/db-conf.yaml", "etc~",
                                               "app~", "db-conf.yaml", "db-conf", "yaml~", "db~",
                                               "conf~"});
  CHECK(contains(all("com.example.UserService.getName"), "userservice.getname"));
  CHECK(one("bob@example.com") ==
        Strings{"bob@example.com!", "bob~", "example.com", "example~", "com~"});
  CHECK(one("https://host/path") ==
        Strings{"https://host/path!", "host/path", "https~", "host~", "path~"});
  CHECK(one("std::vector::push_back") == Strings{"std::vector::push_back!", "vector::push_back",
                                                 "std~", "vector~", "push_back", "push~", "back~"});
  CHECK(one("C:\\Users\\Bob\\x.txt") == Strings{"c:\\users\\bob\\x.txt!", "users\\bob\\x.txt",
                                                "bob\\x.txt", "c~", "users~", "bob~", "x.txt", "x~",
                                                "txt~"});
  for (const char* text : {"C:\\\\Users\\\\Bob", "C:/Users/Bob", "file:///etc/passwd", "a::b::c",
                           "http://10.0.0.1:8080/x", "fe80::1", "\\\\server\\share"}) {
    CAPTURE(text);
    CHECK(wholes(text).size() == 1);
    CHECK(is_identifier(text));
  }
  // Each text once.
  CHECK(one("ab/ab/ab") == Strings{"ab/ab/ab!", "ab/ab", "ab~"});
  // The last eight borders, the two that begin segments among them.
  Strings parts = one("k/l/m/n/o/p/q/r/u/v/w/x.y");
  CHECK(contains(parts, "q/r/u/v/w/x.y"));
  CHECK_FALSE(contains(parts, "o/p/q/r/u/v/w/x.y"));
  CHECK(contains(parts, "x.y"));
  CHECK(contains(parts, "k~"));
}

TEST_CASE("TOK-3: inner borders") {
  CHECK(one("getUserName") == Strings{"getusername!", "getusername!~", "get~", "user~", "name~"});
  CHECK(one("HTTPServer2") == Strings{"httpserver2!", "http~", "server~", "2"});
  CHECK(one("user_id") == Strings{"user_id!", "user~", "id~"});
  CHECK(one("ERR-42") == Strings{"err-42!", "err~", "42"});
  CHECK(one("user_id2") == Strings{"user_id2!", "user~", "id2", "id~", "2"});
  CHECK(one("NASA") == Strings{"nasa!~"});
  CHECK(one("Berlin") == Strings{"berlin!~"});
  CHECK(one("aB") == Strings{"ab!", "ab!~", "a~?", "b~"});
  CHECK(one("ABc") == Strings{"abc!", "abc!~", "a~?", "bc~"});
  CHECK(one("src/YouTube.py") == Strings{"src/youtube.py!", "src~", "youtube.py", "youtube",
                                         "youtube~", "py~", "you~?", "tube~"});
  // Marks belong to their base.
  CHECK(one("E\u0301ta\u0302tMajor") == Strings{"etatmajor!", "etatmajor!~", "etat~", "major~"});
}

TEST_CASE("TOK-4: UUIDs, literals and hashes stay whole") {
  const std::string uuid = "550e8400-e29b-41d4-a716-446655440000";
  const Strings expected = {uuid + "!", "550e8400", "550e8400e29b41d4a716446655440000"};
  for (const std::string& text : {uuid, std::string("550E8400-E29B-41D4-A716-446655440000"),
                                  "{" + uuid + "}", "urn:uuid:" + uuid, "URN:UUID:" + uuid}) {
    CAPTURE(text);
    const TokenStream stream = analyzed(text);
    REQUIRE(stream.compounds.size() == 1);
    CHECK(stream.compounds[0].whole_only);
    CHECK(stream.compounds[0].identifier);
    CHECK(marked(stream, stream.compounds[0]) == expected);
  }
  CHECK(one("img/" + uuid + ".png") == Strings{"img/" + uuid + ".png!", "img~", uuid + ".png", uuid,
                                               "550e8400", "550e8400e29b41d4a716446655440000",
                                               "png~"});
  CHECK_FALSE(analyzed("img/" + uuid).compounds[0].whole_only);
  CHECK(one("0xDEADbeef") == Strings{"0xdeadbeef!"});
  CHECK(one("a1b2c3d4e5f6a7b8") == Strings{"a1b2c3d4e5f6a7b8!"});
  CHECK(analyzed("a1b2c3d4e5f6a7b8").compounds[0].whole_only);
  // One character less, or fewer changes: an ordinary identifier.
  CHECK(one("a1b2c3d4e5f6a7b").size() > 1);
  CHECK(one("abcdefgh12345678").size() == 3);
  CHECK_FALSE(analyzed("abcdefgh12345678").compounds[0].whole_only);
  // A hash inside a longer compound is not taken apart either.
  CHECK(one("key_a1b2c3d4e5f6a7b8") ==
        Strings{"key_a1b2c3d4e5f6a7b8!", "key~", "a1b2c3d4e5f6a7b8"});
  // Between any two borders of a longer name, too.
  for (const std::string& text :
       {"req-" + uuid, "u_" + uuid + ".log", "span_" + uuid, uuid + "-1", uuid + "_backup",
        "__" + uuid + "__", "a-" + uuid + "-b_" + uuid, "x/urn:uuid:" + uuid + "+y"}) {
    CAPTURE(text);
    const Strings parts = one(text);
    CHECK_FALSE(analyzed(text).compounds[0].whole_only);
    for (const Strings& found : {Strings{uuid}, expected}) {
      for (const std::string& form : found) {
        CHECK(contains(parts, form.substr(0, form.find('!'))));
      }
    }
    CHECK_FALSE(contains(parts, "e29b"));
    CHECK_FALSE(contains(parts, "446655440000"));
  }
  CHECK(one("550e8400-e29b-41d4-a716-44665544000a#") ==
        one("550e8400-e29b-41d4-a716-44665544000a"));
  CHECK(one("0xff++") == Strings{"0xff!"});
  CHECK(one("deadbeef-dead-beef-dead-beefdeadbeef").size() == 3);
  CHECK(is_identifier("deadbeef-dead-beef-dead-beefdeadbeef"));
  CHECK_FALSE(contains(all("x" + uuid), uuid));
  // Almost a UUID.
  CHECK_FALSE(analyzed("550e8400-e29b-41d4-a716-44665544000g").compounds[0].whole_only);
}

TEST_CASE("TOK-5: accents") {
  CHECK(one("caf\u00E9") == Strings{"cafe!~"});
  CHECK(one("cafe\u0301") == Strings{"cafe!~"});
  CHECK(one("\u00DC") == Strings{"u!~"});
  CHECK(one("Stra\u00DFe") == Strings{"strasse!~"});
  CHECK(one("\u1E9E") == Strings{"ss!~"});
  CHECK(one("\u0439\u0451") == Strings{"\u0438\u0435!~"});  // written down: short i and yo as well
  CHECK(one("\u03AC\u03C2") == Strings{"\u03B1\u03C3!~"});
  CHECK(wholes("\u0141\u00F3d\u017A \u00D8resund \u0110\u00F0 \u0126 \u0167 \u0131 \u00C6\u01FD "
               "\u0153 \u00DE") ==
        Strings{"lodz", "oresund", "dd", "h", "t", "i", "aeae", "oe", "th"});
  // Other scripts keep their marks.
  CHECK(one("\u0939\u093F\u0928\u094D\u0926\u0940") ==
        Strings{"\u0939\u093F\u0928\u094D\u0926\u0940!~"});
  CHECK(wholes("\u304B\u3099\u3042") == Strings{"\u304C\u3042"});
}

TEST_CASE("TOK-6: scripts without spaces") {
  CHECK(wholes("東京タワーの入場券を予約した") == Strings{"東京", "京タ", "タワ", "ワー", "ーの",
                                                          "の入", "入場", "場券", "券を", "を予",
                                                          "予約", "約し", "した"});
  CHECK(wholes("東") == Strings{"東"});
  CHECK(wholes("감사합니다") == Strings{"감사", "사합", "합니", "니다"});
  CHECK(wholes("abc東京x_京-b") == Strings{"abc", "東京", "x_", "京", "b"});
  CHECK(wholes("東京타워") == Strings{"東京", "타워"});
  CHECK(wholes("ＡＢＣ－１２") == Strings{"abc-12"});
  // A Thai character is a consonant with its marks.
  CHECK(wholes("\u0E17\u0E35\u0E48\u0E19\u0E35\u0E48") ==
        Strings{"\u0E17\u0E35\u0E48\u0E19\u0E35\u0E48"});
  CHECK(wholes("\u0E17\u0E35\u0E48") == Strings{"\u0E17\u0E35\u0E48"});
  CHECK(wholes("\u30AB\u30FB\u30AB") == Strings{"\u30AB", "\u30AB"});  // the middle dot separates
}

TEST_CASE("TOK-7: no token is longer than 256 bytes") {
  const TokenStream stream = analyzed(std::string(70'000, 'x') + " needle");
  CHECK(stream.compounds.size() == 2);
  const std::string_view kept = stream.text(stream.tokens[0]);
  CHECK(kept == std::string(240, 'x') + "940217a24a8c22e5");
  CHECK(one(std::string(256, 'x')) == Strings{std::string(256, 'x') + "!~"});
  CHECK(wholes(std::string(70'001, 'x'))[0] != kept);
  // Cut at a code point.
  const Strings cut = wholes("x" + repeated("\u0436", 1000));
  CHECK(cut[0].starts_with("x" + repeated("\u0436", 119)));
  CHECK(cut[0].size() == 1 + 2 * 119 + 16);
  // So do long names that begin alike, their parts, runs of marks, and the other analyzers.
  const std::string url = "https://example.com/" + repeated("long/", 100);
  CHECK(wholes(url + "a") != wholes(url + "b"));
  CHECK(wholes(url + "a")[0].size() == 256);
  CHECK(one(url + "a")[1] != one(url + "b")[1]);
  const std::string marks = repeated("\u0302", 200);
  CHECK(wholes("\u6771" + marks + "\u4EAC\u90FD").size() == 2);
  CHECK(wholes("\u6771" + marks + "\u4EAC\u90FD")[1] == "\u4EAC\u90FD");
  CHECK(wholes("\u6771\u4EAC" + marks + "\u90FD")[0] !=
        wholes("\u6771\u4EAC" + marks + "\u0302")[0]);
  for (const AnalyzerKind kind : {AnalyzerKind::Standard, AnalyzerKind::Whitespace}) {
    CHECK(wholes(std::string(300, 'x'), kind) != wholes(std::string(301, 'x'), kind));
  }
  const Strings parts = one(repeated("long/", 100) + "file.txt");
  CHECK(parts[0].size() == 257);
  CHECK(contains(parts, "file.txt"));
  CHECK(contains(parts, "long~"));
}

TEST_CASE("TOK-8: stop words") {
  CHECK(one("What") == Strings{"what!~?"});
  CHECK(one("for") == Strings{"for!~?"});
  CHECK(one("deploy") == Strings{"deploy!~"});
  CHECK(one("don't") == Strings{"don't!?", "don~?", "t~?"});
  CHECK(one("It\u2019s") == Strings{"it's!?", "it~?", "s~?"});
  CHECK(one("Alice's") == Strings{"alice's!", "alice~", "s~?"});
  CHECK(one("who'd've") == one("who'd"));
  CHECK(one("t") == Strings{"t!~"});
  CHECK(one("s-t") == Strings{"s-t!", "s~", "t~"});
  CHECK(one("is_valid") == Strings{"is_valid!", "is~?", "valid~"});
  for (const char* word : {"during", "before", "over", "both", "other", "only", "May"}) {
    CAPTURE(word);
    CHECK(one(word)[0].back() == '~');
  }
}

TEST_CASE("TOK-1: a trailing remnant belongs to plain words only") {
  for (const char* text :
       {"v1.2.3", "ERR_CONN_42", "src/app/db-conf.yaml", "CVE-2025-2358", "0x1f", "YouTube", "42",
        "a1b2c3d4e5f6a7b8", "550e8400-e29b-41d4-a716-446655440000", "C++", "c#", "well-known",
        "__init__", "O'Brien"}) {
    for (const char* remnant : {"'s", "\u2019S", "'ll", "'re", "'ve", "'d", "'m", "'t"}) {
      CAPTURE(text);
      CAPTURE(remnant);
      const TokenStream plain = analyzed(text);
      const TokenStream stream = analyzed(std::string(text) + remnant);
      REQUIRE(stream.compounds.size() == 1);
      CHECK(marked(stream, stream.compounds[0]) == marked(plain, plain.compounds[0]));
      CHECK(stream.compounds[0].identifier == plain.compounds[0].identifier);
      CHECK(stream.compounds[0].whole_only == plain.compounds[0].whole_only);
      CHECK(sources(std::string(text) + remnant) == Strings{text});  // without the remnant
    }
  }
  CHECK(one("x1's's") == one("x1"));
  CHECK(wholes("foo_bar's# C++'s x") == Strings{"foo_bar", "c++", "x"});
  CHECK(wholes("c++'s-x") == Strings{"c++", "s-x"});
  CHECK(one("x1'sa").size() > 3);  // no remnant
}

TEST_CASE("TOK-9: parts do not lengthen a text") {
  CHECK(analyzed("etc/app/db-conf.yaml getUserName plain").compounds.size() == 3);
}

TEST_CASE("TOK-10: the other analyzers") {
  const auto standard = [](std::string_view text) { return wholes(text, AnalyzerKind::Standard); };
  CHECK(standard("The getUserName of ERR-42, C and x1!") ==
        Strings{"getusername", "err", "42", "x1"});
  CHECK(standard("not for a caf\u00E9") == Strings{"caf\u00E9"});
  CHECK(standard("入場券を予約") == Strings{"入場券を予約"});
  const auto white = [](std::string_view text) { return wholes(text, AnalyzerKind::Whitespace); };
  CHECK(white("The getUserName,\tof\nERR-42\u3000caf\u00E9\u00A0x ") ==
        Strings{"the", "getusername,", "of", "err-42", "caf\u00E9", "x"});
  CHECK(sources("The ERR-42\u3000caf\u00E9", AnalyzerKind::Whitespace) ==
        Strings{"The", "ERR-42", "caf\u00E9"});
  for (const AnalyzerKind kind : {AnalyzerKind::Standard, AnalyzerKind::Whitespace}) {
    for (const Token& token : analyzed("when getUserName", kind).tokens) {
      CHECK_FALSE(token.stop);
      CHECK_FALSE(token.word);
      CHECK_FALSE(token.part);
    }
    CHECK_FALSE(analyzed("user_id", kind).compounds[0].identifier);
  }
}

TEST_CASE("TOK-11: ill-formed text") {
  CHECK(wholes("party \xED\xA0\xBC\xED\xBD\xB8 tonight") == Strings{"party", "tonight"});
  CHECK(wholes("ab\xFFzz\xC3") == Strings{"ab", "zz"});
  CHECK(wholes("\xED\xA0\xBC").empty());
  CHECK(wholes("").empty());
  CHECK(wholes(std::string_view("key a\0b end", 11)) == Strings{"key", "a", "b", "end"});
}

TEST_CASE("TOK-12: identifiers") {
  for (const char* text :
       {"getUserName", "iPhone", "HTTPServer", "utf8", "user_id", "a.b", "error:x", "a/b", "a\\b",
        "bob@home", "issue#12", "ERR-42", "CVE-2031-0042", "c++", "c#", "_private", "trailing_",
        "2026.4.10", "0xFF"}) {
    CAPTURE(text);
    CHECK(is_identifier(text));
  }
  for (const char* text :
       {"NASA", "Berlin", "plain", "well-known", "don't", "42", "a+b", "caf\u00E9"}) {
    CAPTURE(text);
    CHECK_FALSE(is_identifier(text));
  }
}

TEST_CASE("versions and dates are found by their leading numbers") {
  CHECK(one("1.2.3") == Strings{"1.2.3!", "2.3", "1.2", "1", "2", "3"});
  CHECK(one("v1.2.3") == Strings{"v1.2.3!", "2.3", "v1.2", "1.2.3", "v1", "2", "3", "v~", "1"});
  for (const char* text : {"v1.2.3-rc.1+build.5", "jquery-1.2.3.min.js", "app_v1.2.3_x"}) {
    CAPTURE(text);
    CHECK(contains(all(text), "1.2.3"));
  }
  CHECK(contains(all("2031-01-05T10:00:00Z"), "2031-01-05"));
  CHECK(contains(all("backup_2031-01-05.tar"), "2031-01-05"));
  CHECK_FALSE(contains(all("12031-01-05"), "2031-01-05"));
  CHECK_FALSE(contains(all("2031-01-052"), "2031-01-05"));
  CHECK(contains(all("upgraded to 2026.4.10 last night"), "2026.4"));  // F-021
  CHECK(contains(all("python:3.10.1"), "3.10"));
  CHECK_FALSE(contains(all("a.b.c"), "a.b"));
  // At most eight.
  const Strings parts = one("1.2.3.4.5.6.7.8.9.10.11.12");
  CHECK(contains(parts, "1.2.3.4.5.6.7.8.9"));
  CHECK_FALSE(contains(parts, "1.2.3.4.5.6.7.8.9.10"));
}

TEST_CASE("dotted single letters are a word, too") {
  CHECK(one("U.S.A.") == Strings{"u.s.a!", "s.a", "u~", "s~", "a~?", "usa~"});
  CHECK(contains(all("\u00C9.U."), "eu"));
  CHECK_FALSE(contains(all("a.b.cd"), "abcd"));
  CHECK_FALSE(contains(all("a.1.c"), "a1c"));
}

TEST_CASE("field cases of tokenising") {
  CHECK(contains(all("call getUserById(id)"), "user"));           // F-018
  CHECK(contains(all("parseHTMLResponse failed"), "html"));       // F-018
  CHECK(contains(all("patched CVE-2031-0042 on host"), "0042"));  // F-019
  CHECK(one("CVE-2031-0042") == Strings{"cve-2031-0042!", "cve~", "2031", "0042"});
  CHECK(wholes("-016") == Strings{"016"});                     // F-020
  CHECK(wholes("TODO: rotate") == Strings{"todo", "rotate"});  // F-022
  CHECK(one("error:timeout") == Strings{"error:timeout!", "error~", "timeout~"});
  CHECK(contains(wholes("This is a document. (Qwen)!"), "document"));  // F-023
  CHECK(contains(wholes("This is a document. (Qwen)!"), "qwen"));
  CHECK(one("\u0105") == one("a"));  // F-027
  CHECK(one("Hu\u1EBF") == Strings{"hue!~"});
  CHECK(wholes("\u0130stanbul \u0130STANBUL") == Strings{"istanbul", "istanbul"});  // F-028
  CHECK(wholes("\u01C5 \uFB01") == Strings{"dz", "fi"});
  CHECK(wholes("deploy 🚀 done") == Strings{"deploy", "done"});  // F-030
  CHECK(wholes("family 👩‍👩‍👧 trip ❤\uFE0F") == Strings{"family", "trip"});
  CHECK(contains(all("edit src/utils/parser.ts now"), "parser.ts"));  // F-031
  CHECK(contains(all("edit src/utils/parser.ts now"), "utils"));
  CHECK(contains(all("import com.example.App"), "com.example.app"));
  CHECK(all("sign-off") == Strings{"off", "sign", "sign-off"});  // F-032: not joined
}

TEST_CASE("F-026: composed and decomposed text are the same") {
  for (const auto& [composed, decomposed] : {std::pair{"caf\u00E9", "cafe\u0301"},
                                             {"r\u00E9sum\u00E9", "re\u0301sume\u0301"},
                                             {"Z\u00FCrich", "Zu\u0308rich"},
                                             {"\uAC10", "\u1100\u1161\u11B7"},
                                             {"\u1E69", "s\u0323\u0307"},
                                             {"\u1E69", "s\u0307\u0323"}}) {
    CHECK(one(composed) == one(decomposed));
  }
}

TEST_CASE("marks and invisible characters") {
  CHECK(wholes("\u0301 \u0301\u0302 a,\u0301b").size() == 2);
  CHECK(one("soft\u00ADhyphen") == Strings{"softhyphen!~"});
  CHECK(one("zero\u200Cwidth\u200D") == Strings{"zerowidth!~"});
  CHECK(one("\uFEFFword") == Strings{"word!~"});
  CHECK(wholes("zero\u200Bspace") == Strings{"zero", "space"});
  CHECK(one("1\uFE0F\u20E3") == Strings{"1!"});  // a keycap
  CHECK(wholes("\u0301\u0302").empty());
}

TEST_CASE("source ranges are those of the text as given") {
  CHECK(sources("a caf\u00E9, Stra\u00DFe!") == Strings{"a", "caf\u00E9", "Stra\u00DFe"});
  CHECK(sources("\u00BD cup") == Strings{"\u00BD", "\u00BD", "cup"});  // one half: 1 and 2
  CHECK(sources("\uFB01le.txt") == Strings{"\uFB01le.txt"});
  CHECK(sources("s\u0307\u0323x y") == Strings{"s\u0307\u0323x", "y"});
  CHECK(sources("東京都") == Strings{"東京", "京都"});
  CHECK(sources("{c++} _x_.") == Strings{"c++", "_x_"});
  CHECK(sources("soft\u00ADhyphen") == Strings{"soft\u00ADhyphen"});
}

TEST_CASE("one stream serves many texts") {
  TokenStream stream;
  analyze(AnalyzerKind::Code, "getUserName caf\u00E9", stream);
  const std::string chars = stream.chars;
  analyze(AnalyzerKind::Code, "other", stream);
  CHECK(stream.compounds.size() == 1);
  CHECK(stream.text(stream.tokens[0]) == "other");
  analyze(AnalyzerKind::Code, "getUserName caf\u00E9", stream);
  CHECK(stream.chars == chars);
  stream.clear();
  CHECK(stream.compounds.empty());
}

TEST_CASE("the ASCII path and the Unicode path agree") {
  // The same text with a far-off letter glued to a stretch goes the other way.
  for (const char* text :
       {"etc/app/db-conf.yaml", "getUserName", "HTTPServer2", "__init__", "c++", "x.c#", "don't",
        "1.2.3", "v1.2.3", "550e8400-e29b-41d4-a716-446655440000", "a1b2c3d4e5f6a7b8", "0xff",
        "a--b", "user__name", "ABc-Def", "what", "b+"}) {
    CAPTURE(text);
    const TokenStream ascii = analyzed(text);
    // U+2603 separates, but only once the stretch is decoded.
    const TokenStream other = analyzed(std::string(text) + "\u2603");
    REQUIRE(ascii.compounds.size() == other.compounds.size());
    for (std::size_t i = 0; i < ascii.compounds.size(); ++i) {
      CHECK(marked(ascii, ascii.compounds[i]) == marked(other, other.compounds[i]));
      CHECK(ascii.compounds[i].identifier == other.compounds[i].identifier);
      CHECK(ascii.compounds[i].whole_only == other.compounds[i].whole_only);
      CHECK(ascii.compounds[i].source_begin == other.compounds[i].source_begin);
      CHECK(ascii.compounds[i].source_end == other.compounds[i].source_end);
    }
  }
}

namespace {

// Repeated, these make the longest compounds, the most borders, or the most to look back at.
constexpr const char* kUnits[] = {
    "a/b/",      "a.b-c/",        "aB",    "a1",  "7",      "1.",
    "a_",        "a-__",          "-",     "_",   "\u0301", "\u0301\u0323",
    "\u00E9",    "\xFF",          "x'",    "a",   "a's'",   "1's'",
    "longer's'", "a::",           "://b",  "v1.", "1.2-",   "550e8400-e29b-41d4-a716-446655440000-",
    "550e8400-", "2031-01-05T1-", "0x1++", "U.",  "\u00F8", "\u6771\u0301\u0302",
    "\u0130",    "<\u0338",       "\u00AD"};

}  // namespace

TEST_CASE("time is linear in one long compound") {
  // A hundred times the text takes less than four thousand times the processor's time; a quadratic
  // step would take ten thousand times as long. What other processes do does not count.
  TokenStream stream;
  const auto used = [&stream](AnalyzerKind kind, const std::string& text) {
    const std::clock_t begin = std::clock();
    analyze(kind, text, stream);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  for (const AnalyzerKind kind :
       {AnalyzerKind::Code, AnalyzerKind::Standard, AnalyzerKind::Whitespace}) {
    for (const char* unit : kUnits) {
      CAPTURE(unit);
      const std::string text = repeated(unit, 20'000 / std::string_view(unit).size());
      double once = used(kind, text);
      for (int i = 0; i < 4; ++i) once = std::min(once, used(kind, text));
      CHECK(used(kind, repeated(text, 100)) < 4000 * std::max(once, 1e-4));
    }
  }
}

TEST_CASE("huge compounds give few tokens") {
  constexpr std::size_t kN = 200'000;
  for (const char* unit : kUnits) {
    CAPTURE(unit);
    const TokenStream stream = analyzed(repeated(unit, kN));
    CHECK(stream.compounds.size() <= kN);
    CHECK(stream.tokens.size() <= kN + 20);
    for (const Token& token : stream.tokens) {
      if (token.size == 0 || token.size > 256) FAIL("size " << token.size);
    }
  }
  CHECK(analyzed(repeated("a/b/", kN)).tokens.size() < 20);
  // Distinct parts beyond the size where comparing gives way to hashing, each once.
  std::string text;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i)
      text += "p" + std::string(1, static_cast<char>('a' + i % 26)) +
              repeated("q", static_cast<std::size_t>(i / 26)) + "/";
  }
  CHECK(analyzed(text).compounds.size() == 1);
  CHECK(analyzed(text).tokens.size() == 1 + 1000 + 7);
}

TEST_CASE("no text breaks the invariants") {
  // Strings of pieces that matter, well-formed or not.
  const Strings pieces = {"a",
                          "B",
                          "7",
                          "_",
                          "-",
                          ".",
                          "/",
                          "\\",
                          ":",
                          "@",
                          "#",
                          "+",
                          "'",
                          " ",
                          "\u0301",
                          "\u0323",
                          "\u00E9",
                          "\u0130",
                          "\u00DF",
                          "\uFB01",
                          "\u00BD",
                          "東",
                          "あ",
                          "ー",
                          "각",
                          "\u1100",
                          "\u1161",
                          "\u11A8",
                          "\u0E17",
                          "\u0E35",
                          "\u00AD",
                          "\u200D",
                          "\u200B",
                          "🚀",
                          "\xED\xA0\x80",
                          "\xFF",
                          "\xC3",
                          std::string(1, '\0'),
                          "\u2019",
                          "\u2010",
                          "\uFDFA",
                          "\u0345",
                          "\u0916\u093C",
                          "550e8400-e29b-41d4-a716-446655440000",
                          "0x1f",
                          "a1b2c3d4e5f6a7b8"};
  constexpr std::string_view joiners = "_-.:/\\@#+'";
  std::uint64_t state = 7;
  const auto below = [&state](std::size_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(state >> 33) % n;
  };
  TokenStream stream;
  TokenStream again;
  for (int i = 0; i < 100'000; ++i) {
    std::string text;
    for (std::size_t n = below(12); n-- > 0;) text += pieces[below(pieces.size())];
    for (const AnalyzerKind kind :
         {AnalyzerKind::Code, AnalyzerKind::Standard, AnalyzerKind::Whitespace}) {
      analyze(kind, text, stream);
      std::uint64_t next_token = 0;
      std::uint64_t last_begin = 0;
      for (const Compound& c : stream.compounds) {
        bool good = c.first_token == next_token && c.n_tokens > 0 &&
                    c.source_begin < c.source_end && c.source_end <= text.size() &&
                    c.source_begin >= last_begin && !stream.tokens[c.first_token].part;
        next_token += c.n_tokens;
        last_begin = c.source_begin;
        for (std::uint64_t t = c.first_token; t < next_token; ++t) {
          const std::string_view token = stream.text(stream.tokens[t]);
          good &= !token.empty() && token.size() <= 256;
          if (kind != AnalyzerKind::Code) continue;
          // F-028: nothing that the analyzer removes, and no mark without a base.
          bool first = true;
          for (const char* p = token.data(); p != token.data() + token.size();) {
            const Decoded d = decode_utf8(p, token.data() + token.size());
            const CharClass k = char_properties(d.code).char_class;
            good &= d.code != kReplacement && d.code != U' ' && !(first && k == CharClass::Mark);
            good &= k != CharClass::Other ||
                    (d.code < 0x80 && joiners.find(static_cast<char>(d.code)) != joiners.npos);
            first = false;
            p += d.size;
          }
        }
        if (!good) FAIL("kind " << static_cast<int>(kind) << " text " << text);
      }
      if (next_token != stream.tokens.size()) FAIL("tokens without compound: " << text);
    }
    // Separators around a text change nothing.
    analyze(AnalyzerKind::Code, text, stream);
    analyze(AnalyzerKind::Code, " " + text + " ", again);
    if (stream.tokens.size() != again.tokens.size()) FAIL("depends on its surroundings: " << text);
  }
}

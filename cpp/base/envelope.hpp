// Stored files: a common header of 64 bytes, a table of sections, and the sections (PER-2).
// cpp/FORMATS.md has the bytes.
//
// A file is written beside its final name and renamed, so that it is there entirely or not at all
// (PER-3), and never changes afterwards. A file is checked before anything of it is used: magic,
// version, sizes and checksums here, what the sections mean by whoever reads them (PER-4). Damage
// is Corruption, a newer version is Version, and what the operating system refuses is Storage.
//
// Functions and objects have no state beyond their own: any thread may use any of them, one object
// from many threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spector {

// What a kind of file is, the same for all files of the kind.
struct FileKind {
  std::array<char, 4> magic;
  std::uint32_t version;
  std::uint16_t shape;                         // PER-2
  std::uint32_t stride;                        // bytes of a record, 0 where there are none
  std::span<const std::string_view> sections;  // their names; a section's number is its place here
  std::string_view remedy;                     // for messages: what to do about a damaged file
  std::uint32_t oldest = 0;                    // version that is still read; 0: no older one
};

// Values that stay where they are as long as the owner lives.
template <class T>
struct SharedSpan {
  std::span<const T> values;
  std::shared_ptr<const void> owner;
};

inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kSectionAlignment = 64;

// Replaces the file by one of the given sections, which are those of the kind in their order. On an
// exception the old file is as it was.
void write_file(const std::string& path, const FileKind& kind, std::uint64_t count,
                std::span<const std::span<const std::byte>> sections);

class StoredFile {
 public:
  // `mapped`: the sections are used in the file, which nobody may shorten meanwhile: a program that
  // reads past a shortened file's end is ended by SIGBUS. Else they are copied, each on its own.
  StoredFile(std::string path, const FileKind& kind, bool mapped);

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }

  // A section as an array. Corruption unless its size is a multiple.
  template <class T>
  [[nodiscard]] SharedSpan<T> array(std::size_t section) const {
    const Section& found = sections_[section];
    if (found.bytes.size() % sizeof(T) != 0) {
      fail(section, "its size is not a multiple of " + std::to_string(sizeof(T)));
    }
    return {{reinterpret_cast<const T*>(found.bytes.data()), found.bytes.size() / sizeof(T)},
            found.owner};
  }

  // Throws Corruption that names the file and the section.
  [[noreturn]] void fail(std::size_t section, const std::string& what) const;
  // The same for the file as a whole.
  [[noreturn]] void fail(const std::string& what) const;
  // Throws Version that names the file.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  struct Section {
    std::uint64_t offset;
    std::uint32_t checksum;
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };

  std::string path_;
  FileKind kind_;
  std::uint64_t count_ = 0;
  std::uint32_t version_ = 0;
  std::vector<Section> sections_;
};

}  // namespace spector

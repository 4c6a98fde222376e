#include "base/envelope.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/large_array.hpp"
#include "base/parallel.hpp"

namespace spector {
namespace {

static_assert(std::endian::native == std::endian::little, "stored formats are little-endian");

struct Header {
  std::array<char, 4> magic;
  std::uint32_t version;
  std::uint16_t flags;
  std::uint16_t shape;
  std::uint32_t stride;
  std::uint64_t count;
  std::uint64_t capacity;
  std::uint64_t payload_bytes;
  std::int64_t created_ms;
  std::int64_t flushed_ms;
  std::uint32_t payload_checksum;
  std::uint32_t header_checksum;  // of the bytes before it
};
static_assert(sizeof(Header) == kHeaderBytes);

struct TableHead {
  std::uint32_t n_sections;
  std::uint32_t checksum;  // of the entries
};
struct TableEntry {
  std::uint32_t section;
  std::uint32_t checksum;
  std::uint64_t offset;  // from the beginning of the file
  std::uint64_t bytes;
};
static_assert(sizeof(TableHead) == 8 && sizeof(TableEntry) == 24);

// Checksums of large sections are taken in pieces, by several threads.
constexpr std::size_t kPiece = std::size_t{4} << 20;
constexpr std::size_t kLargestWrite = std::size_t{1} << 30;

constexpr std::uint64_t aligned(std::uint64_t offset) noexcept {
  return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment;
}

constexpr std::uint64_t table_bytes(std::size_t n_sections) noexcept {
  return sizeof(TableHead) + n_sections * sizeof(TableEntry);
}

std::uint32_t header_checksum(const Header& header) noexcept {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_checksum)));
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& items) noexcept {
  return std::as_bytes(std::span(items));
}

std::uint32_t checksum(std::span<const std::byte> bytes) {
  const std::size_t n = (bytes.size() + kPiece - 1) / kPiece;
  if (n < 2) return crc32c(bytes);
  std::vector<std::uint32_t> pieces(n);
  const auto piece = [&](std::size_t i) {
    return bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece));
  };
  const std::size_t threads = std::min(4U, std::max(1U, std::thread::hardware_concurrency()));
  parallel_for(n, threads, [&](std::size_t i) { pieces[i] = crc32c(piece(i)); });
  std::uint32_t sum = pieces[0];
  for (std::size_t i = 1; i < n; ++i) sum = crc32c_joined(sum, pieces[i], piece(i).size());
  return sum;
}

class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  [[nodiscard]] int get() const noexcept { return number_; }

 private:
  int number_;
};

// A file beside `path` that takes its place or vanishes. It is locked as long as its writer lives:
// one that is not was left by a writer that was killed, and is removed by the next in the folder.
class Replacement {
 public:
  explicit Replacement(std::string path)
      : path_(std::move(path)),
        folder_(path_.find('/') == std::string::npos
                    ? "."
                    : path_.substr(0, std::max<std::size_t>(1, path_.rfind('/')))) {}
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  Replacement(Replacement&&) = delete;
  Replacement& operator=(Replacement&&) = delete;
  ~Replacement() {
    if (created_) ::unlink(temporary_.c_str());
  }

  // Calls write(descriptor) and puts the file in its place.
  template <class Write>
  void run(const Write& write) {
    remove_abandoned();
    const Descriptor file(create());
    write(file.get());
    if (::fsync(file.get()) != 0) fail(errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
    created_ = false;
    const Descriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() < 0 || ::fsync(folder.get()) != 0) fail(errno);
  }

  void write_all(int file, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file, bytes.data(), std::min(bytes.size(), kLargestWrite));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(errno);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }

 private:
  static constexpr char kPrefix[] = ".spector-";
  static constexpr char kSuffix[] = ".tmp";

  // Where locks are not supported, files are neither locked nor removed.
  static bool lock(int file) noexcept { return ::flock(file, LOCK_EX | LOCK_NB) == 0; }

  // The descriptor of the new file, which keeps its lock.
  int create() {
    while (true) {
      std::array<char, 40> name{};
      std::snprintf(name.data(), name.size(), "/%s%016llx%s", kPrefix,
                    static_cast<unsigned long long>(random_seed()), kSuffix);
      temporary_ = folder_ + name.data();
      const int file = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file < 0) fail(errno);  // 0666: less the umask
      created_ = true;
      struct stat status{};
      const bool taken = !lock(file) && errno == EWOULDBLOCK;
      if (!taken && ::fstat(file, &status) == 0 && status.st_nlink > 0) return file;
      ::close(file);  // another writer took it for abandoned before it was locked
      ::unlink(temporary_.c_str());
      created_ = false;
    }
  }

  // Not by std::filesystem, which ends the process when there is no memory.
  void remove_abandoned() const {
    struct Closing {
      void operator()(DIR* open) const noexcept { ::closedir(open); }
    };
    const std::unique_ptr<DIR, Closing> open(::opendir(folder_.c_str()));
    while (const dirent* entry = open ? ::readdir(open.get()) : nullptr) {
      const std::string_view name = static_cast<const char*>(entry->d_name);
      if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
      const std::string path = folder_ + "/" + std::string(name);
      const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
      if (file.get() >= 0 && lock(file.get())) ::unlink(path.c_str());
    }
  }

  [[noreturn]] void fail(int error_number) const {
    throw Storage(error_number, "cannot write", path_);
  }

  std::string path_;
  std::string folder_;
  std::string temporary_;
  bool created_ = false;
};

void refuse_zero_bytes(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    throw std::invalid_argument("a path must not hold a zero byte");
  }
}

struct Unmap {
  std::size_t size;
  void operator()(const std::byte* at) const noexcept {
    ::munmap(const_cast<std::byte*>(at), size);
  }
};

}  // namespace

void write_file(const std::string& path, const FileKind& kind, std::uint64_t count,
                std::span<const std::span<const std::byte>> sections) {
  refuse_zero_bytes(path);
  std::vector<TableEntry> entries;
  std::uint64_t end = kHeaderBytes + table_bytes(sections.size());
  for (const std::span<const std::byte> section : sections) {
    const auto number = static_cast<std::uint32_t>(entries.size());
    entries.push_back({number, checksum(section), aligned(end), section.size()});
    end = entries.back().offset + section.size();
  }
  const TableHead head{static_cast<std::uint32_t>(entries.size()), crc32c(bytes_of(entries))};

  constexpr std::array<std::byte, kSectionAlignment> kZeros{};
  const auto zeros = [&](std::uint64_t from) {
    return std::span(kZeros).first(static_cast<std::size_t>(aligned(from) - from));
  };
  std::uint32_t payload = crc32c(std::as_bytes(std::span(&head, 1)));
  payload = crc32c(bytes_of(entries), payload);
  std::uint64_t at = kHeaderBytes + table_bytes(entries.size());
  for (const TableEntry& entry : entries) {
    payload = crc32c(zeros(at), payload);
    payload = crc32c_joined(payload, entry.checksum, entry.bytes);
    at = entry.offset + entry.bytes;
  }

  const std::int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  Header header{kind.magic, kind.version,       0,   kind.shape, kind.stride, count,
                count,      end - kHeaderBytes, now, now,        payload,     0};
  header.header_checksum = header_checksum(header);

  Replacement file(path);
  file.run([&](int descriptor) {
    file.write_all(descriptor, std::as_bytes(std::span(&header, 1)));
    file.write_all(descriptor, std::as_bytes(std::span(&head, 1)));
    file.write_all(descriptor, bytes_of(entries));
    std::uint64_t written = kHeaderBytes + table_bytes(entries.size());
    for (const std::span<const std::byte> section : sections) {
      file.write_all(descriptor, zeros(written));
      file.write_all(descriptor, section);
      written = aligned(written) + section.size();
    }
  });
}

StoredFile::StoredFile(std::string path, const FileKind& kind, bool mapped)
    : path_(std::move(path)), kind_(kind) {
  refuse_zero_bytes(path_);
  const auto refused = [&](int error_number) { throw Storage(error_number, "cannot read", path_); };
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) refused(errno);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) refused(errno);
  if (S_ISDIR(status.st_mode)) refused(EISDIR);
  if (!S_ISREG(status.st_mode)) refused(EINVAL);
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);

  const auto read = [&](std::span<std::byte> into, std::uint64_t offset) {
    while (!into.empty()) {
      const ssize_t n = ::pread(file.get(), into.data(), std::min(into.size(), kLargestWrite),
                                static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refused(errno);
      if (n == 0) fail("it became shorter while it was read");
      into = into.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
  };
  Header header{};
  if (file_bytes < kHeaderBytes) fail("it has " + std::to_string(file_bytes) + " bytes");
  read(std::as_writable_bytes(std::span(&header, 1)), 0);
  if (header.magic != kind.magic) fail("it does not begin as such a file does");
  if (header.header_checksum != header_checksum(header)) fail("its header is damaged");
  if (header.version > kind.version) {
    refuse("version " + std::to_string(header.version) + " is newer than " +
           std::to_string(kind.version) + ", the newest that this release reads");
  }
  if (header.version < (kind.oldest == 0 ? kind.version : kind.oldest) || header.flags != 0 ||
      header.shape != kind.shape || header.stride != kind.stride ||
      header.capacity != header.count) {
    fail("its header does not belong to such a file");
  }
  if (header.payload_bytes != file_bytes - kHeaderBytes) {
    fail("it has " + std::to_string(file_bytes - kHeaderBytes) + " bytes after the header where " +
         std::to_string(header.payload_bytes) + " were written");
  }
  count_ = header.count;
  version_ = header.version;

  const std::size_t n_sections = kind.sections.size();
  std::vector<TableEntry> entries(n_sections);
  TableHead head{};
  std::uint64_t end = kHeaderBytes + table_bytes(n_sections);
  if (file_bytes < end) fail("its table of sections is cut off");
  read(std::as_writable_bytes(std::span(&head, 1)), kHeaderBytes);
  read(std::as_writable_bytes(std::span(entries)), kHeaderBytes + sizeof head);
  if (head.n_sections != n_sections || head.checksum != crc32c(bytes_of(entries))) {
    fail("its table of sections is damaged");
  }
  for (std::size_t i = 0; i < n_sections; ++i) {
    const TableEntry& entry = entries[i];
    if (entry.section != i || entry.offset != aligned(end) || entry.offset > file_bytes ||
        entry.bytes > file_bytes - entry.offset) {
      fail("its table of sections is damaged");
    }
    end = entry.offset + entry.bytes;
  }
  if (end != file_bytes) fail("there are bytes after its last section");

  std::uint32_t payload = crc32c(bytes_of(entries), crc32c(std::as_bytes(std::span(&head, 1))));
  std::uint64_t at = kHeaderBytes + table_bytes(n_sections);
  std::shared_ptr<const std::byte> map;
  if (mapped) {
    // Read-only, all of it at once: it is going to be checked.
    const auto size = static_cast<std::size_t>(file_bytes);
    void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.get(), 0);
    if (start == MAP_FAILED) refused(errno);
    const auto* first = static_cast<const std::byte*>(start);
    map = std::shared_ptr<const std::byte>(first, Unmap{size});
  }
  for (std::size_t i = 0; i < n_sections; ++i) {
    const TableEntry& entry = entries[i];
    const auto size = static_cast<std::size_t>(entry.bytes);
    Section section{entry.offset, entry.checksum, {}, map};
    if (mapped) {
      section.bytes = {map.get() + entry.offset, size};
    } else if (size > 0) {
      const std::shared_ptr<std::byte[]> copy = make_large_array<std::byte>(size);
      read({copy.get(), size}, entry.offset);
      section.bytes = {copy.get(), size};
      section.owner = std::shared_ptr<const std::byte>(copy, copy.get());
    }
    sections_.push_back(std::move(section));
    if (checksum(sections_.back().bytes) != entry.checksum) fail(i, "its checksum differs");

    std::array<std::byte, kSectionAlignment> between{};
    const auto padding = std::span(between).first(static_cast<std::size_t>(entry.offset - at));
    read(padding, at);
    payload = crc32c_joined(crc32c(padding, payload), entry.checksum, entry.bytes);
    at = entry.offset + entry.bytes;
  }
  if (payload != header.payload_checksum) fail("its checksum differs");
}

void StoredFile::fail(std::size_t section, const std::string& what) const {
  fail("section '" + std::string(kind_.sections[section]) + "' at byte " +
       std::to_string(sections_[section].offset) + ": " + what);
}

void StoredFile::fail(const std::string& what) const {
  throw Corruption(path_ + " is damaged or no " +
                   std::string(kind_.magic.data(), kind_.magic.size()) + " file: " + what + "; " +
                   std::string(kind_.remedy));
}

void StoredFile::refuse(const std::string& what) const { throw Version(path_ + ": " + what); }

}  // namespace spector

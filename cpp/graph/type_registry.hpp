// Names of entity types, relation types and roles, and their numbers (TYP-1 to TYP-3, HYP-4). A
// name has the number it got first for ever, and further names come in as they are met.
//
// Names are what Python has normalised them to (TYP-3): not empty, UTF-8.
//
// TypeRegistry is the writer's side, without a lock of its own; View is one state, for readers
// under a Pin (base/shared.hpp brings both together).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/epoch.hpp"
#include "base/string_table.hpp"

namespace spector {

class TypeRegistry {
 public:
  enum class Kind : std::uint32_t { kEntities, kRelations, kRoles };

  class View {
   public:
    [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
    // The number of a name, if it has one.
    [[nodiscard]] std::optional<std::uint32_t> find(std::string_view name) const noexcept;
    // number < size(). Valid as long as the registry.
    [[nodiscard]] std::string_view name(std::uint32_t number) const noexcept {
      return (*names_)[number];
    }
    [[nodiscard]] std::size_t memory_bytes() const noexcept { return names_->memory_bytes(); }

    // TREG file (cpp/FORMATS.md). Throws Storage.
    void save(const std::string& path) const;

   private:
    friend class TypeRegistry;
    const StringTable* names_ = nullptr;
    std::uint32_t size_ = 0;
    Kind kind_{};
  };

  // With the names of TYP-1, TYP-2 or HYP-4.
  TypeRegistry(EpochDomain& epochs, Kind kind);

  [[nodiscard]] View view() const noexcept;
  void reserve() noexcept {}
  void published() noexcept {}
  void rollback() noexcept {}  // a name that was added is there the next time

  // The number of a name, a new one if it has none. Throws Capacity when there are no more.
  std::uint32_t add(std::string_view name) { return names_.intern(name); }

  // Adds what a TREG file of the same kind holds; no other names have been added before. Throws
  // Corruption, Version and Storage.
  void load(const std::string& path);

 private:
  Kind kind_;
  StringTable names_;
};

}  // namespace spector

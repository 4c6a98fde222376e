// Seeded 32-bit random numbers (std::mt19937 gives them as 64-bit ones).
#pragma once

#include <cstdint>
#include <random>

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

// Splits independent work over threads. The caller's thread takes part; the first exception of any
// thread is rethrown in the caller after all have ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace spector {

// Calls work(i) for each i < count, at most `threads` at a time, each i exactly once unless a call
// throws.
template <class Work>
void parallel_for(std::size_t count, std::size_t threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto run = [&]() noexcept {
    try {
      for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) work(i);
    } catch (...) {
      next.store(count);
      const std::scoped_lock lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < threads && i < count; ++i) helpers.emplace_back(run);
  run();
  helpers.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace spector

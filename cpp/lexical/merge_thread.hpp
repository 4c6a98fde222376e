// Makes the larger merges of a Bm25Index beside its changes: a thread that starts when a merge is
// due and ends when none is.
//
// The thread holds the writer's mutex only to begin a merge and to take it in; readers never notice
// it. A merge that fails leaves the index as it was and is tried again at the next change.
//
// A process may fork at any time: the thread is not in the child, which then goes on without it and
// starts its own when a merge is due there. A fork waits until no such thread of the process holds
// a mutex, so it may wait for a change that another thread is making.
#pragma once

#include <sys/types.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "lexical/bm25_index.hpp"

namespace spector {

class MergeThread {
 public:
  // `writer`: held by whoever changes the index. `publish`: gives readers what the index is now.
  MergeThread(Bm25Index& index, std::mutex& writer, std::function<void()> publish);
  MergeThread(const MergeThread&) = delete;
  MergeThread& operator=(const MergeThread&) = delete;
  MergeThread(MergeThread&&) = delete;
  MergeThread& operator=(MergeThread&&) = delete;
  // Abandons a merge that goes on and waits for the thread; `writer` is not held.
  ~MergeThread();

  // After a change, `writer` held and all published: starts the thread if a merge is due. Throws
  // what a merge has thrown since the last call, unless it was for lack of memory.
  void changed();

  // Waits until no merge goes on; `writer` is not held.
  void settle();

 private:
  void run() noexcept;
  // With `writer` held: takes in what `merge` made, if any, and begins the next, which may be null.
  std::shared_ptr<Bm25Index::Merge> next(const std::shared_ptr<Bm25Index::Merge>& merge,
                                         const std::exception_ptr& failure) noexcept;
  void look_for_fork() noexcept;

  Bm25Index& index_;
  std::mutex& writer_;
  const std::function<void()> publish_;
  // All of these under `writer`.
  std::unique_ptr<std::thread> thread_;
  bool running_ = false;  // the thread will look for a merge again, or is making one
  bool closing_ = false;
  pid_t process_ = 0;  // in which the thread was started
  std::exception_ptr failure_;
};

}  // namespace spector

#include "lexical/merge_thread.hpp"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <shared_mutex>
#include <system_error>
#include <utility>

namespace spector {
namespace {

// Held shared by merging threads while they hold a writer's mutex, and entirely by a fork. It is
// never destroyed: threads may still run when the process ends.
std::shared_mutex& fork_gate() {
  static std::shared_mutex* const gate = [] {
    auto* made = new std::shared_mutex;
    pthread_atfork([] { fork_gate().lock(); }, [] { fork_gate().unlock(); },
                   // The child's thread is another one than the one that locked it.
                   [] { new (&fork_gate()) std::shared_mutex; });
    return made;
  }();
  return *gate;
}

}  // namespace

MergeThread::MergeThread(Bm25Index& index, std::mutex& writer, std::function<void()> publish)
    : index_(index), writer_(writer), publish_(std::move(publish)) {
  static_cast<void>(fork_gate());  // it must be there before the first fork
}

MergeThread::~MergeThread() {
  {
    const std::scoped_lock lock(writer_);
    look_for_fork();
    closing_ = true;
    index_.abandon_merges();
  }
  if (thread_) thread_->join();
}

void MergeThread::look_for_fork() noexcept {
  if (!thread_ || process_ == getpid()) return;
  // There is nothing to join; the object must not be destroyed without that.
  [[maybe_unused]] const std::thread* lost = thread_.release();
  running_ = false;
  index_.abandon_merges();
}

void MergeThread::changed() {
  look_for_fork();
  if (!running_ && index_.merge_is_due()) {
    if (thread_) thread_->join();  // it has nothing left to do
    thread_.reset();
    process_ = getpid();
    running_ = true;
    try {
      thread_ = std::make_unique<std::thread>([this] { run(); });
    } catch (const std::bad_alloc&) {
      running_ = false;
    } catch (const std::system_error&) {  // no more threads: the next change tries again
      running_ = false;
    }
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void MergeThread::settle() {
  while (true) {
    {
      const std::scoped_lock lock(writer_);
      look_for_fork();
      if (!running_) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void MergeThread::run() noexcept {
  std::shared_ptr<Bm25Index::Merge> merge;
  std::exception_ptr failure;
  while (true) {
    std::shared_ptr<Bm25Index::Merge> begun;
    {
      const std::shared_lock gate(fork_gate());
      const std::scoped_lock lock(writer_);
      begun = next(merge, std::exchange(failure, nullptr));
    }
    if (!begun) return;
    merge = std::move(begun);  // frees what the one before has replaced
    try {
      merge->run();
    } catch (...) {
      failure = std::current_exception();
    }
  }
}

std::shared_ptr<Bm25Index::Merge> MergeThread::next(const std::shared_ptr<Bm25Index::Merge>& merge,
                                                    const std::exception_ptr& failure) noexcept {
  running_ = false;
  try {
    if (failure) std::rethrow_exception(failure);
    if (merge && index_.finish(*merge)) publish_();
    std::shared_ptr<Bm25Index::Merge> begun = closing_ ? nullptr : index_.begin_merge();
    running_ = begun != nullptr;
    return begun;
  } catch (const std::bad_alloc&) {
    if (merge) index_.abandon(*merge);
  } catch (...) {
    if (merge && !merge->abandoned()) failure_ = std::current_exception();
    if (merge) index_.abandon(*merge);
  }
  return nullptr;
}

}  // namespace spector

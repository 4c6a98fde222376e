/* Loaded before libc: counts the calls that change files under one folder, and at the chosen one
 * fails, writes half, or ends the process. `fault_arm` says which; see faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { kNone, kNoSpace, kInputOutput, kHalf, kExitBefore, kExitAfter };

static char folder[PATH_MAX];
static size_t folder_length;
static long wanted, seen, hits;
static int mode;

void fault_arm(const char *path, long step, int what) {
  snprintf(folder, sizeof folder, "%s", path);
  folder_length = strlen(folder);
  wanted = step;
  mode = what;
  seen = hits = 0;
}
long fault_seen(void) { return seen; }
long fault_hits(void) { return hits; }

static int is_under(const char *path) {
  return folder_length != 0 && strncmp(path, folder, folder_length) == 0;
}
static int descriptor_is_under(int descriptor) {
  char link[64], path[PATH_MAX];
  if (folder_length == 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_under(path);
}

/* What is to happen at this call; once it has failed, all later ones go through. */
static int decide(void) {
  if (++seen != wanted) return kNone;
  ++hits;
  if (mode == kExitBefore) _exit(77);
  return mode;
}
static int fail(int what) {
  errno = what == kNoSpace ? ENOSPC : EIO;
  return -1;
}
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define AFTER(what, result)             \
  do {                                  \
    if ((what) == kExitAfter) _exit(77); \
    return result;                      \
  } while (0)

static ssize_t written(int what, ssize_t (*real)(int, const void *, size_t, off_t), int descriptor,
                       const void *data, size_t size, off_t offset) {
  if (what == kNoSpace || what == kInputOutput) return fail(what);
  if (what == kHalf) { /* half of it is there, and the caller is told of an error */
    real(descriptor, data, size / 2, offset);
    return fail(kNoSpace);
  }
  if (what == kExitAfter) size = size / 2 ? size / 2 : size;
  const ssize_t result = real(descriptor, data, size, offset);
  AFTER(what, result);
}
static ssize_t plain_write(int descriptor, const void *data, size_t size, off_t offset) {
  (void)offset;
  return REAL(write)(descriptor, data, size);
}
ssize_t write(int descriptor, const void *data, size_t size) {
  if (!descriptor_is_under(descriptor)) return REAL(write)(descriptor, data, size);
  return written(decide(), plain_write, descriptor, data, size, 0);
}
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset) {
  if (!descriptor_is_under(descriptor)) return REAL(pwrite)(descriptor, data, size, offset);
  return written(decide(), REAL(pwrite), descriptor, data, size, offset);
}
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t offset) {
  if (!descriptor_is_under(descriptor)) return REAL(pwrite64)(descriptor, data, size, offset);
  return written(decide(), (ssize_t(*)(int, const void *, size_t, off_t))REAL(pwrite64), descriptor,
                 data, size, offset);
}

#define ON_DESCRIPTOR(name, parameters, arguments, descriptor)       \
  int name parameters {                                              \
    if (!descriptor_is_under(descriptor)) return REAL(name) arguments; \
    const int what = decide();                                       \
    if (what == kNoSpace || what == kInputOutput || what == kHalf)   \
      return fail(what == kHalf ? kInputOutput : what);              \
    const int result = REAL(name) arguments;                         \
    AFTER(what, result);                                             \
  }
ON_DESCRIPTOR(fsync, (int d), (d), d)
ON_DESCRIPTOR(fdatasync, (int d), (d), d)
ON_DESCRIPTOR(ftruncate, (int d, off_t size), (d, size), d)
ON_DESCRIPTOR(ftruncate64, (int d, off64_t size), (d, size), d)

#define ON_PATH(name, parameters, arguments, path)                   \
  int name parameters {                                              \
    if (!is_under(path)) return REAL(name) arguments;                \
    const int what = decide();                                       \
    if (what == kNoSpace || what == kInputOutput || what == kHalf)   \
      return fail(what == kHalf ? kInputOutput : what);              \
    const int result = REAL(name) arguments;                         \
    AFTER(what, result);                                             \
  }
ON_PATH(rename, (const char *from, const char *to), (from, to), to)
ON_PATH(unlink, (const char *path), (path), path)
ON_PATH(mkdir, (const char *path, mode_t access), (path, access), path)
ON_PATH(rmdir, (const char *path), (path), path)

int unlinkat(int descriptor, const char *path, int flags) {
  if (!(path[0] == '/' ? is_under(path) : descriptor_is_under(descriptor)))
    return REAL(unlinkat)(descriptor, path, flags);
  const int what = decide();
  if (what == kNoSpace || what == kInputOutput || what == kHalf) return fail(kInputOutput);
  const int result = REAL(unlinkat)(descriptor, path, flags);
  AFTER(what, result);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/dynlib.h"

#include <dlfcn.h>
#include <ltdl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char loader_name[] = "tenon";

/* What our loader made of a file. A failure is a module too: returning NULL would hand the file to the next loader. */
typedef struct module {
  void *dl;
  char text[200];
} module;

struct tni_dynlib {
  lt_dlhandle handle;
};

/* libltdl's state is the process's, so its lock is too. */
static pthread_mutex_t dynlib_lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_our_open;         /* under lock: the open under way is ours, not another user's of libltdl */
static const module *got_module; /* under lock: what it gave */

static bool is_short; /* under lock: ours found no memory */

static lt_module loader_open(lt_user_data data, const char *path, lt_dladvise advise) {
  (void)data;
  (void)advise;
  if (!is_our_open || !path || path[0] != '/') return NULL;
  module *m = calloc(1, sizeof *m);
  if (!m) is_short = true;
  if (!m) return NULL;
  dlerror();
  m->dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!m->dl) {
    const char *text = dlerror();
    snprintf(m->text, sizeof m->text, "%s", text ? text : "the system's loader gave no reason");
  }
  got_module = m;
  return m;
}

static int loader_close(lt_user_data data, lt_module mod) {
  (void)data;
  free(mod); /* no dlclose: see the header */
  return 0;
}

static void *loader_symbol(lt_user_data data, lt_module mod, const char *name) {
  (void)data;
  const module *m = mod;
  return m->dl ? dlsym(m->dl, name) : NULL;
}

/* The last lt_dlexit removes all loaders and frees their tables, so each cycle makes one. */
static bool ltdl_begin(void) {
  if (lt_dlinit() != 0) return false;
  if (lt_dlloader_find(loader_name)) return true;
  lt_dlvtable *v = calloc(1, sizeof *v);
  if (v) {
    v->name = loader_name;
    v->module_open = loader_open;
    v->module_close = loader_close;
    v->find_sym = loader_symbol;
    v->priority = LT_DLLOADER_PREPEND;
    if (lt_dlloader_add(v) == 0) return true;
    free(v);
  }
  lt_dlexit();
  return false;
}

static tn_status open_locked(const char *path, lt_dlhandle *out, tn_error *err) {
  /* Nothing but memory is missing then: the loader is ours. */
  if (!ltdl_begin()) return tni_fail(err, TN_E_NO_MEMORY, path, "out of memory: libltdl does not start");
  is_our_open = true;
  is_short = false;
  got_module = NULL;
  lt_dlhandle h = lt_dlopen(path);
  is_our_open = false;
  /* got is NULL where libltdl knew the path already: the library is loaded, its handle is shared. */
  if (h && (!got_module || got_module->dl)) {
    *out = h;
    return TN_OK;
  }
  const char *text = h ? got_module->text : lt_dlerror();
  /* libltdl has no codes, but a text of its own for this. */
  is_short = is_short || (!h && text && strcmp(text, "not enough memory") == 0);
  tn_status st = tni_fail(err, is_short ? TN_E_NO_MEMORY : TN_E_UNAVAILABLE, path, "cannot be loaded: %s",
                          text ? text : "no reason given");
  if (h) lt_dlclose(h);
  lt_dlexit();
  return st;
}

tn_status tni_dynlib_open(const char *path, tni_dynlib **out, tn_error *err) {
  if (path[0] != '/') return tni_fail(err, TN_E_INVALID, path, "'%s' is no absolute path", path);
  tni_dynlib *lib = calloc(1, sizeof *lib);
  if (!lib) return tni_fail_memory(err, path);
  pthread_mutex_lock(&dynlib_lock);
  tn_status st = open_locked(path, &lib->handle, err);
  pthread_mutex_unlock(&dynlib_lock);
  if (st == TN_OK)
    *out = lib;
  else
    free(lib);
  return st;
}

void *tni_dynlib_symbol(tni_dynlib *lib, const char *name) {
  pthread_mutex_lock(&dynlib_lock);
  void *p = lt_dlsym(lib->handle, name);
  pthread_mutex_unlock(&dynlib_lock);
  return p;
}

void tni_dynlib_close(tni_dynlib *lib) {
  if (!lib) return;
  pthread_mutex_lock(&dynlib_lock);
  lt_dlclose(lib->handle);
  lt_dlexit();
  pthread_mutex_unlock(&dynlib_lock);
  free(lib);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/real/real.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/conform/observe/observe.h"
#include "runtime/place/place.h"

/* A profile with this plugin before the host. phases: it has some, of the same order: a device that takes certain
 * lengths, or works in one phase, gets what it takes. */
static void write_model_profile(const tni_cf_subject *s, uint32_t threads, bool phases, bool checked, FILE *f) {
  fprintf(f, "plugins:\n  - name: %s\n    options: ", s->name);
  tni_cf_options_write(f, s->options, s->n_options);
  fprintf(f, "\n%s\nthreads: %u\n", checked ? "checked: true" : "watch: 0", threads);
  if (phases) fprintf(f, "phases:\n  prefill: [%s, host]\n  decode: [%s, host]\n", s->name, s->name);
}

/* Only the plugin's tasks are in the report, not the host's. */
bool tni_cf_judge_session(tni_cf *cf, tn_session *s, bool each, bool may_be_empty) {
  char *text = NULL;
  tn_error err;
  size_t i;
  json_t *t;
  double worst = 0;
  tni_error_init(&err);
  if (tn_session_capture_report(s, &text, &err) != TN_OK) return tni_cf_fail(cf, "%s", err.message), true;
  json_t *j = json_loads(text, 0, NULL), *tasks = json_object_get(j, "tasks");
  tn_free(text);
  if (!j) return tni_cf_fail(cf, "no memory to read what the tasks gave"), true;
  json_array_foreach(tasks, i, t) {
    const double ratio = json_real_value(json_object_get(t, "worst_ratio"));
    const char *name = json_string_value(json_object_get(t, "task"));
    const json_int_t elements = json_integer_value(json_object_get(t, "elements")),
                     nodes = json_integer_value(json_object_get(t, "nodes"));
    if (nodes && !elements && !may_be_empty)
      tni_cf_fail(
          cf,
          "'%s' computes %lld nodes, and none of its results could be judged: what it writes has to be an OUTPUT "
          "slot, or a TEMP slot that names its value (plugin.h, tn_slot)",
          name, (long long)nodes);
    else if (!(ratio <= 1))
      tni_cf_fail(cf, "'%s' is %.4g times its bound off: at most %.4g where the largest is %.4g", name, ratio,
                  json_real_value(json_object_get(t, "max_diff")),
                  json_real_value(json_object_get(t, "max_reference")));
    else if (each)
      tni_cf_note(cf, "'%s': %.3g of its bound", name, ratio);
    if (ratio > worst) worst = ratio;
  }
  const size_t n = json_array_size(tasks);
  if (n && !each) tni_cf_note(cf, "%zu tasks, the worst at %.3g of its bound", n, worst);
  json_decref(j);
  return n > 0;
}

static tn_status open_runtime(const tni_cf_subject *s, const char *file, const char *model, tn_runtime **rt,
                              tn_error *err) {
  char folder[4096], calibration[4200] = "";
  if (model) snprintf(calibration, sizeof calibration, "%s/calibration.yaml", model);
  snprintf(folder, sizeof folder, "%s", s->path);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
  const char *const dirs[] = {folder};
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = file,
                             .plugin_dirs = dirs,
                             .n_plugin_dirs = 1,
                             .cache_dir = s->cache_dir,
                             .calibration = model && access(calibration, R_OK) == 0 ? calibration : NULL,
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  return tn_runtime_create(&o, rt, err);
}

/* The layer takes the place of the device under test, for the runtime and all that it makes. */
static void run_observed(tni_cf *cf, tn_runtime *rt, uint32_t refuse, void (*fn)(tni_cf *cf, tn_runtime *rt, void *arg),
                         void *arg) {
  tni_dev *dev = tni_cf_only_device(rt, cf->subject->name, cf->subject->device);
  tn_device *below = dev ? dev->device : NULL, *layer = below ? tni_cf_observe(below) : NULL;
  if (!dev && strcmp(cf->subject->path, "host") != 0) {
    tni_cf_fail(cf, "the runtime finds no device %u of it", cf->subject->device);
    return;
  }
  if (layer) tni_cf_observe_refuse(layer, refuse);
  if (layer) dev->device = layer;
  fn(cf, rt, arg);
  if (!layer) return;
  if (tni_cf_observed(layer)) tni_cf_fail(cf, "%s", tni_cf_observed(layer));
  char changed[256];
  if (tni_cf_call_changed(changed, sizeof changed)) tni_cf_fail(cf, "%s", changed);
  dev->device = below;
  tni_cf_observe_end(layer);
}

static void with_runtime(tni_cf *cf, uint32_t threads, uint32_t refuse, bool checked, const char *model,
                         void (*fn)(tni_cf *cf, tn_runtime *rt, void *arg), void *arg) {
  const bool phases = tni_cf_needs_phases(cf->listing);
  char file[] = "/tmp/tenon-conform-XXXXXX.yaml";
  const int fd = mkstemps(file, 5);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  tn_error err;
  tn_runtime *rt = NULL;
  tni_error_init(&err);
  if (f) write_model_profile(cf->subject, threads, phases, checked, f);
  if (!f || ferror(f) | fclose(f))
    tni_cf_fail(cf, "%s cannot be written", file);
  else if (open_runtime(cf->subject, file, model, &rt, &err) != TN_OK)
    tni_cf_fail(cf, "%s: %s", err.where, err.message);
  else
    run_observed(cf, rt, refuse, fn, arg);
  tn_runtime_destroy(rt);
  if (fd >= 0) unlink(file);
}

void tni_cf_with_runtime(tni_cf *cf, uint32_t threads, uint32_t refuse, const char *model,
                         void (*fn)(tni_cf *cf, tn_runtime *rt, void *arg), void *arg) {
  with_runtime(cf, threads, refuse, true, model, fn, arg);
}

void tni_cf_with_unchecked(tni_cf *cf, uint32_t threads, uint32_t refuse,
                           void (*fn)(tni_cf *cf, tn_runtime *rt, void *arg), void *arg) {
  with_runtime(cf, threads, refuse, false, NULL, fn, arg);
}

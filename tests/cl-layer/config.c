/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "layer.h"

static _Noreturn void bad(const char *word) {
  fprintf(stderr, "TENON_CL_LAYER: cannot use '%s'\n", word);
  exit(97);
}

static uint64_t number(const char *word, const char *value) {
  char *end;
  uint64_t n = strtoull(value, &end, 0);
  if (!*value || *end) bad(word);
  return n;
}

static void text(const char *word, const char *value, char *out, size_t n) {
  if (!*value || strlen(value) >= n) bad(word);
  strcpy(out, value);
}

static void which(const char *word, const char *value, layer_which *out) {
  if (*value >= '0' && *value <= '9')
    out->number = number(word, value);
  else
    text(word, value, out->name, sizeof out->name);
}

static void hide(const char *word, const char *value) {
  layer_settings *s = &L.set;
  text(word, value, s->hide + 1, sizeof s->hide - 2);
  s->hide[0] = ',';
  strcat(s->hide, ",");
  s->no_fp16 = strstr(s->hide, ",fp16,") != NULL;
  s->no_subgroups = strstr(s->hide, ",subgroups,") != NULL;
  s->no_images = strstr(s->hide, ",images,") != NULL;
  s->no_priority = strstr(s->hide, ",priority,") != NULL;
}

static void profile(const char *word, const char *value) {
  const layer_profile *p = layer_profiles;
  while (p->name && strcmp(p->name, value)) p++;
  if (!p->name) bad(word);
  L.set.as = *p;
}

static void flag(const char *word) {
  if (!strcmp(word, "discrete"))
    L.set.discrete = true;
  else if (!strcmp(word, "no_devices"))
    L.set.no_devices = true;
  else
    bad(word);
}

static void set(const char *word) {
  const char *value = strchr(word, '=');
  if (!value) {
    flag(word);
    return;
  }
  size_t n = (size_t)(value++ - word);
  const struct {
    const char *key;
    uint64_t *to;
  } numbers[] = {{"max_alloc", &L.set.as.max_alloc},
                 {"align", &L.set.as.align},
                 {"pitch", &L.set.as.pitch},
                 {"max_group", &L.set.as.max_group},
                 {"fail_alloc", &L.set.fail_alloc},
                 {"fail_alloc_from", &L.set.fail_alloc_from},
                 {"lose", &L.set.lose},
                 {"lose_event", &L.set.lose_event}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strlen(numbers[i].key) == n && !strncmp(word, numbers[i].key, n)) {
      *numbers[i].to = number(word, value);
      return;
    }
#define KEY(k) (sizeof(k) - 1 == n && !strncmp(word, k, n))
  if (KEY("as"))
    profile(word, value);
  else if (KEY("hide"))
    hide(word, value);
  else if (KEY("fail_build"))
    which(word, value, &L.set.fail_build);
  else if (KEY("crash_build"))
    which(word, value, &L.set.crash_build);
  else if (KEY("wrong"))
    text(word, value, L.set.wrong, sizeof L.set.wrong);
  else if (KEY("wrong_optimized"))
    text(word, value, L.set.wrong_optimized, sizeof L.set.wrong_optimized);
  else if (KEY("report"))
    text(word, value, L.set.report, sizeof L.set.report);
  else if (KEY("log"))
    text(word, value, L.set.log, sizeof L.set.log);
  else if (KEY("lost") && !strcmp(value, "late"))
    L.set.late = true;
  else if (KEY("callback") && !strcmp(value, "slow"))
    L.set.slow_callback = true;
  else if (KEY("callback") && !strcmp(value, "drop"))
    L.set.drop_callback = true;
  else
    bad(word);
#undef KEY
}

void layer_configure(const char *words) {
  char buf[2048], *save = NULL;
  if (strlen(words) >= sizeof buf) bad(words);
  strcpy(buf, words);
  for (char *w = strtok_r(buf, " ;\n", &save); w; w = strtok_r(NULL, " ;\n", &save)) set(w);
}

bool layer_is(const layer_which *w, uint64_t n, const char *t) {
  if (w->number) return w->number == n;
  return w->name[0] && t && strstr(t, w->name);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Family abi, the entry: structs of every size, hosts older and newer than the plugin, hosts that lack a service.
 * Structs end where a page ends that may not be touched: reading a field that does not exist is a fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/abi/parts.h"
#include "runtime/conform/drive/drive.h"

enum { FILL = 0xa5, FUTURE = 7, EXTRA = 256 };

/* A plugin's host, ready for entry; false: said so. */
static bool entry_ready(tni_cf *cf, tni_cf_plugin *p) {
  if (tni_cf_plugin_init(p, cf->subject) == TN_OK) return true;
  tni_cf_fail(cf, "%s: %s", p->step, p->err.message);
  tni_cf_plugin_finish(p);
  return false;
}

static void plugin_shut(tn_plugin *p) {
  if (p && p->shutdown) p->shutdown(p);
}

static const char *text_of(const tn_negotiate *n) { return n->message[0] ? n->message : "(no message)"; }

static uint16_t agreed_minor(const tn_negotiate *n, uint16_t host_max) {
  return n->plugin_max < host_max ? n->plugin_max : host_max;
}

static bool is_terminated(const char *s, size_t n) { return memchr(s, 0, n) != NULL; }

/* Names and versions may have 63 characters; tn_negotiate has room for the first 31. */
static bool is_start(const char room[static 32], const char *whole) { return !strncmp(room, whole, 31); }

/* --- negotiation ------------------------------------------------------------------------------------------------- */

static void entry_answers(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  tn_plugin *out = NULL;
  (void)arg;
  if (!entry_ready(cf, &p)) return;
  tn_negotiate n;
  memset(&n, 0xee, sizeof n);
  n.h = (tn_hdr)TN_HDR(tn_negotiate);
  n.host_min = 0;
  n.host_max = TN_ABI_MINOR;
  const tn_status st = p.entry(&p.host.pub, &n, &out);
  if (!is_terminated(n.name, sizeof n.name) || !is_terminated(n.version, sizeof n.version)) {
    tni_cf_fail(cf, "tn_negotiate: name or version is not filled");
  } else {
    if (!is_start(n.name, cf->subject->name))
      tni_cf_fail(cf, "it calls itself '%s', its file '%s'", n.name, cf->subject->name);
    if (out && out->version && !is_start(n.version, out->version))
      tni_cf_fail(cf, "tn_negotiate says version '%s', tn_plugin '%s'", n.version, out->version);
  }
  if (n.plugin_min > n.plugin_max) tni_cf_fail(cf, "its range is empty: %u to %u", n.plugin_min, n.plugin_max);
  if (n.h.size != sizeof n) tni_cf_fail(cf, "it changed the size of tn_negotiate, which is the host's");
  if (st != TN_OK) {
    tni_cf_fail(cf, "the entry failed (%s)", tni_status_name(st));
  } else if (!out) {
    tni_cf_fail(cf, "the entry said OK and gave no plugin");
  } else if (n.minor != agreed_minor(&n, TN_ABI_MINOR)) {
    tni_cf_fail(cf, "minor %u was agreed, not the smaller of host's %d and plugin's %u", n.minor, TN_ABI_MINOR,
                n.plugin_max);
  }
  plugin_shut(out);
  tni_cf_plugin_finish(&p);
}

/* A host that speaks only minors that the plugin does not: refused, and both ranges are there for the message. */
static void no_meeting(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  tn_plugin *out = (tn_plugin *)(void *)&p;
  (void)arg;
  if (!entry_ready(cf, &p)) return;
  tn_negotiate n;
  memset(&n, 0xee, sizeof n);
  n.h = (tn_hdr)TN_HDR(tn_negotiate);
  n.host_min = 60000;
  n.host_max = 60001;
  n.message[0] = '\0';
  const tn_status st = p.entry(&p.host.pub, &n, &out);
  if (st != TN_E_INCOMPATIBLE)
    tni_cf_fail(cf, "a host of ABI 1.60000 to 1.60001 got %s, not INCOMPATIBLE", st ? tni_status_name(st) : "OK");
  if (n.plugin_min == 0xeeee || n.plugin_max == 0xeeee)
    tni_cf_fail(cf, "the plugin's own range is not filled when it refuses");
  if (n.host_min != 60000 || n.host_max != 60001) tni_cf_fail(cf, "it changed the host's range");
  if (!is_terminated(n.name, sizeof n.name)) tni_cf_fail(cf, "its name is not filled when it refuses");
  if (st == TN_OK) {
    plugin_shut(out);
  } else if (out != (tn_plugin *)(void *)&p) {
    tni_cf_fail(cf, "it refused and wrote to *out all the same");
  }
  tni_cf_plugin_finish(&p);
}

/* --- structs of other sizes -------------------------------------------------------------------------------------- */

/* Entry with the first n bytes of the host's table, h.size saying so. Where it is taken, the plugin must also live on
 * it: enumerate, and shutdown. */
static tn_status enter_short(tni_cf *cf, const tni_cf_plugin *p, uint32_t n) {
  tni_cf_block b;
  tn_negotiate neg = {.h = TN_HDR(tn_negotiate), .host_max = TN_ABI_MINOR};
  tn_plugin *out = NULL;
  const tn_caps *caps[TNI_CF_MAX_DEVICES];
  tn_error e;
  uint32_t devices = 0;
  tni_error_init(&e);
  if (!tni_cf_block_make(&b, n < sizeof(tn_hdr) ? sizeof(tn_hdr) : n, 8, FILL, true)) return TN_E_NO_MEMORY;
  memcpy(b.p, &p->host.pub, b.bytes);
  memcpy(b.p, &(tn_hdr){.size = n, .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR}, sizeof(tn_hdr));
  const tn_status st = p->entry((const tn_host *)(const void *)b.p, &neg, &out);
  if (st == TN_OK && out) {
    (void)!out->enumerate(out, TNI_CF_MAX_DEVICES, caps, &devices, &e);
    plugin_shut(out);
  } else if (st == TN_OK) {
    tni_cf_fail(cf, "a host's table of %u bytes: OK, and no plugin", n);
  }
  tni_cf_block_finish(&b);
  return st;
}

static void short_host(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  uint32_t taken = 0;
  (void)arg;
  if (!entry_ready(cf, &p)) return;
  for (uint32_t n = 0; n < sizeof(tn_host); n += n < 8 ? 4 : 8) {
    const tn_status st = enter_short(cf, &p, n);
    taken += st == TN_OK;
    if (n == 0 && st == TN_OK) tni_cf_fail(cf, "a host's table of size 0 is taken; size 0 is always refused");
  }
  tni_cf_note(cf, "%u of %zu lengths are taken, the others refused", taken, sizeof(tn_host) / 8);
  tni_cf_plugin_finish(&p);
}

/* tn_negotiate is the host's: nothing is written after its size. */
static void short_negotiate(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  (void)arg;
  if (!entry_ready(cf, &p)) return;
  for (uint32_t n = 0; n < sizeof(tn_negotiate); n += 4) {
    tni_cf_block b;
    tn_plugin *out = NULL;
    if (!tni_cf_block_make(&b, n < sizeof(tn_hdr) ? sizeof(tn_hdr) : n, 8, FILL, false)) break;
    tn_negotiate full = {.h = {.size = n, .major = TN_ABI_MAJOR, .minor = TN_ABI_MINOR}, .host_max = TN_ABI_MINOR};
    memcpy(b.p, &full, b.bytes);
    const tn_status st = p.entry(&p.host.pub, (tn_negotiate *)(void *)b.p, &out);
    if (n == 0 && st == TN_OK) tni_cf_fail(cf, "a tn_negotiate of size 0 is taken; size 0 is always refused");
    if (!tni_cf_block_holds(&b)) tni_cf_fail(cf, "with a tn_negotiate of %u bytes it writes after them", n);
    if (st == TN_OK) plugin_shut(out);
    tni_cf_block_finish(&b);
  }
  tni_cf_plugin_finish(&p);
}

/* --- hosts of other versions ------------------------------------------------------------------------------------- */

typedef struct wide_host {
  tn_host h;
  uint8_t more[EXTRA]; /* fields of a later minor: what a plugin of today must not touch */
} wide_host;

/* Opens with a table of the caller's and works: one graph of each kind that it claims. */
static void live_with(tni_cf *cf, tni_cf_plugin *p, const tn_host *host, uint16_t max) {
  struct {
    tn_negotiate n;
    uint8_t more[64];
  } wide = {.n = {.h = TN_HDR(tn_negotiate), .host_min = 0, .host_max = max}};
  memset(wide.more, FILL, sizeof wide.more);
  if (max > TN_ABI_MINOR) wide.n.h = (tn_hdr){sizeof wide, TN_ABI_MAJOR, max};
  const tn_hdr head = wide.n.h;
  tn_plugin *out = NULL;
  const tn_status st = p->entry(host, &wide.n, &out);
  const tn_negotiate n = wide.n;
  const uint16_t agreed = agreed_minor(&n, max);
  bool kept = memcmp(&head, &n.h, sizeof head) == 0;
  for (size_t i = 0; i < sizeof wide.more; i++) kept = kept && wide.more[i] == FILL;
  if (!kept) tni_cf_fail(cf, "the entry changes the header of tn_negotiate, or writes after the fields that it knows");
  if (st != TN_OK || !out) {
    if (n.plugin_min <= max) tni_cf_fail(cf, "a host of ABI 1.0 to 1.%u is refused: %s", max, text_of(&n));
    return;
  }
  if (n.minor != agreed)
    tni_cf_fail(cf, "minor %u was agreed with a host of 1.0 to 1.%u, not %u", n.minor, max, agreed);
  p->plugin = out;
  tn_status rest = tni_cf_plugin_check(p, cf->subject);
  if (rest == TN_OK) rest = tni_cf_plugin_enumerate(p);
  if (rest == TN_OK && p->n_caps > cf->subject->device) rest = tni_cf_plugin_open(p, cf->subject->device);
  if (rest != TN_OK) tni_cf_fail(cf, "with a host of 1.0 to 1.%u: %s: %s", max, p->step, p->err.message);
}

static void future_host(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  wide_host *w = malloc(sizeof *w);
  (void)arg;
  if (!w || !entry_ready(cf, &p)) {
    free(w);
    return;
  }
  memset(w, 0xff, sizeof *w);
  w->h = p.host.pub;
  w->h.h = (tn_hdr){.size = sizeof *w, .major = TN_ABI_MAJOR, .minor = FUTURE};
  live_with(cf, &p, &w->h, FUTURE);
  tni_cf_plugin_finish(&p);
  free(w);
}

static void old_host(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  (void)arg;
  if (!entry_ready(cf, &p)) return;
  p.host.pub.h.minor = 0;
  live_with(cf, &p, &p.host.pub, 0);
  tni_cf_plugin_finish(&p);
}

/* --- services that are not there --------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  size_t at;
} services[] = {
#define S(f) \
  { #f, offsetof(tn_host, f) }
    S(alloc),    S(free),      S(log),           S(now),     S(name_id),   S(span),    S(option),
    S(resource), S(cache_get), S(cache_put),     S(eval),    S(range),     S(divides), S(order),
    S(offsets),  S(done),      S(get_extension), S(symbols), S(cancelled),
#undef S
};

/* A function of the table that is NULL is not there: the entry may refuse such a host, with a message, or do without.
 */
static void entry_without(tni_cf *cf, const void *arg) {
  (void)arg;
  uint32_t refused = 0;
  for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
    tni_cf_plugin p;
    tn_plugin *out = NULL;
    tn_negotiate n = {.h = TN_HDR(tn_negotiate), .host_max = TN_ABI_MINOR};
    if (!entry_ready(cf, &p)) return;
    memset((char *)&p.host.pub + services[i].at, 0, sizeof(void (*)(void)));
    fprintf(stderr, "host without %s\n", services[i].name); /* the last line before a crash names it */
    const tn_status st = p.entry(&p.host.pub, &n, &out);
    if (st != TN_OK) {
      refused++;
      if (!n.message[0]) tni_cf_fail(cf, "a host without %s is refused without a message", services[i].name);
    } else if (!out) {
      tni_cf_fail(cf, "a host without %s: OK, and no plugin", services[i].name);
    } else {
      p.plugin = out;
      if (tni_cf_plugin_check(&p, cf->subject) == TN_OK && tni_cf_plugin_enumerate(&p) == TN_OK &&
          p.n_caps > cf->subject->device)
        (void)!tni_cf_plugin_open(&p, cf->subject->device);
    }
    tni_cf_plugin_finish(&p);
  }
  tni_cf_note(cf, "%u of %zu services are asked for", refused, sizeof services / sizeof *services);
}

/* --- options ----------------------------------------------------------------------------------------------------- */

/* Opens with one option set. What it says of it is its own: only that it lives, and gives its memory back. */
static void open_with(tni_cf *cf, const char *option) {
  const tni_cf_subject *s = cf->subject;
  const char **all = TNI_NEW_ARRAY(cf->arena, const char *, s->n_options + 1);
  tni_cf_subject other = *s;
  tni_cf_plugin p;
  if (!all || !entry_ready(cf, &p)) return;
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_options; i++)
    if (strncmp(s->options[i], option, strcspn(option, "=") + 1)) all[n++] = s->options[i];
  all[n++] = option;
  other.options = all;
  other.n_options = n;
  fprintf(stderr, "option %s\n", option);
  tn_status st = tni_cf_plugin_enter(&p);
  if (st == TN_OK) st = tni_cf_plugin_check(&p, &other);
  if (st == TN_OK) st = tni_cf_plugin_enumerate(&p);
  if (st == TN_OK && p.n_caps > s->device) st = tni_cf_plugin_open(&p, s->device);
  if (st != TN_OK && !p.err.message[0]) tni_cf_fail(cf, "%s: %s failed without a message", option, p.step);
  if (st != TN_OK) tni_cf_note(cf, "%s: %s", option, p.err.message);
  const tn_status last = st;
  if (p.device) p.plugin->close(p.device);
  if (p.plugin) p.plugin->shutdown(p.plugin);
  p.device = NULL;
  p.plugin = NULL;
  if (atomic_load(&p.host.live))
    tni_cf_fail(cf, "%s: %lld blocks are left after %s", option, atomic_load(&p.host.live),
                last == TN_OK ? "shutdown" : "it was refused and shut down");
  tni_cf_plugin_finish(&p);
}

static void try_choices(tni_cf *cf, const tn_option *o) {
  char text[256];
  for (const char *at = o->choices; *at;) {
    const size_t n = strcspn(at, "|");
    snprintf(text, sizeof text, "%s=%.*s", o->key, (int)n, at);
    open_with(cf, text);
    at += n + (at[n] == '|');
  }
}

/* Every value at the ends of what it declares. */
static void option_values(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  char text[256];
  (void)arg;
  if (!entry_ready(cf, &p)) return;
  if (tni_cf_plugin_enter(&p) != TN_OK) {
    tni_cf_fail(cf, "%s: %s", p.step, p.err.message);
    tni_cf_plugin_finish(&p);
    return;
  }
  for (uint32_t i = 0; i < p.plugin->n_options; i++) {
    const tn_option *o = p.plugin->options[i];
    if (!o->help || !o->help[0]) tni_cf_fail(cf, "option '%s' has no help text", o->key);
    if (o->choices && o->choices[0]) {
      try_choices(cf, o);
    } else if (o->type == TN_OPT_BOOL) {
      snprintf(text, sizeof text, "%s=true", o->key);
      open_with(cf, text);
      snprintf(text, sizeof text, "%s=false", o->key);
      open_with(cf, text);
    } else if (o->type != TN_OPT_STRING && o->lo < o->hi) {
      snprintf(text, sizeof text, o->type == TN_OPT_INT ? "%s=%.0f" : "%s=%g", o->key, o->lo);
      open_with(cf, text);
      snprintf(text, sizeof text, o->type == TN_OPT_INT ? "%s=%.0f" : "%s=%g", o->key, o->hi);
      open_with(cf, text);
    } else if (o->type == TN_OPT_STRING) {
      snprintf(text, sizeof text, "%s=no such thing", o->key);
      open_with(cf, text);
    }
  }
  tni_cf_plugin_finish(&p);
}

/* Defaults lie inside their own limits, keys stand once: what tni_options_resolve asks of the table. */
static void option_table(tni_cf *cf, const void *arg) {
  tni_cf_plugin p;
  (void)arg;
  tni_cf_subject plain = *cf->subject;
  plain.n_options = 0;
  if (!entry_ready(cf, &p)) return;
  tn_status st = tni_cf_plugin_enter(&p);
  if (st == TN_OK) st = tni_cf_plugin_check(&p, &plain);
  if (st != TN_OK) tni_cf_fail(cf, "%s: %s", p.step, p.err.message);
  if (st == TN_OK) tni_cf_note(cf, "%u options", p.plugin->n_options);
  tni_cf_plugin_finish(&p);
}

void tni_cf_abi_entry_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"abi/entry/answers", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, entry_answers, NULL, 0},
      {"abi/entry/no-meeting", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, no_meeting, NULL, 0},
      {"abi/entry/short-host", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, short_host, NULL, 0},
      {"abi/entry/short-negotiate", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, short_negotiate, NULL, 0},
      {"abi/entry/old-host", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, old_host, NULL, 0},
      {"abi/entry/future-host", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, future_host, NULL, 0},
      {"abi/entry/services-missing", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, entry_without, NULL, 0},
      {"abi/options/table", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, option_table, NULL, 0},
      {"abi/options/values", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, option_values, NULL, 60000},
  };
  (void)l;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/check.h"

#include <stdio.h>
#include <string.h>

static tn_status check_hdr(const void *p, size_t need, const char *what, tn_error *err) {
  if (!p) return tni_fail(err, TN_E_INTERNAL, what, "%s is NULL", what);
  if ((uintptr_t)p % _Alignof(tn_hdr)) return tni_fail(err, TN_E_INTERNAL, what, "%s is a misaligned pointer", what);
  tn_hdr h;
  memcpy(&h, p, sizeof h);
  if (h.size == 0) return tni_fail(err, TN_E_INCOMPATIBLE, what, "%s has size 0 in its header", what);
  if (h.size > TNI_MAX_STRUCT)
    return tni_fail(err, TN_E_INCOMPATIBLE, what, "%s has an absurd size of %u bytes in its header", what, h.size);
  if (h.size < need)
    return tni_fail(err, TN_E_INCOMPATIBLE, what, "%s has %u bytes, ABI %d.0 needs %zu", what, h.size, TN_ABI_MAJOR,
                    need);
  if (h.major != TN_ABI_MAJOR)
    return tni_fail(err, TN_E_INCOMPATIBLE, what, "%s is of ABI %u.%u, this host has %d.%d to %d.%d", what, h.major,
                    h.minor, TN_ABI_MAJOR, 0, TN_ABI_MAJOR, TN_ABI_MINOR);
  return TN_OK;
}

typedef struct fn_field {
  const char *name;
  bool there;
} fn_field;

static tn_status check_functions(const char *what, const fn_field *f, size_t n, tn_error *err) {
  for (size_t i = 0; i < n; i++)
    if (!f[i].there) return tni_fail(err, TN_E_INTERNAL, what, "%s->%s is NULL", what, f[i].name);
  return TN_OK;
}

#define FN(p, f) \
  { #f, (p)->f != NULL }
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A name that goes into messages, files and keys. what: whose it is. */
static tn_status check_name(const char *s, size_t max, const char *what, tn_error *err) {
  size_t n = s ? strnlen(s, max + 1) : 0;
  if (!n) return tni_fail(err, TN_E_INTERNAL, what, "%s is missing", what);
  if (n > max) return tni_fail(err, TN_E_INTERNAL, what, "%s has more than %zu characters", what, max);
  if (strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n) return TN_OK;
  return tni_fail(err, TN_E_INTERNAL, what, "%s is '%s': a name is of A-Z, a-z, 0-9, '.', '_' and '-'", what, s);
}

static tn_status check_format(const tn_format *f, tn_error *err) {
  tn_status st = check_hdr(f, TN_UPTO(tn_format, unpack), "tn_format", err);
  if (st != TN_OK) return st;
  if ((st = check_name(f->name, 63, "tn_format->name", err))) return st;
  const fn_field fn[] = {FN(f, numerics), FN(f, size), FN(f, begin), FN(f, rows), FN(f, end), FN(f, unpack)};
  st = check_functions("tn_format", fn, COUNT(fn), err);
  if (st == TN_OK) st = check_hdr(f->numerics, TN_UPTO(tn_numerics, act_scale), "tn_format->numerics", err);
  if (st != TN_OK) tni_error_prefix(err, "format '%s'", f->name);
  return st;
}

static tn_status check_option(const tn_option *o, tn_error *err) {
  tn_status st = check_hdr(o, TN_UPTO(tn_option, choices), "tn_option", err);
  if (st != TN_OK) return st;
  if ((st = check_name(o->key, 63, "tn_option->key", err))) return st;
  if (o->type < TN_OPT_BOOL || o->type > TN_OPT_STRING)
    return tni_fail(err, TN_E_INTERNAL, "tn_option", "option '%s' has unknown type %u", o->key, o->type);
  return TN_OK;
}

static tn_status check_custom(const tn_custom_op *o, tn_error *err) {
  tn_status st = check_hdr(o, TN_UPTO(tn_custom_op, shape), "tn_custom_op", err);
  if (st != TN_OK) return st;
  st = check_name(o->domain, 127, "tn_custom_op->domain", err);
  if (st == TN_OK) st = check_name(o->type, 127, "tn_custom_op->type", err);
  if (st != TN_OK) return st;
  if (strncmp(o->domain, "ai.onnx", 7) == 0 || strcmp(o->domain, "tenon") == 0 ||
      strcmp(o->domain, "ai.tenon") == 0)
    return tni_fail(err, TN_E_INTERNAL, "tn_custom_op", "operator '%s' is of the domain '%s', which is not a vendor's",
                    o->type, o->domain);
  if (!o->shape || strnlen(o->shape, 1024) > 1023)
    return tni_fail(err, TN_E_INTERNAL, "tn_custom_op", "operator '%s.%s' has no shape rule, or one without end",
                    o->domain, o->type);
  return TN_OK;
}

static tn_status check_customs(const tn_plugin *p, tn_error *err) {
  if (!TN_HAS(p, tn_plugin, n_ops) || !p->n_ops) return TN_OK;
  if (p->n_ops > TNI_MAX_CUSTOM_OPS || !p->ops)
    return tni_fail(err, TN_E_INTERNAL, "tn_plugin", "tn_plugin->ops: %u entries at %p", p->n_ops,
                    (const void *)p->ops);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < p->n_ops; i++) st = check_custom(p->ops[i], err);
  return st;
}

static tn_status check_tables(const tn_plugin *p, tn_error *err) {
  if (p->n_options > TNI_MAX_PLUGIN_OPTIONS || (p->n_options && !p->options))
    return tni_fail(err, TN_E_INTERNAL, "tn_plugin", "tn_plugin->options: %u entries at %p", p->n_options,
                    (const void *)p->options);
  if (p->n_formats > TNI_MAX_FORMATS || (p->n_formats && !p->formats))
    return tni_fail(err, TN_E_INTERNAL, "tn_plugin", "tn_plugin->formats: %u entries at %p", p->n_formats,
                    (const void *)p->formats);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < p->n_options; i++) {
    st = check_option(p->options[i], err);
    for (uint32_t j = 0; st == TN_OK && j < i; j++)
      if (strcmp(p->options[i]->key, p->options[j]->key) == 0)
        st = tni_fail(err, TN_E_INTERNAL, "tn_plugin", "option '%s' is declared twice", p->options[i]->key);
  }
  for (uint32_t i = 0; st == TN_OK && i < p->n_formats; i++) st = check_format(p->formats[i], err);
  return st == TN_OK ? check_customs(p, err) : st;
}

tn_status tni_check_plugin(const char *name, const tn_plugin *p, tn_error *err) {
  tn_status st = check_hdr(p, TN_UPTO(tn_plugin, reserved), "tn_plugin", err);
  if (st != TN_OK) return st;
  const fn_field fn[] = {FN(p, name), FN(p, version), FN(p, enumerate), FN(p, open), FN(p, close), FN(p, shutdown)};
  st = check_functions("tn_plugin", fn, COUNT(fn), err);
  if (st == TN_OK) st = check_name(p->version, 63, "tn_plugin->version", err);
  if (st == TN_OK && (strnlen(p->name, 64) > 63 || strcmp(p->name, name) != 0))
    st = tni_fail(err, TN_E_INCOMPATIBLE, "tn_plugin", "the plugin calls itself '%.63s', its file '%s'", p->name, name);
  return st == TN_OK ? check_tables(p, err) : st;
}

static bool is_power(uint64_t v) { return (v & (v - 1)) == 0; }

tn_status tni_check_caps(const tn_caps *c, tn_error *err) {
  tn_status st = check_hdr(c, TN_UPTO(tn_caps, window_bytes), "tn_caps", err);
  if (st != TN_OK) return st;
  if (!c->name || !*c->name || strnlen(c->name, 128) > 127)
    return tni_fail(err, TN_E_INTERNAL, "tn_caps", "tn_caps->name is missing or too long");
  if (c->n_engines > 31 || (c->n_engines && !c->engines)) /* slots name engines by bits of 32, bit 0 is the CPU */
    return tni_fail(err, TN_E_INTERNAL, "tn_caps", "tn_caps->engines: %u entries at %p (at most 31)", c->n_engines,
                    (const void *)c->engines);
  for (uint32_t i = 0; st == TN_OK && i < c->n_engines; i++) {
    st = check_hdr(c->engines[i], TN_UPTO(tn_engine, depth), "tn_engine", err);
    if (st == TN_OK && (st = check_name(c->engines[i]->name, 31, "tn_engine->name", err)))
      tni_error_prefix(err, "engine %u", i + 1);
  }
  if (st == TN_OK && c->clock) st = check_hdr(c->clock, TN_UPTO(tn_clock, cpu_ns_per_byte), "tn_clock", err);
  if (st == TN_OK && (!is_power(c->align) || !is_power(c->sub_align) || !is_power(c->import_align)))
    st = tni_fail(err, TN_E_INTERNAL, "tn_caps", "an alignment is no power of two (align %u, sub %u, import %u)",
                  c->align, c->sub_align, c->import_align);
  return st;
}

tn_status tni_check_device(const tn_device *d, tn_error *err) {
  tn_status st = check_hdr(d, TN_UPTO(tn_device, unmap), "tn_device", err);
  if (st == TN_OK) st = tni_check_caps(d->caps, err);
  if (st != TN_OK) return st;
  const fn_field fn[] = {FN(d, claim), FN(d, lower),  FN(d, info), FN(d, measure),  FN(d, set),       FN(d, release),
                         FN(d, bind),  FN(d, unbind), FN(d, args), FN(d, args_set), FN(d, args_free), FN(d, run)};
  st = check_functions("tn_device", fn, COUNT(fn), err);
  const fn_field buffers[] = {FN(d, create), FN(d, destroy), FN(d, map), FN(d, unmap)};
  bool any = d->create || d->destroy || d->map || d->unmap;
  if (st == TN_OK && any) st = check_functions("tn_device", buffers, COUNT(buffers), err);
  const fn_field engine[] = {FN(d, submit)}, exports[] = {FN(d, share)};
  if (st == TN_OK && d->caps->n_engines) st = check_functions("tn_device", engine, COUNT(engine), err);
  if (st == TN_OK && d->caps->export_kinds) st = check_functions("tn_device", exports, COUNT(exports), err);
  return st;
}
#undef FN
#undef COUNT

static void copy_text(char *dst, const char *src, size_t n) {
  size_t m = strnlen(src, n - 1);
  for (size_t i = 0; i < m; i++) dst[i] = (unsigned char)src[i] < 0x20 || src[i] == 0x7f ? '?' : src[i];
  dst[m] = '\0';
}

void tni_error_copy(tn_error *dst, const tn_error *src) {
  tni_error_init(dst);
  dst->code = src->code;
  dst->vendor_code = src->vendor_code;
  dst->node = src->node;
  dst->task = src->task;
  copy_text(dst->message, src->message, sizeof dst->message);
  copy_text(dst->where, src->where, sizeof dst->where);
}

tn_status tni_plugin_result(const char *plugin, const char *call, tn_status raw, const tn_error *from, tn_error *err) {
  if (raw == TN_OK) return TN_OK;
  tn_error e;
  tni_error_init(&e);
  if (from) tni_error_copy(&e, from);
  bool known = raw > TN_OK && raw <= TN_E_LIMIT;
  tn_status st = known ? raw : TN_E_INTERNAL;
  const char *sep = e.message[0] ? ": " : "";
  if (known)
    tni_fail(err, st, e.where, "plugin '%s': %s failed (%s)%s%s", plugin, call, tni_status_name(st), sep, e.message);
  else
    tni_fail(err, st, e.where, "plugin '%s': %s returned the unknown status %d%s%s", plugin, call, raw, sep, e.message);
  if (err) {
    err->vendor_code = known ? e.vendor_code : raw;
    err->node = e.node;
    err->task = e.task;
  }
  return st;
}

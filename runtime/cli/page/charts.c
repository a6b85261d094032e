/* SPDX-License-Identifier: Apache-2.0
 *
 * Points in a picture: KL divergence upwards, on a scale of powers of ten.
 */
#include <math.h>

#include "runtime/cli/page/html.h"

enum { MOST = 64, WIDTH = 480, HEIGHT = 340, LEFT = 52, RIGHT = 16, TOP = 14, BOTTOM = 42, LETTER = 7, LINE = 13 };

typedef struct point {
  const char *name, *group;
  double x, kl, at_x, at_y;
} point;

typedef struct box {
  double x0, y0, x1, y1;
} box;

typedef struct chart {
  point p[MOST];
  size_t n;
  double x0, x1, low, high; /* low and high: powers of ten */
  box taken[2 * MOST];
  size_t n_taken;
} chart;

static bool overlaps(const box *a, const box *b) {
  return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1;
}

static bool is_free(const chart *c, const box *b) {
  if (b->x0 < LEFT || b->x1 > WIDTH || b->y0 < 0 || b->y1 > HEIGHT - BOTTOM) return false;
  for (size_t i = 0; i < c->n_taken; i++)
    if (overlaps(&c->taken[i], b)) return false;
  return true;
}

/* A name beside its point where nothing else is: right, left, above, below; nowhere: it has a title alone. */
static void put_name(chart *c, const point *p, FILE *f) {
  const double w = LETTER * (double)strlen(p->name);
  const double way[][2] = {{8, 4}, {-8 - w, 4}, {-w / 2, -9}, {-w / 2, 18}, {8, -7}, {8, 15}, {-8 - w, -7}, {-8 - w, 15}};
  for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
    const double x = p->at_x + way[i][0], y = p->at_y + way[i][1];
    const box b = {x, y - LINE + 3, x + w, y + 3};
    if (!is_free(c, &b)) continue;
    c->taken[c->n_taken++] = b;
    fprintf(f, "<text class=name x=\"%.0f\" y=\"%.0f\">", x, y);
    tni_put_markup(p->name, f);
    fputs("</text>", f);
    return;
  }
}

static void scale(chart *c) {
  double low = INFINITY, high = 0;
  c->x0 = INFINITY;
  c->x1 = 0;
  for (size_t i = 0; i < c->n; i++) {
    c->x0 = fmin(c->x0, c->p[i].x);
    c->x1 = fmax(c->x1, c->p[i].x);
    low = fmin(low, c->p[i].kl);
    high = fmax(high, c->p[i].kl);
  }
  const double pad = c->x1 > c->x0 ? (c->x1 - c->x0) * .06 : 1;
  c->x0 = fmax(0, c->x0 - pad);
  c->x1 += pad;
  c->low = floor(log10(low));
  c->high = ceil(log10(high));
  if (c->high <= c->low) c->high = c->low + 1;
}

static double at_y(const chart *c, double kl) {
  return TOP + (c->high - log10(kl)) / (c->high - c->low) * (HEIGHT - TOP - BOTTOM);
}

static double at_x(const chart *c, double x) { return LEFT + (x - c->x0) / (c->x1 - c->x0) * (WIDTH - LEFT - RIGHT); }

static void draw_axes(const chart *c, const char *what, FILE *f) {
  for (double p = c->low; p <= c->high; p++) {
    const double y = at_y(c, pow(10, p));
    fprintf(f,
            "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"var(--line)\"/><text x=\"%d\" y=\"%.1f\" "
            "text-anchor=end>%g</text>",
            LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, pow(10, p));
  }
  const double raw = (c->x1 - c->x0) / 5, ten = pow(10, floor(log10(raw)));
  const double step = raw / ten > 5 ? 10 * ten : raw / ten > 2 ? 5 * ten : raw / ten > 1 ? 2 * ten : ten;
  for (double x = ceil(c->x0 / step) * step; x <= c->x1; x += step)
    fprintf(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=middle>%g</text>", at_x(c, x), HEIGHT - BOTTOM + 17, x);
  fprintf(f, "<text x=\"%d\" y=\"%d\" text-anchor=middle>%s</text>", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, what);
}

static void draw(chart *c, const char *title, const char *what, FILE *f) {
  fprintf(f, "<figure style=\"margin:0\"><h3>%s</h3>", title);
  if (!c->n) {
    fputs("<p>Nothing to draw: no KL divergence was measured.</p></figure>", f);
    return;
  }
  scale(c);
  fprintf(f, "<svg viewBox=\"0 0 %d %d\" role=img aria-label=\"%s\">", WIDTH, HEIGHT, title);
  draw_axes(c, what, f);
  for (size_t i = 0; i < c->n; i++) {
    point *p = &c->p[i];
    p->at_x = at_x(c, p->x);
    p->at_y = at_y(c, p->kl);
    c->taken[c->n_taken++] = (box){p->at_x - 5, p->at_y - 5, p->at_x + 5, p->at_y + 5};
    fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=4.5 fill=\"var(--%s)\"><title>", p->at_x, p->at_y, p->group);
    tni_put_markup(p->name, f);
    fprintf(f, ": KL %.4f, %.4g</title></circle>", p->kl, p->x);
  }
  for (size_t i = 0; i < c->n; i++) put_name(c, &c->p[i], f);
  fputs("</svg></figure>", f);
}

static void collect(const json_t *rows, bool speed, chart *c) {
  size_t i;
  json_t *row;
  *c = (chart){0};
  json_array_foreach(rows, i, row) {
    const point p = {.name = page_string(row, json_object_get(row, "bits") ? "label" : "weights"),
                     .group = page_string(row, "group"),
                     .x = speed ? page_rate(row, "tg") : page_bits(row),
                     .kl = page_number(row, "eval.kl_divergence")};
    if (!(p.kl > 1e-5) || !(p.x > 0) || c->n == MOST) continue;
    c->p[c->n] = p;
    if (!*p.name) c->p[c->n].name = page_string(row, "label");
    c->n++;
  }
}

void page_charts(const json_t *rows, FILE *f) {
  chart c;
  fputs(
      "<section id=charts><h2>What bits and speed cost</h2><p>Lower is closer to the model in f32.</p><div class=key>"
      "<span><i style=\"background:var(--rounded)\"></i>rounded</span><span><i "
      "style=\"background:var(--calibrated)\"></i>calibrated</span><span><i style=\"background:var(--floats)\"></i>floats, "
      "caches of fewer bits</span></div><div class=charts>",
      f);
  collect(rows, false, &c);
  draw(&c, "KL divergence over bits", "bits a weight", f);
  collect(rows, true, &c);
  draw(&c, "KL divergence over decode speed", "tokens a second", f);
  fputs("</div></section>\n", f);
}

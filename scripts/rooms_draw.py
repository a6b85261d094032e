# SPDX-License-Identifier: Apache-2.0
"""Draws the rooms: boxes on their floors, arrows to the rooms whose doors they include, transitively reduced.

Layers are floors; an arrow over several floors gets a point on each, which all arrows to the same room share: their lines
run together. Points are ordered by the mean of their neighbours (Sugiyama) and placed by isotonic regression. The same tree
gives the same bytes."""
import collections
import html

WIDTH, MARGIN, LABEL = 1000, 10, 26
BOX, PITCH, HEAD = 24, 58, 34      # height of a box, from floor to floor, above a group
TEXT, CHAR, PAD = 12, 7.0, 7       # size of the text, a letter's width, left and right of it
GAP, THIN = 12, 7                  # between boxes, beside a point of an arrow
PALETTE = ("#3a6ea5", "#8a4f9e", "#a8582e", "#3f7d46", "#96702a", "#a2405c", "#2f7f85")
PLAIN = "#56616e"
GREY = "#808080"                   # readable on white and on black

HEADINGS = (
    ("runtime: arrows to doors on lower floors, in the colour of the room they lead to; dashed: through public headers",
     "runtime/"),
    ("plugins: they reach the runtime through <tenon/plugin.h> alone", "plugins/"),
)


def downward(table, tree):
    """room -> room -> True where a door is included, False where only a public header is whose functions it holds."""
    out = collections.defaultdict(dict)
    for path, includes in tree.includes.items():
        room = table.of(path)
        for _, to in includes:
            other = table.of(to)
            public = other is None
            if public:
                other = table.rooms.get(table.public.get(to))
            if room and other and other.floor < room.floor:
                out[room.path][other.path] = out[room.path].get(other.path, False) or not public
    return out


def reach(after, node):
    seen, todo = set(), [node]
    while todo:
        for nxt in after.get(todo.pop(), ()):
            if nxt not in seen:
                seen.add(nxt)
                todo.append(nxt)
    return seen


def reduced(after):
    """The edges that no longer way replaces."""
    out = []
    for a in sorted(after):
        for b in sorted(after[a]):
            if not any(b in reach(after, c) for c in after[a] if c != b):
                out.append((a, b, after[a][b]))
    return out


class Layers:
    """Rooms and points of arrows, floor by floor. A node is a room's path or the point (to, solid, row)."""

    def __init__(self, rooms, edges, names):
        self.floors = sorted({r.floor for r in rooms}, reverse=True)
        self.row = {f: i for i, f in enumerate(self.floors)}
        self.names = names
        self.order = [[r.path for r in rooms if r.floor == f] for f in self.floors]
        self.up, self.down = collections.defaultdict(list), collections.defaultdict(list)
        at = {r.path: self.row[r.floor] for r in rooms}
        self.lines = []  # (upper node, lower node, target, solid), each once
        for a, b, solid in edges:
            points = [(b, solid, i) for i in range(at[a] + 1, at[b])]
            for i, node in enumerate(points, at[a] + 1):
                if node not in self.order[i]:
                    self.order[i].append(node)
            way = [a, *points, b]
            for upper, lower in zip(way, way[1:]):
                if lower not in self.down[upper]:
                    self.down[upper].append(lower)
                    self.up[lower].append(upper)
                    self.lines.append((upper, lower, b, solid))
        self._sort()
        self._place()
        self.row_of = {n: i for i, row in enumerate(self.order) for n in row}

    def width(self, node):
        return len(self.names[node]) * CHAR + 2 * PAD if isinstance(node, str) else 0

    def _crossings(self):
        total = 0
        for upper, lower in zip(self.order, self.order[1:]):
            at = {n: i for i, n in enumerate(lower)}
            ends = [e for n in upper for e in sorted(at[t] for t in self.down[n])]
            total += sum(ends[i] > ends[j] for i in range(len(ends)) for j in range(i + 1, len(ends)))
        return total

    def _sweep(self, rows, beside, neighbours):
        for i in rows:
            at = {n: k for k, n in enumerate(self.order[i + beside])}
            size = max(1, len(self.order[i]))

            def key(item):
                k, node = item
                ends = [at[t] / max(1, len(at)) for t in neighbours[node]]
                return (sum(ends) / len(ends) if ends else k / size, k)

            self.order[i] = [n for _, n in sorted(enumerate(self.order[i]), key=key)]

    def _sort(self):
        best, kept = self._crossings(), [list(r) for r in self.order]
        for _ in range(40):
            self._sweep(range(1, len(self.order)), -1, self.up)
            self._sweep(range(len(self.order) - 2, -1, -1), 1, self.down)
            self._swap()
            now = self._crossings()
            if now < best:
                best, kept = now, [list(r) for r in self.order]
        self.order = kept

    def _swap(self):
        """Neighbours change places where that takes crossings away."""
        for i, row in enumerate(self.order):
            over = {n: k for k, n in enumerate(self.order[i - 1])} if i else {}
            under = {n: k for k, n in enumerate(self.order[i + 1])} if i + 1 < len(self.order) else {}
            for k in range(len(row) - 1):
                a, b = row[k], row[k + 1]
                now = then = 0
                for at, near in ((over, self.up), (under, self.down)):
                    for s in near[a]:
                        for t in near[b]:
                            now += at[s] > at[t]
                            then += at[t] > at[s]
                if then < now:
                    row[k], row[k + 1] = b, a

    def _apart(self, a, b):
        """The least distance between the middles of neighbours."""
        both = isinstance(a, str) and isinstance(b, str)
        return (self.width(a) + self.width(b)) / 2 + (GAP if both else THIN)

    def _place(self):
        self.x = {}
        for row in self.order:
            at = 0
            for k, node in enumerate(row):
                at += self._apart(row[k - 1], node) if k else 0
                self.x[node] = at
            shift = (MARGIN + LABEL + WIDTH - MARGIN) / 2 - (self.x[row[0]] + self.x[row[-1]]) / 2
            for node in row:
                self.x[node] += shift
        for turn in range(30):
            rows = self.order if turn % 2 == 0 else self.order[::-1]
            for row in rows:
                self._settle(row)

    def _settle(self, row):
        """Least squares to the neighbours' mean, in order, apart, inside the picture (pool adjacent violators)."""
        offset, at = [], 0
        for k, node in enumerate(row):
            at += self._apart(row[k - 1], node) if k else 0
            offset.append(at)
        pools = []
        for node, off in zip(row, offset):
            ends = [self.x[t] for t in self.up[node] + self.down[node]] or [self.x[node]]
            weight = 4 if not isinstance(node, str) else 1
            pools.append([sum(ends) / len(ends) - off, weight, 1])
            while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
                value, w, n = pools.pop()
                p = pools[-1]
                p[0], p[1], p[2] = (p[0] * p[1] + value * w) / (p[1] + w), p[1] + w, p[2] + n
        low = MARGIN + LABEL + self.width(row[0]) / 2
        high = WIDTH - MARGIN - self.width(row[-1]) / 2 - offset[-1]
        values = [v for v, _, n in pools for _ in range(n)]
        for node, off, value in zip(row, offset, values):
            self.x[node] = min(max(value, low), max(low, high)) + off


def families(table):
    """The first folder of rooms that have sub-rooms -> its colour."""
    heads = collections.Counter(family(path) for path in table.rooms)
    named = sorted(h for h, n in heads.items() if n > 1)
    return {h: PALETTE[i % len(PALETTE)] for i, h in enumerate(named)}


def family(path):
    parts = path.split("/")
    return "/".join(parts[:2])


def ports(layers):
    """Where each line leaves and enters boxes: along the box's edge, in the order of where it goes."""
    ends = collections.defaultdict(list)
    for k, (upper, lower, _, _) in enumerate(layers.lines):
        ends[upper, "leave"].append((layers.x[lower], k))
        ends[lower, "enter"].append((layers.x[upper], k))
    out = {}
    for (node, side), list_ in ends.items():
        half = max(0, layers.width(node) / 2 - 10)
        for i, (_, k) in enumerate(sorted(list_)):
            out[k, side] = layers.x[node] + half * (2 * (i + 1) / (len(list_) + 1) - 1)
    return out


def line(layers, k, top, port, color):
    """One piece of an arrow: from a box or a point down to the next, with a tip where that is a box."""
    upper, lower, _, solid = layers.lines[k]
    y, x, to = top + layers.row_of[upper] * PITCH, port[k, "leave"], port[k, "enter"]
    tip = isinstance(lower, str)
    end = top + layers.row_of[lower] * PITCH - (5 if tip else 0)
    start = f"M{x:.1f} {y + BOX}" if isinstance(upper, str) else f"M{x:.1f} {y}v{BOX}"
    mid = (y + BOX + end) / 2
    more = ("" if solid else ' stroke-dasharray="4 3"') + (' marker-end="url(#tip)"' if tip else "")
    return f'<path d="{start}C{x:.1f} {mid:.0f} {to:.1f} {mid:.0f} {to:.1f} {end}" stroke="{color}"{more}/>'


def group(table, rooms, edges, top, heading, prefix):
    """One group of floors: its lines of SVG and the height they take."""
    names = {r.path: r.path.removeprefix(prefix) for r in rooms}
    layers = Layers(rooms, edges, names)
    colors = families(table)
    out = [f'<text x="{MARGIN}" y="{top + 14}" fill="{GREY}" font-weight="bold">{html.escape(heading)}</text>']
    top += HEAD
    port = ports(layers)
    for i, floor in enumerate(layers.floors):
        y = top + i * PITCH + BOX / 2
        out.append(f'<path d="M{MARGIN + LABEL - 6} {y:.0f}H{WIDTH - MARGIN}" stroke="{GREY}" stroke-opacity=".18"/>')
        out.append(f'<text x="{MARGIN}" y="{y + 4:.0f}" fill="{GREY}">{floor}</text>')
    for k, (_, _, to, _) in enumerate(layers.lines):
        out.append(line(layers, k, top, port, colors.get(family(to), GREY)))
    for room in rooms:
        w, x, y = layers.width(room.path), layers.x[room.path], top + layers.row_of[room.path] * PITCH
        fill = colors.get(family(room.path), PLAIN)
        out.append(f'<g><title>{html.escape(room.purpose)}</title>'
                   f'<rect x="{x - w / 2:.1f}" y="{y}" width="{w:.1f}" height="{BOX}" rx="4" fill="{fill}"/>'
                   f'<text x="{x:.1f}" y="{y + 16}" fill="#fff" text-anchor="middle">'
                   f'{html.escape(names[room.path])}</text></g>')
    return out, HEAD + (len(layers.floors) - 1) * PITCH + BOX + 16


def picture(table, tree):
    after, top, body = downward(table, tree), MARGIN, []
    for heading, prefix in HEADINGS:
        rooms = [r for r in sorted(table.rooms.values(), key=lambda r: r.path) if r.path.startswith(prefix)]
        edges = [e for e in reduced(after) if e[0].startswith(prefix)]
        if rooms:
            lines, height = group(table, rooms, edges, top, heading, prefix)
            body += lines
            top += height
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
            f'font-family="Helvetica,Arial,sans-serif" font-size="{TEXT}" fill="none" stroke-width="1.2">',
            "<!-- SPDX-License-Identifier: Apache-2.0. Drawn by scripts/rooms.py; do not edit. -->",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="2" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M0 0L8 4L0 8z" fill="{GREY}"/></marker></defs>']
    return "\n".join(head + body + ["</svg>"]) + "\n"

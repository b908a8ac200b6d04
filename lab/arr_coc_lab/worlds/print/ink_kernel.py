"""The kernel of `paint.paint_runs`; importing it needs Triton."""

import triton  # ty: ignore[import-not-found]
import triton.language as tl  # ty: ignore[import-not-found]


@triton.jit
def row_sum(row, low, low_part, low_next, high, high_part, high_next, there):
    """The difference of a row's linear values at two places of it."""
    a = tl.load(row + low, mask=there, other=0).to(tl.float32)
    b = tl.load(row + low_next, mask=there, other=0).to(tl.float32)
    c = tl.load(row + high, mask=there, other=0).to(tl.float32)
    d = tl.load(row + high_next, mask=there, other=0).to(tl.float32)
    return c * (1 - high_part) + d * high_part - a * (1 - low_part) - b * low_part


@triton.jit
def ink_of(sums, glyphs, first, letter, x, y, base, down, across, there, LEVELS: tl.constexpr):
    """The share of each pixel's square that the letter's ink covers, as `paint._ink`."""
    origin = tl.load(glyphs + letter * 5, mask=there, other=0.0)
    left = tl.load(glyphs + letter * 5 + 1, mask=there, other=0.0)
    top = tl.load(glyphs + letter * 5 + 2, mask=there, other=0.0)
    wide = tl.load(glyphs + letter * 5 + 3, mask=there, other=0.0)
    high = tl.load(glyphs + letter * 5 + 4, mask=there, other=0.0)
    start = tl.load(first + letter, mask=there, other=0)
    stride = wide.to(tl.int32) + 1
    half_x, half_y = tl.maximum(across, 1.0) / 2, tl.maximum(down, 1.0) / 2
    u, v = (x - origin) * across - left, (y - base) * down + top
    u0, u1 = tl.minimum(tl.maximum(u - half_x, 0.0), wide), tl.minimum(tl.maximum(u + half_x, 0.0), wide)
    v0, v1 = tl.minimum(tl.maximum(v - half_y, 0.0), high), tl.minimum(tl.maximum(v + half_y, 0.0), high)
    c0, c1, r0, r1 = u0.to(tl.int32), u1.to(tl.int32), v0.to(tl.int32), v1.to(tl.int32)
    p0, p1, q0, q1 = u0 - c0, u1 - c1, v0 - r0, v1 - r1
    last_c, last_r = wide.to(tl.int32), high.to(tl.int32)
    d0, d1 = tl.minimum(c0 + 1, last_c), tl.minimum(c1 + 1, last_c)
    s0, s1 = tl.minimum(r0 + 1, last_r), tl.minimum(r1 + 1, last_r)
    total = row_sum(sums + start + r1 * stride, c0, p0, d0, c1, p1, d1, there) * (1 - q1)
    total += row_sum(sums + start + s1 * stride, c0, p0, d0, c1, p1, d1, there) * q1
    total -= row_sum(sums + start + r0 * stride, c0, p0, d0, c1, p1, d1, there) * (1 - q0)
    total -= row_sum(sums + start + s0 * stride, c0, p0, d0, c1, p1, d1, there) * q0
    return total / (4 * LEVELS * half_x * half_y)


@triton.jit
def lay_ink(
    canvas, line, facts, table, glyphs, first, sums, colours, weights, total, plane, width, entries,
    LETTERS: tl.constexpr, LEVELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`paint_runs` for BLOCK pixels, laid over the canvas in place. entries: one more than pieces of text a picture."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = tl.load(line + pixel, mask=pixel < total, other=0)
    there = number > 0
    picture, at = pixel // plane, pixel % plane
    x, y = (at % width).to(tl.float32) + 0.5, (at // width).to(tl.float32) + 0.5
    entry = picture * entries + number
    base = tl.load(facts + entry * 4, mask=there, other=1.0)
    down = tl.load(facts + entry * 4 + 1, mask=there, other=1.0)
    across = tl.load(facts + entry * 4 + 2, mask=there, other=1.0)
    slant = tl.load(facts + entry * 4 + 3, mask=there, other=0.0)
    x = x - slant * (base - y)
    column = tl.minimum(tl.maximum(tl.floor(x).to(tl.int32), 0), width - 1)
    letter = tl.load(table + entry * width + column, mask=there, other=0).to(tl.int32)
    own = entry * LETTERS + letter
    ink = ink_of(sums, glyphs, first, own, x, y, base, down, across, there, LEVELS)
    # What hangs over from the letter in front or behind, whichever is nearer.
    origin = tl.load(glyphs + own * 5, mask=there, other=0.0)
    left = tl.load(glyphs + own * 5 + 1, mask=there, other=0.0)
    wide = tl.load(glyphs + own * 5 + 3, mask=there, other=0.0)
    step = tl.where(x < origin + (left + 0.5 * wide) / across, -1, 1)
    beside = there & (letter + step >= 0) & (letter + step < LETTERS)
    ink += tl.where(beside, ink_of(sums, glyphs, first, own + step, x, y, base, down, across, beside, LEVELS), 0.0)
    ink = tl.minimum(tl.maximum(ink, 0.0), 1.0)
    weight = tl.load(weights + picture, mask=there, other=1.0)
    ink = tl.where(ink > 0, tl.exp2(weight * tl.log2(tl.maximum(ink, 1e-9))), 0.0)
    for channel in range(3):
        place = canvas + (picture * 3 + channel) * plane + at
        value = tl.load(place, mask=there, other=0.0)
        colour = tl.load(colours + entry * 3 + channel, mask=there, other=0.0)
        tl.store(place, value + (colour - value) * ink, mask=there)

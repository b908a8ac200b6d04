"""The kernel of `turning`; importing it needs Triton."""

import triton  # ty: ignore[import-not-found]
import triton.language as tl  # ty: ignore[import-not-found]


@triton.jit
def turn(
    query_in, key_in, value_in, query_out, key_out, value_out, cosine, sine,
    row_in, row_out, total, direction, HEADS: tl.constexpr, HALF: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Heads of rows: two halves multiplied and exchanged for queries and keys, copied for values."""
    number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = (number < total)[:, None]
    row, head = number // HEADS, number % HEADS
    inside = tl.arange(0, HALF)[None, :]
    start = (row * row_in + head * (2 * HALF))[:, None] + inside
    goal = (row * row_out + head * (2 * HALF))[:, None] + inside
    angle = row[:, None] * (2 * HALF) + HALF + inside
    c = tl.load(cosine + angle, mask=there).to(tl.float32)
    s = tl.load(sine + angle, mask=there).to(tl.float32) * direction
    first = tl.load(query_in + start, mask=there).to(tl.float32)
    second = tl.load(query_in + start + HALF, mask=there).to(tl.float32)
    tl.store(query_out + goal, first * c - second * s, mask=there)
    tl.store(query_out + goal + HALF, second * c + first * s, mask=there)
    first = tl.load(key_in + start, mask=there).to(tl.float32)
    second = tl.load(key_in + start + HALF, mask=there).to(tl.float32)
    tl.store(key_out + goal, first * c - second * s, mask=there)
    tl.store(key_out + goal + HALF, second * c + first * s, mask=there)
    tl.store(value_out + goal, tl.load(value_in + start, mask=there), mask=there)
    tl.store(value_out + goal + HALF, tl.load(value_in + start + HALF, mask=there), mask=there)

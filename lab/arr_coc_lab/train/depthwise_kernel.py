"""The kernels of `depthwise`; importing it needs Triton."""

import triton  # ty: ignore[import-not-found]
import triton.language as tl  # ty: ignore[import-not-found]


@triton.jit
def spread(
    features, weight, bias, result, height, width, channels,
    DOWN: tl.constexpr, ACROSS: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr, BIASED: tl.constexpr,
):  # fmt: skip
    """A row's columns and channels: every tap's feature times its weight. features, result: (B, H, W, C). weight:
    (DOWN · ACROSS, C)."""
    line, row = tl.program_id(0), tl.program_id(0) % height
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    total = tl.zeros((COLUMNS, CHANNELS), tl.float32)
    if BIASED:
        total += tl.load(bias + channel).to(tl.float32)[None, :]
    for down in tl.static_range(DOWN):
        high = row + down - DOWN // 2 + column * 0
        for across in tl.static_range(ACROSS):
            wide = column + across - ACROSS // 2
            seen = (high >= 0) & (high < height) & (wide >= 0) & (wide < width)
            place = ((line + down - DOWN // 2) * width + wide) * channels
            value = tl.load(features + place[:, None] + channel[None, :], mask=seen[:, None], other=0.0)
            factor = tl.load(weight + (down * ACROSS + across) * channels + channel)
            total += value.to(tl.float32) * factor.to(tl.float32)[None, :]
    place = (line * width + column) * channels
    tl.store(result + place[:, None] + channel[None, :], total, mask=(column < width)[:, None])


@triton.jit
def gather(
    features, gradient, result, lines, height, width, channels, each,
    DOWN: tl.constexpr, ACROSS: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """The gradient of the weights of one row of taps, from `each` lines of all pictures. result: (parts, DOWN, ACROSS,
    C) float32."""
    part, down = tl.program_id(0), tl.program_id(1)
    channel = tl.program_id(2) * CHANNELS + tl.arange(0, CHANNELS)
    tap = tl.arange(0, 16)
    total = tl.zeros((16, CHANNELS), tl.float32)
    for line in range(part * each, tl.minimum(part * each + each, lines)):
        high = line % height + down - DOWN // 2
        if (high >= 0) & (high < height):
            for first in range(0, width, COLUMNS):
                column = first + tl.arange(0, COLUMNS)
                place = (line * width + column) * channels
                there = (column < width)[:, None]
                slope = tl.load(gradient + place[:, None] + channel[None, :], mask=there, other=0.0).to(tl.float32)
                for across in tl.static_range(ACROSS):
                    wide = column + across - ACROSS // 2
                    seen = ((wide >= 0) & (wide < width))[:, None]
                    place = ((line + down - DOWN // 2) * width + wide) * channels
                    value = tl.load(features + place[:, None] + channel[None, :], mask=seen, other=0.0)
                    one = tl.sum(value.to(tl.float32) * slope, 0)
                    total += tl.where((tap == across)[:, None], one[None, :], 0.0)
    place = ((part * DOWN + down) * ACROSS + tap) * channels
    tl.store(result + place[:, None] + channel[None, :], total, mask=(tap < ACROSS)[:, None])

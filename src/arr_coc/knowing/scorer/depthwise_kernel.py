"""The kernel of `swift.DepthwiseNorm`; importing it needs Triton."""

import triton  # ty: ignore[import-not-found]
import triton.language as tl  # ty: ignore[import-not-found]


@triton.jit
def convolved(
    features, weights, bias, pixel, row, col, there, height, width,
    START: tl.constexpr, PART: tl.constexpr, WIDTH: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """(pixels, PART) float32: channels from START on, each convolved by itself; outside of the picture is zero."""
    channel = START + tl.arange(0, PART)
    total = tl.load(bias + channel).to(tl.float32)[None, :] + tl.zeros([pixel.shape[0], PART], tl.float32)
    for down in range(DOWN):
        above = row + down - DOWN // 2
        inside = there & (above >= 0) & (above < height)
        line = pixel + (down - DOWN // 2) * width
        for across in tl.static_range(ACROSS):
            beside = col + (across - ACROSS // 2)
            seen = inside & (beside >= 0) & (beside < width)
            place = (line + (across - ACROSS // 2)) * WIDTH
            value = tl.load(features + place[:, None] + channel[None, :], mask=seen[:, None], other=0.0)
            weight = tl.load(weights + (down * ACROSS + across) * WIDTH + channel)
            total += value.to(tl.float32) * weight.to(tl.float32)[None, :]
    return total


@triton.jit(do_not_specialize=["total", "height", "width"])
def depthwise_norm(
    features, weights, bias, scale, out, total, height, width, epsilon,
    WIDTH: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Convolution of every channel by itself, bias, and the norm over channels, of PIXELS places with all WIDTH = FIRST
    + SECOND channels (powers of two; SECOND may be 0). Channels lie last; weights: (DOWN × ACROSS, WIDTH)."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    there = pixel < total
    row, col = (pixel // width) % height, pixel % width
    one = convolved(features, weights, bias, pixel, row, col, there, height, width, 0, FIRST, WIDTH, DOWN, ACROSS)
    square = tl.sum(one * one, 1)
    if SECOND:
        two = convolved(
            features, weights, bias, pixel, row, col, there, height, width, FIRST, SECOND, WIDTH, DOWN, ACROSS
        )
        square += tl.sum(two * two, 1)
    times = tl.rsqrt(square / WIDTH + epsilon)[:, None]
    channel = tl.arange(0, FIRST)
    place = out + (pixel * WIDTH)[:, None]
    factor = tl.load(scale + channel).to(tl.float32)[None, :]
    tl.store(place + channel[None, :], (one * times * factor).to(out.dtype.element_ty), mask=there[:, None])
    if SECOND:
        channel = FIRST + tl.arange(0, SECOND)
        factor = tl.load(scale + channel).to(tl.float32)[None, :]
        tl.store(place + channel[None, :], (two * times * factor).to(out.dtype.element_ty), mask=there[:, None])

"""The learned scorer for a GPU: half precision, channels last, and kernels that are fast there. Equal but for that.

Most of a block's time is memory: its depth-wise convolution, bias and norm are one Triton kernel (`depthwise_kernel`),
and its GELU is done by the product before it. Where Triton is missing or fails, or the environment says
ARR_COC_KERNELS=0, the same is done by torch's own operations.
"""

from __future__ import annotations

import copy
import os
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .reading_scorer import ChannelNorm, ConvBlock, Pointwise, ReadingScorer

SWITCH = "ARR_COC_KERNELS"
EPSILON = 1e-6
# Values that one program of the kernel holds, and its warps.
TILE, WARPS = 2048, 4
LARGEST = 2**31  # values of a map whose places the kernel can count


class SplitDepthwise(nn.Module):
    """A depth-wise convolution that is wider across than down, as square ones side by side.

    With channels last a GPU has fast kernels only for small square ones: 3×11 takes 1 066 µs at once and 330 in parts.
    """

    def __init__(self, whole: nn.Conv2d) -> None:
        super().__init__()
        assert whole.bias is not None
        (down, across), self.width = whole.kernel_size, whole.out_channels
        starts = range(0, across, down)
        padded = F.pad(whole.weight.detach(), (0, starts[-1] + down - across))
        self.weights = nn.ParameterList([padded[..., start : start + down].clone() for start in starts])
        self.bias = nn.Parameter(whole.bias.detach().clone())
        beside = max(across // 2, starts[-1] - across // 2 + down - 1)
        self.padding = down // 2, beside
        self.offsets = [start - across // 2 + beside for start in starts]

    def forward(self, features: Tensor) -> Tensor:
        wide, total = features.shape[3], self.bias[:, None, None]
        for weight, offset in zip(self.weights, self.offsets, strict=True):
            seen = F.conv2d(features, weight, padding=self.padding, groups=self.width)
            total = total + seen[..., offset : offset + wide]
        return total


class DepthwiseNorm(nn.Module):
    """The convolution and the norm of a `ConvBlock`, with channels last: by one kernel where that runs, else one after
    the other."""

    # Why the kernel is not used in this process any more; told once.
    broken: str | None = None

    def __init__(self, whole: nn.Conv2d, norm: ChannelNorm, *, kernel: bool) -> None:
        super().__init__()
        assert whole.bias is not None
        self.down, self.across = whole.kernel_size
        self.plain: nn.Module = SplitDepthwise(whole) if self.down < self.across else whole
        self.norm, self.kernel = norm, kernel
        taps = whole.weight.detach()[:, 0].flatten(1).T.contiguous()  # (taps, C)
        self.taps = nn.Parameter(taps, requires_grad=False)
        self.bias = nn.Parameter(whole.bias.detach().clone(), requires_grad=False)

    def forward(self, features: Tensor) -> Tensor:
        """(B, C, H, W) with channels last → the same."""
        if self.kernel and self.fits(features):
            try:
                return fused_depthwise(features, self.taps, self.bias, self.norm.weight, (self.down, self.across))
            except Exception as error:  # a compiler, a driver, a card: the plain way gives the same map
                line = f"{type(error).__name__}: {error}".splitlines()[0]
                type(self).broken = line
                warnings.warn(f"the scorer runs without its kernel ({line})", stacklevel=2)
        return self.norm(self.plain(features))

    def fits(self, features: Tensor) -> bool:
        """Can the kernel read this?"""
        return (
            type(self).broken is None
            and features.is_cuda
            and features.numel() < LARGEST
            and parts_of(features.shape[1]) is not None
            and self.down % 2 == self.across % 2 == 1
            and not (torch.is_grad_enabled() and features.requires_grad)
        )


def parts_of(width: int) -> tuple[int, int] | None:
    """A number of channels as the sum of two powers of two, the second perhaps 0; None where it is none."""
    first = 1 << (width.bit_length() - 1)
    second = width - first
    return (first, second) if second & (second - 1) == 0 else None


def fused_depthwise(
    features: Tensor, taps: Tensor, bias: Tensor, scale: Tensor, kernel: tuple[int, int], tile: tuple[int, int] = (0, 0)
) -> Tensor:
    """Convolution of every channel by itself, bias and norm, in one kernel.

    Args:
        features: (B, C, H, W), made channels last where it is not.
        taps: (rows × columns of the kernel, C).
        bias: (C,)
        scale: (C,) of the norm.
        kernel: Its rows and columns, both odd.
        tile: Values that one program holds, and its warps; 0 takes what was found to be good.

    Returns:
        (B, C, H, W) with channels last.
    """
    from .depthwise_kernel import depthwise_norm

    parts = parts_of(features.shape[1])
    assert parts is not None
    features = features.contiguous(memory_format=torch.channels_last)
    out = torch.empty_like(features)
    batch, width, rows, cols = features.shape
    pixels = max(1, (tile[0] or TILE) // parts[0])
    total = batch * rows * cols
    shape = {"WIDTH": width, "DOWN": kernel[0], "ACROSS": kernel[1], "FIRST": parts[0], "SECOND": parts[1]}
    with torch.cuda.device_of(features):
        depthwise_norm[(-(-total // pixels),)](
            *(features, taps, bias, scale, out, total, rows, cols, EPSILON),
            **shape,
            PIXELS=pixels,
            num_warps=tile[1] or WARPS,
            enable_fp_fusion=True,
        )
    return out


class SwiftBlock(nn.Module):
    """A `ConvBlock` on maps with channels last."""

    def __init__(self, block: ConvBlock, *, kernel: bool) -> None:
        super().__init__()
        self.spatial = DepthwiseNorm(block.spatial, block.norm, kernel=kernel)
        self.expand, self.contract, self.modulate = block.expand, block.contract, block.modulate
        self.kernel = kernel

    def forward(self, features: Tensor, query: Tensor | None = None) -> Tensor:
        placed = self.spatial(features).permute(0, 2, 3, 1)
        hidden = self.expanded(placed)
        if self.modulate is not None:
            hidden = hidden * (1 + self.modulate(query))[:, None, None]
        return features + F.linear(hidden, self.contract.weight, self.contract.bias).permute(0, 3, 1, 2)

    def expanded(self, placed: Tensor) -> Tensor:
        """(B, H, W, C) → (B, H, W, more): the first product and its GELU, which cuBLAS does in one with the form by
        tanh: never further than 0.0005 from the other."""
        weight, bias = self.expand.weight, self.expand.bias
        together = getattr(torch, "_addmm_activation", None)
        if self.kernel and placed.is_cuda and together is not None and not torch.is_grad_enabled():
            return together(bias, placed.flatten(0, 2), weight.T, use_gelu=True).unflatten(0, placed.shape[:3])
        return F.gelu(F.linear(placed, weight, bias))


def swift(scorer: ReadingScorer, kernel: bool | None = None) -> ReadingScorer:
    """The same scorer for a GPU.

    Args:
        scorer: In any precision; it stays as it is.
        kernel: Whether blocks run by their own kernel on a CUDA device. None asks the environment: ARR_COC_KERNELS=0
            says no.

    Returns:
        A copy of it, in half precision.
    """
    kernel = os.environ.get(SWITCH, "1") != "0" if kernel is None else kernel
    made = copy.deepcopy(scorer)
    for blocks in (made.fine, made.read, made.spell, made.words, made.spreads):
        for number, block in enumerate(blocks):
            assert isinstance(block, ConvBlock)
            blocks[number] = SwiftBlock(block, kernel=kernel)
    for module in made.modules():
        if isinstance(module, ChannelNorm | Pointwise):
            module.last = True
    layout: Any = {"dtype": torch.bfloat16, "memory_format": torch.channels_last}
    return made.to(**layout)

"""The scorer's depth-wise convolutions while it learns, on a GPU: channels last, forward and backward by own kernels.

cuDNN is slow where such a convolution is wider than high and where it learns. The parameters stay the convolution's
own, so checkpoints and exports know nothing of this. Without Triton, or where the check against the plain convolution
fails, everything stays as it is, and one line says so.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.knowing.scorer.reading_scorer import ChannelNorm, ConvBlock, Pointwise, ReadingScorer

# Of one program: columns forward, columns in the gradient of the weights, channels.
COLUMNS, LONGER, CHANNELS = 16, 32, 64
PARTS = 264  # of the lines, in that gradient: two for each of an H100's multiprocessors
NEAR = 2e-2  # of the largest value, in half precision


def lies_last(features: Tensor) -> Tensor:
    """(B, C, H, W) with its channels last in memory."""
    return features.contiguous(memory_format=torch.channels_last)


def _spread(features: Tensor, taps: Tensor, bias: Tensor | None, kernel: tuple[int, int]) -> Tensor:
    from .depthwise_kernel import spread

    number, channels, height, width = features.shape
    if features.numel() >= 1 << 31 or channels % CHANNELS:
        raise ValueError(f"features of shape {tuple(features.shape)} are not for these kernels")
    result = torch.empty_like(features)
    grid = (number * height, -(-width // COLUMNS), channels // CHANNELS)
    spread[grid](
        features, taps, taps if bias is None else bias, result, height, width, channels, *kernel, COLUMNS, CHANNELS,
        bias is not None, num_warps=4,
    )  # fmt: skip
    return result


class Depthwise(torch.autograd.Function):
    """(B, C, H, W), weight (C, 1, h, w), bias (C,) → the same convolution as `F.conv2d` with padding and groups."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.bfloat16)
    def forward(ctx, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        features = lies_last(features)
        kernel = (weight.shape[2], weight.shape[3])
        taps = weight.flatten(1).T.contiguous()
        ctx.save_for_backward(features, taps)
        ctx.kernel = kernel
        return _spread(features, taps, bias, kernel)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        from .depthwise_kernel import gather

        gradient = lies_last(gradients[0])
        features, taps = ctx.saved_tensors
        (down, across), (number, channels, height, width) = ctx.kernel, features.shape
        back = _spread(gradient, taps.flip(0).contiguous(), None, ctx.kernel)
        lines = number * height
        each = -(-lines // min(PARTS, lines))
        parts = -(-lines // each)
        found = torch.empty(parts, down, across, channels, device=gradient.device)
        gather[(parts, down, channels // CHANNELS)](
            features, gradient, found, lines, height, width, channels, each, down, across, LONGER, CHANNELS,
            num_warps=4,
        )  # fmt: skip
        weight = found.sum(0).flatten(0, 1).T.reshape(channels, 1, down, across)
        return back, weight, gradient.sum((0, 2, 3), dtype=torch.float32)


class OwnDepthwise(nn.Module):
    """A depth-wise convolution, with the parameters of `whole`, by `Depthwise`."""

    def __init__(self, whole: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = whole.weight, whole.bias

    def forward(self, features: Tensor) -> Tensor:
        return Depthwise.apply(features, self.weight, self.bias)


def agrees(whole: nn.Conv2d, size: tuple[int, int] = (13, 37)) -> bool:
    """Whether value and gradients are those of the plain convolution, but for rounding."""
    device = whole.weight.device
    generator = torch.Generator(device).manual_seed(0)
    shape = (2, whole.in_channels, *size)
    given, slope = (torch.randn(shape, generator=generator, device=device) for _ in range(2))
    given = given.requires_grad_()
    wanted = F.conv2d(given, whole.weight, whole.bias, padding=whole.padding, groups=whole.groups)
    assert whole.bias is not None
    parts = (given, whole.weight, whole.bias)
    wanted = (wanted, *torch.autograd.grad((wanted * slope).sum(), parts))
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        made = Depthwise.apply(given, whole.weight, whole.bias)
    made = (made, *torch.autograd.grad((made.float() * slope).sum(), parts))
    return all(
        bool((one.float() - other).detach().abs().max() <= NEAR * other.detach().abs().max())
        for one, other in zip(made, wanted, strict=True)
    )


def quicken(scorer: ReadingScorer) -> str:
    """Make a scorer learn faster on its device, in place. Returns what was done, in one line."""
    blocks = [module for module in scorer.modules() if isinstance(module, ConvBlock)]
    kinds = {tuple(block.spatial.weight.shape): block.spatial for block in blocks}
    try:
        if not all(agrees(kind) for kind in kinds.values()):
            return "depth-wise convolutions stay cuDNN's: our kernels disagree with them"
    except Exception as error:  # no Triton, or it cannot compile here: slower, and the same
        return f"depth-wise convolutions stay cuDNN's: {type(error).__name__}: {str(error).splitlines()[0][:120]}"
    for module in scorer.modules():
        if isinstance(module, ChannelNorm | Pointwise):
            module.last = True
    for block in blocks:
        block.spatial = OwnDepthwise(block.spatial)
    return f"depth-wise convolutions of {len(blocks)} blocks by own kernels"

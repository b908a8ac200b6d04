"""Training data of the reading scorer: Needle World, pages and print, as batches of one shape on one device.

All worlds are stored once on the device: pictures as bytes, characters with their places, questions with the boxes of
their answers and of what identifies them. A batch is crops by indexing and one `grid_sample`. Its shape never changes
within a stage, because every new shape costs a new plan for each convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.core.alphabet import QUESTION, lower_case, question_row
from arr_coc.knowing.scorer.reading_scorer import CELL

from ..worlds.needle import FAMILIES
from ..worlds.needle.batch import NeedleBatch
from ..worlds.needle.renderer import Asked
from ..worlds.office import make_page, side_by_side
from .allocations import box_cover
from .mini_model import ADDITIONS
from .own_data import OwnRecord
from .pictures import Glyphs, render_glyphs
from .print_world import PrintWorld

Uniform = Callable[..., Tensor]  # shape → numbers in [0, 1)
BLOCK = 8  # side in pixels of the blocks with targets for letters
ALPHABET = 97
# Maxima of a page and of a question; the last one is for characters of a page used in a step.
MOST_CHARACTERS, MOST_BOXES, MOST_CONTEXTS = 2400, 8, 4
# Instructions after a question; they must not influence the map.
ADDED = ("", *ADDITIONS)
PLAIN_SHARE = 0.8


@dataclass
class Lessons:
    """A batch. pictures: (B, 3, C, C) float in [0, 1]. questions: (B, 96) int64. answer, context: (B, rows, cols) in
    {0, 1}, cells that hold the answer and what identifies it. letters: (B, 97, C / 8, C / 8) bool. weight: (B,) 0 where
    the answer fell outside the crop."""

    pictures: Tensor
    questions: Tensor
    answer: Tensor
    context: Tensor
    letters: Tensor
    weight: Tensor


def joined(parts: list[Lessons]) -> Lessons:
    values = {item.name: torch.cat([getattr(part, item.name) for part in parts]) for item in fields(Lessons)}
    return Lessons(**values)


@dataclass
class Stack:
    """Pictures of any size in one tensor. pixels: (P, 3) uint8 of all of them, row by row. first: (N,) int64, the begin
    of each. sizes: (N, 2) int64 height, width. side: maximum length of a side; a multiple of a cell."""

    pixels: Tensor
    first: Tensor
    sizes: Tensor
    side: int

    @classmethod
    def of(cls, pictures: Iterable[np.ndarray], sizes: Sequence[tuple[int, int]], device: torch.device | str) -> Stack:
        """Store (H, W, 3) uint8 pictures of these sizes; a generator may make each after the one before is stored."""
        shape = torch.tensor(sizes, device=device)
        ends = shape.prod(1).cumsum(0)
        pixels = torch.empty(int(ends[-1]), 3, dtype=torch.uint8, device=device)
        pieces = pixels.split([height * width for height, width in sizes])
        for piece, picture in zip(pieces, pictures, strict=True):
            piece.copy_(torch.from_numpy(picture).view(-1, 3))
        return cls(pixels, ends - shape.prod(1), shape, _whole_cells(max(map(max, sizes))))

    @classmethod
    def of_equal(cls, pictures: Tensor) -> Stack:
        """Store pictures of one size, (N, 3, H, W) uint8."""
        number, _, height, width = pictures.shape
        first = torch.arange(number, device=pictures.device) * (height * width)
        sizes = torch.tensor([[height, width]], device=pictures.device).expand(number, 2)
        flat = pictures.permute(0, 2, 3, 1).reshape(-1, 3)
        return cls(flat, first, sizes, _whole_cells(max(height, width)))

    def windows(self, which: Tensor, top: Tensor, left: Tensor, reach: int) -> Tensor:
        """Crop pictures (B,) at corners → (B, 3, reach, reach) uint8; pixels outside a picture repeat its edge."""
        span = torch.arange(reach, device=which.device)
        height, width = self.sizes[which, :1], self.sizes[which, 1:]
        rows = torch.minimum((top[:, None] + span).clamp_min(0), height - 1)
        cols = torch.minimum((left[:, None] + span).clamp_min(0), width - 1)
        place = (self.first[which][:, None] + rows * width)[:, :, None] + cols[:, None, :]
        return self.pixels[place].permute(0, 3, 1, 2)


def _whole_cells(length: int) -> int:
    return -(-length // CELL) * CELL


@dataclass
class Shelf:
    """Pictures stored on a device. characters: (N, G, 3) x, y, identifier in lower case, far away if there is none.
    page: (Q,) the picture of each question; questions: (Q, 96) uint8; boxes (Q, K, 4), contexts (Q, K', 4) in pixels,
    NaN-free, empty boxes where there are fewer."""

    pictures: Stack
    characters: Tensor
    page: Tensor
    questions: Tensor
    boxes: Tensor
    contexts: Tensor

    def extent_of(self, asked: Tensor) -> Tensor:
        """Return the box (Q', 4) around answer and context of questions (Q',), ignoring empty boxes."""
        every = torch.cat([self.boxes[asked], self.contexts[asked]], 1)
        there = (every[..., 2] > every[..., 0])[..., None]
        low = torch.where(there, every, 1e6)[..., :2].amin(1)
        high = torch.where(there, every, -1e6)[..., 2:].amax(1)
        return torch.cat([low, high], 1)


@torch.no_grad()
def needle_shelf(size: int, number: int, seed: int, device: torch.device | str, split: str = "train") -> Shelf:
    """Draw `number` Needle pictures of size² in equal parts of every family, with one question each."""
    at_once = max(1, min(256, 256 * 512 * 512 // size**2))
    each = -(-number // len(FAMILIES))

    def drawn() -> Iterator[tuple[Tensor, Glyphs, Sequence[NeedleBatch]]]:
        for family in FAMILIES:
            for start in range(0, each, at_once):
                count = min(at_once, each - start)
                batch, glyphs = render_glyphs(family, count, (size, size), seed, split, device, start)
                yield batch.pictures, glyphs, [batch]

    return _drawn_shelf(drawn())


@torch.no_grad()
def print_shelf(world: PrintWorld, size: tuple[int, int], number: int) -> Shelf:
    """Draw `number` printed pages of one size, with three questions each."""
    at_once = max(1, min(64, 64 * 512 * 512 // (size[0] * size[1])))

    def drawn() -> Iterator[tuple[Tensor, Glyphs, Sequence[Asked]]]:
        for start in range(0, number, at_once):
            draws, printed = world.printed(min(at_once, number - start), size, start)
            yield printed.pixels, printed.glyphs, world.asked(draws, printed, size)

    return _drawn_shelf(drawn())


def _drawn_shelf(drawn: Iterable[tuple[Tensor, Glyphs, Sequence[Asked | NeedleBatch]]]) -> Shelf:
    """Store batches of (B, 3, H, W) pictures of one size, with their letters, and with a list of questions for each
    question of a picture; boxes in 0–1 of the picture."""
    pictures, letters, asked = [], [], []
    for pixels, glyphs, questions in drawn:
        first = sum(map(len, pictures))
        pictures.append(pixels)
        character = lower_case(glyphs.character)
        place = torch.stack([glyphs.x, glyphs.y, character], -1).float()
        letters.append(_most_characters(torch.where((character > 0)[..., None], place, -1e6)))
        scale = torch.tensor([pixels.shape[3], pixels.shape[2]] * 2, device=pixels.device)
        numbers = torch.arange(first, first + len(pixels), device=pixels.device)
        for one in questions:
            text = F.pad(lower_case(one.question_ids), (0, QUESTION - one.question_ids.shape[1])).to(torch.uint8)
            boxes, contexts = (
                value * mask[..., None] * scale
                for value, mask in ((one.boxes, one.box_mask), (one.ctx_boxes, one.ctx_mask))
            )
            kept = one.box_mask.any(1)
            asked.append([value[kept] for value in (numbers, text, boxes, contexts)])
    most = max(part.shape[1] for part in letters)
    characters = torch.cat([F.pad(part, (0, 0, 0, most - part.shape[1]), value=-1e6) for part in letters])
    return Shelf(Stack.of_equal(torch.cat(pictures)), characters, *map(torch.cat, zip(*asked, strict=True)))


def _most_characters(place: Tensor) -> Tensor:
    """Move existing characters of (B, G, 3) to the front, at most `MOST_CHARACTERS`, taken evenly."""
    there = place[..., 0] >= 0
    if place.shape[1] <= MOST_CHARACTERS:
        return place
    rank = (there.cumsum(1) - 1) * MOST_CHARACTERS / there.sum(1, keepdim=True).clamp_min(MOST_CHARACTERS)
    fresh = there & (rank.floor() != F.pad(rank, (1, -1), value=-1.0).floor())
    order = torch.where(fresh, 0, 1).argsort(dim=1, stable=True)[:, :MOST_CHARACTERS]
    return torch.where(fresh[..., None], place, -1e6).gather(1, order[..., None].expand(-1, -1, 3))


def page_shelf(split: str, seed: int, number: int, device: torch.device | str, workers: int = 1) -> Shelf:
    """Draw `number` pages of Office World, with every question about them."""
    jobs = ((split, seed, page) for page in range(number))
    return shelf_of([page for page in side_by_side(shelved_page, jobs, workers) if len(page.questions)], device)


def shelf_of(pages: Sequence[ShelvedPage], device: torch.device | str) -> Shelf:
    """Store pages of any size."""
    most = max(len(page.letters) for page in pages)
    letters = [F.pad(page.letters, (0, 0, 0, most - len(page.letters)), value=-1e6) for page in pages]
    numbers = torch.arange(len(pages)).repeat_interleave(torch.tensor([len(page.questions) for page in pages]))
    asked = [torch.cat([getattr(page, name) for page in pages]) for name in ("questions", "boxes", "contexts")]
    return Shelf(
        Stack.of((page.pixels for page in pages), [page.pixels.shape[:2] for page in pages], device),
        *(part.to(device) for part in (torch.stack(letters), numbers, *asked)),
    )


class ShelvedPage(NamedTuple):
    """One page of a shelf. pixels: (H, W, 3) uint8. letters: (G, 3). questions, boxes, contexts: as in `Shelf`."""

    pixels: np.ndarray
    letters: Tensor
    questions: Tensor
    boxes: Tensor
    contexts: Tensor


def shelved_page(job: tuple[str, int, int]) -> ShelvedPage:
    """Draw a page (split, seed, number)."""
    page = make_page(*job)
    pixels, asked = page.pixels(), page.questions
    scale = np.array([pixels.shape[1], pixels.shape[0]] * 2)
    # Accented letters count as those without accent; characters outside the alphabet become question marks.
    letters = torch.tensor([(x, y, question_row(letter)[0]) for x, y, letter in page.paper.letters()]).view(-1, 3)
    boxes = [fixed_number(page.boxes(one.answer) * scale, MOST_BOXES) for one in asked]
    contexts = [fixed_number(page.boxes(*one.named) * scale, MOST_CONTEXTS) for one in asked]
    return ShelvedPage(
        pixels,
        letters[torch.linspace(0, len(letters) - 1, min(len(letters), MOST_CHARACTERS)).round().long()],
        torch.tensor([question_row(one.text) for one in asked], dtype=torch.uint8),
        torch.from_numpy(np.array(boxes)),
        torch.from_numpy(np.array(contexts)),
    )


def own_page(record: OwnRecord) -> ShelvedPage:
    """Convert a user's record, which has no letters; of too many boxes, keep the largest."""
    pixels = record.pixels
    scale = np.array([pixels.shape[1], pixels.shape[0]] * 2)
    boxes, contexts = (
        torch.from_numpy(fixed_number(found[np.argsort(-np.prod(found[:, 2:] - found[:, :2], 1))] * scale, most)[None])
        for found, most in ((record.boxes, MOST_BOXES), (record.context, MOST_CONTEXTS))
    )
    question = torch.tensor([question_row(record.query)], dtype=torch.uint8)
    return ShelvedPage(pixels, torch.full((1, 3), -1e6), question, boxes, contexts)


def fixed_number(boxes: np.ndarray, number: int) -> np.ndarray:
    """Pad or cut boxes (n, 4) to (number, 4) float32; padding is empty boxes."""
    result = np.zeros((number, 4), np.float32)
    result[: min(number, len(boxes))] = boxes[:number]
    return result


def with_additions(questions: Tensor, generator: torch.Generator) -> Tensor:
    """Return questions (B, 96) int64, some of them with an instruction after them."""
    device = questions.device
    table = torch.tensor([question_row(text) for text in ADDED], device=device)
    plain = torch.rand(len(questions), generator=generator, device=device) < PLAIN_SHARE
    which = torch.randint(1, len(ADDED), (len(questions),), generator=generator, device=device)
    added = table[torch.where(plain, 0, which)]
    length = (questions > 0).sum(1, keepdim=True)
    place = torch.arange(QUESTION, device=device)
    tail = added.gather(1, (place - length).clamp_min(0))
    return torch.where(place < length, questions, tail)


@torch.no_grad()
def draw_lessons(
    shelf: Shelf,
    pool: Tensor,
    number: int,
    canvas: int,
    zoom: tuple[float, float],
    generator: torch.Generator,
    *,
    grey: float | None = 0.45,
    each: bool = False,
) -> Lessons:
    """Draw `number` questions of `pool` on crops of canvas², each page zoomed by a factor between the two of `zoom`.

    grey: the share that loses its colours; None: no picture is worn. each: every question of the pool once, in its
    order, instead of random ones."""
    device = shelf.page.device

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device)

    asked = pool if each else pool[torch.randint(len(pool), (number,), generator=generator, device=device)]
    page, extent = shelf.page[asked], shelf.extent_of(asked)
    scale = torch.exp(math.log(zoom[0]) + uniform(number) * math.log(zoom[1] / zoom[0]))
    span = (extent[:, 2:] - extent[:, :2]).amax(1).clamp_min(8)
    scale = torch.minimum(scale, canvas * 0.97 / span).clamp_min(zoom[0] * 0.75)
    size = shelf.pictures.sizes[page] * scale[:, None]  # height, width

    left, top = (
        crop_origin(extent[:, axis] * scale, extent[:, axis + 2] * scale, size[:, 1 - axis], canvas, uniform)
        for axis in (0, 1)
    )
    pictures = crops(shelf.pictures, page, (left, top), scale, (canvas, canvas), uniform, grey is not None, zoom[0])
    letters = letter_blocks(shelf.characters[page], left, top, scale, canvas)
    shift = torch.stack([left, top, left, top], -1)[:, None]
    rows = canvas // CELL
    cells = []
    for boxes in (shelf.boxes[asked], shelf.contexts[asked]):
        there = boxes[..., 2] > boxes[..., 0]
        placed = ((boxes * scale[:, None, None] - shift) / canvas).clamp(0, 1)
        cells.append((box_cover(placed, there, rows, rows) > 0.02).float())
    answer, context = cells
    questions = with_additions(shelf.questions[asked].long(), generator)
    if grey is not None:
        pictures = wear(pictures, uniform, grey)
    return Lessons(pictures, questions, answer, context * (1 - answer), letters, (answer.sum((1, 2)) > 0).float())


def crop_origin(low: Tensor, high: Tensor, side: Tensor, canvas: int, uniform: Uniform) -> Tensor:
    """Return the random begin of a crop along one axis, in zoomed pixels, so that low … high is inside."""
    slack = (canvas - (high - low)).clamp_min(0)
    inside = (low - slack * uniform(len(low))).clamp_min(0)
    inside = torch.minimum(inside, (side - canvas).clamp_min(0))
    return inside - (canvas - side).clamp_min(0) * uniform(len(low))


def crops(
    stack: Stack,
    page: Tensor,
    corner: tuple[Tensor, Tensor],
    scale: Tensor,
    canvas: tuple[int, int],
    uniform: Uniform,
    turned: bool,
    smallest: float,
) -> Tensor:
    """Sample crops (B, 3, *canvas) float in [0, 1], reading only the area that the widest needs. corner: left, top."""
    left, top = corner
    device, side, number = page.device, stack.side, len(page)
    reach = min(side, int(max(canvas) / (smallest * 0.75)) + 8)
    first_x, first_y = ((place / scale).floor().long().clamp(0, side - reach) for place in (left, top))
    ground = stack.windows(page, first_y, first_x, reach).float() / 255
    high, wide = (length / scale for length in canvas)
    move = torch.zeros(number, 2, 3, device=device)
    move[:, 0, 0], move[:, 1, 1] = wide / reach, high / reach
    move[:, 0, 2] = (2 * (left / scale - first_x) + wide) / reach - 1
    move[:, 1, 2] = (2 * (top / scale - first_y) + high) / reach - 1
    if turned:
        # A hundredth of a radian moves the edge of a crop by a few pixels: less than a block of letters.
        angle = (uniform(number) - 0.5) * 0.03 * (uniform(number) < 0.3)
        move[:, 0, 1], move[:, 1, 0] = -angle * high / reach, angle * wide / reach
    # Below three quarters a single sample would skip pixels: take four and average.
    twice = 2 if smallest < 0.8 else 1
    # Places always in float32: with the eight bits of bfloat16, letters near an edge are shifted by two pixels.
    with torch.autocast(device.type, enabled=False):
        grid = F.affine_grid(move, [number, 3, canvas[0] * twice, canvas[1] * twice], align_corners=False)
        taken = F.grid_sample(ground, grid, padding_mode="border", align_corners=False)
    return F.avg_pool2d(taken, 2) if twice == 2 else taken


def letter_blocks(characters: Tensor, left: Tensor, top: Tensor, scale: Tensor, canvas: int) -> Tensor:
    """Return which characters (B, G, 3) have their centre in each block: (B, 97, canvas / 8, canvas / 8) bool."""
    number, blocks = len(characters), canvas // BLOCK
    x = ((characters[..., 0] * scale[:, None] - left[:, None]) / BLOCK).floor().long()
    y = ((characters[..., 1] * scale[:, None] - top[:, None]) / BLOCK).floor().long()
    inside = (x >= 0) & (x < blocks) & (y >= 0) & (y < blocks)
    nowhere = ALPHABET * blocks * blocks
    which = characters[..., 2].long().clamp(0, ALPHABET - 1)
    place = torch.where(inside, (which * blocks + y) * blocks + x, nowhere)
    board = torch.zeros(number, nowhere + 1, dtype=torch.bool, device=characters.device)
    board.scatter_(1, place, torch.ones_like(place, dtype=torch.bool))
    return board[:, :-1].view(number, ALPHABET, blocks, blocks)


def wear(pictures: Tensor, uniform: Uniform, grey_share: float) -> Tensor:
    """Wear pictures (B, 3, C, C) randomly: grey, dark, pale, blurred, noisy, unevenly lit, faxed.

    If questions name colours, few of the pictures may lose theirs."""
    number, canvas = len(pictures), tuple(pictures.shape[2:])

    def some(share: float) -> Tensor:
        return (uniform(number, 1, 1, 1) < share).float()

    def amount(*shape: int) -> Tensor:
        return uniform(number, *(shape or (1, 1, 1)))

    grey = some(grey_share)
    worn = pictures * (1 - grey) + pictures.mean(1, keepdim=True) * grey
    dark = some(0.2 * grey_share)
    worn = worn * (1 - dark) + (1 - worn) * dark
    contrast = torch.where(some(0.6) > 0, 0.45 + 0.75 * amount(), 1.0)
    worn = (worn - 0.5) * contrast + 0.5 + 0.12 * (amount(3, 1, 1) - 0.5)
    soft = F.avg_pool2d(F.pad(worn, (1, 1, 1, 1), mode="replicate"), 3, 1)
    blurred = 0.9 * amount() * some(0.4)
    worn = worn * (1 - blurred) + soft * blurred
    light = F.interpolate(amount(1, 3, 3), canvas, mode="bicubic") * 0.25 * some(0.3)
    grain = uniform(number, 1, *canvas) - 0.5
    worn = worn - light + grain * 0.3 * amount() ** 2 * some(0.6)
    faxed = some(0.2 * grey_share)
    level = worn.mean(1, keepdim=True)
    middle = level.mean((2, 3), keepdim=True) - 0.12
    worn = worn * (1 - faxed) + ((level - middle) * 12).sigmoid() * faxed
    return worn.clamp(0, 1)
